#!/usr/bin/env python3
"""Peer of the blocked decode: the same computation in PyTorch, without any quantisation.

    blocked_torch.py --model FILE.gguf --tokens FILE --context N [--steps N] [--block N] [--threads N]

Teacher-forced blocks of rows after an exact prefix, bf16, SDPA, logits and their log-softmax in f32. Prints one JSON
object; rows per second count one decode.
"""
import argparse
import copy
import json
import time

import torch

import torch_model


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser()
    torch_model.add_arguments(parser, context=7680, steps=512)
    parser.add_argument("--block", type=int, default=256)
    parser.add_argument("--repetitions", type=int, default=2)
    args = parser.parse_args()
    model, ids = torch_model.open_model(args)
    begin = time.perf_counter()
    prefix = model(ids[None, : args.context], use_cache=True, logits_to_keep=1).past_key_values
    prefill = time.perf_counter() - begin
    best = float("inf")
    for _ in range(args.repetitions):
        cache = copy.deepcopy(prefix)
        begin = time.perf_counter()
        for first in range(args.context, args.context + args.steps, args.block):
            model(ids[None, first : first + args.block], past_key_values=cache).logits.float().log_softmax(-1)
        best = min(best, time.perf_counter() - begin)
    print(json.dumps({"peer": "blocked torch", "context": args.context, "steps": args.steps, "block": args.block,
                      "prefill_seconds": prefill, "prefill_tokens_per_second": args.context / prefill,
                      "decode_seconds": best, "rows_per_second": args.steps / best}))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Peer of the collector: a step-by-step twin decode with Hugging Face transformers on the CPU.

    transformers_twin.py --model FILE.gguf --tokens FILE --context N --steps N --threads N

One exact prefill, then teacher-forced steps: one over the exact cache (the reference) and one over each
simulated low-bit cache (K and V of every older token replaced by their 1-bit reconstruction, sign x mean
magnitude per token and head: the cheapest of all schemes to simulate). bf16, SDPA. `--tokens` is a text
file of ids, at least context + steps. Prints one JSON object.
"""
import argparse
import copy
import json
import time

import torch

import torch_model


def sign_mean(x):
    scale = x.abs().float().mean(-1, keepdim=True).half()
    return (torch.where(x >= 0, 1.0, -1.0) * scale).to(x.dtype)


def quantise_from(cache, first, last):
    """Replaces tokens [first, last) of every layer by their reconstruction."""
    for layer in cache.layers:
        for tensor in (layer.keys, layer.values):
            tensor[:, :, first:last] = sign_mean(tensor[:, :, first:last])


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser()
    torch_model.add_arguments(parser, context=1024, steps=32)
    parser.add_argument("--schemes", type=int, default=1)
    args = parser.parse_args()
    model, ids = torch_model.open_model(args)

    begin = time.perf_counter()
    exact = model(ids[None, : args.context - 1], use_cache=True, logits_to_keep=1).past_key_values
    prefill = time.perf_counter() - begin
    quantised = [copy.deepcopy(exact) for _ in range(args.schemes)]
    for cache in quantised:
        quantise_from(cache, 0, args.context - 1)

    for warm in range(2):  # untimed
        cache = copy.deepcopy(exact)
        model(ids[None, args.context - 1 : args.context], past_key_values=cache)

    begin = time.perf_counter()
    kl = 0.0
    for step in range(args.steps):
        position = args.context - 1 + step
        token = ids[None, position : position + 1]
        reference = model(token, past_key_values=exact).logits[0, -1].float().log_softmax(-1)
        for cache in quantised:
            logits = model(token, past_key_values=cache).logits[0, -1].float().log_softmax(-1)
            kl += (reference.exp() * (reference - logits)).sum().item()
            quantise_from(cache, position, position + 1)
    decode = time.perf_counter() - begin
    paired = args.steps * args.schemes
    print(json.dumps({"peer": "transformers", "context": args.context, "schemes": args.schemes, "steps": args.steps,
                      "prefill_seconds": prefill, "prefill_tokens_per_second": (args.context - 1) / prefill,
                      "decode_seconds": decode, "paired_steps_per_second": paired / decode,
                      "mean_kl": kl / paired}))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Peer: llama.cpp on the CPU through llama-cpp-python: prefill, and step-by-step decoding over FP16 and q4_0 caches.

    llama_cpp_speed.py --model FILE.gguf --contexts 2048 8192 [--types q8_0 bf16] [--steps 24] [--threads 2]

Every weight type is made from the file (a file of that type already is used as it is), flash attention is on, and
prompts run in its default blocks of 512 rows. Prints one JSON object: per type and context tokens per second, the best
of some, and under "best" the fastest type of each. With --fill no prompt is processed: the cache is filled with copies
of the cells of 512 tokens (a step's time does not depend on what they hold), and only steps are timed.
"""
import argparse
import json
import pathlib
import tempfile
import time

import llama_cpp
import numpy as np

from llama_cpp_state import repeated

FILE_TYPES = {"f16": llama_cpp.LLAMA_FTYPE_MOSTLY_F16, "bf16": llama_cpp.LLAMA_FTYPE_MOSTLY_BF16,
              "q8_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0, "q4_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0}
CACHES = {"f16": llama_cpp.GGML_TYPE_F16, "q4_0": llama_cpp.GGML_TYPE_Q4_0}


def of_type(model, name, folder):
    if name == "as-is":
        return model
    target = str(pathlib.Path(folder) / f"{name}.gguf")
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype, parameters.allow_requantize, parameters.nthread = FILE_TYPES[name], True, 2
    if llama_cpp.llama_model_quantize(str(model).encode(), target.encode(), parameters) != 0:
        raise SystemExit(f"{name}: llama.cpp could not convert {model}")
    return target


class Decoder:
    """One model with one kind of cache."""

    def __init__(self, path, cache, length, threads):
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx, parameters.n_batch, parameters.n_ubatch = length, 2048, 512
        parameters.n_threads = parameters.n_threads_batch = threads
        parameters.type_k = parameters.type_v = CACHES[cache]
        parameters.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED
        self.context = llama_cpp.llama_init_from_model(self.model, parameters)
        if not self.context:
            raise SystemExit("llama.cpp could not make a context")

    def close(self):
        llama_cpp.llama_free(self.context)
        llama_cpp.llama_model_free(self.model)

    def clear(self):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)

    def append(self, ids):
        for first in range(0, len(ids), 2048):
            some = np.ascontiguousarray(ids[first : first + 2048], np.int32)
            pointer = some.ctypes.data_as(llama_cpp.ctypes.POINTER(llama_cpp.llama_token))
            if llama_cpp.llama_decode(self.context, llama_cpp.llama_batch_get_one(pointer, len(some))) != 0:
                raise SystemExit("llama.cpp could not decode")

    def fill(self, ids, cells):
        """`cells` tokens in the cache, from the first ones of `ids`."""
        self.clear()
        self.append(ids)
        buffer = (llama_cpp.ctypes.c_uint8 * llama_cpp.llama_state_seq_get_size(self.context, 0))()
        written = llama_cpp.llama_state_seq_get_data(self.context, buffer, len(buffer), 0)
        state = repeated(bytes(buffer[:written]), cells)
        self.clear()
        buffer = (llama_cpp.ctypes.c_uint8 * len(state)).from_buffer_copy(state)
        if llama_cpp.llama_state_seq_set_data(self.context, buffer, len(buffer), 0) != len(buffer):
            raise SystemExit("llama.cpp did not take the longer state")


def measure(path, cache, context, args):
    vocabulary = 32768
    ids = np.random.default_rng(1).integers(0, vocabulary, context + args.steps)
    decoder = Decoder(path, cache, context + args.steps + 8, args.threads)
    decoder.append(ids[:64])
    prefill = decode = float("inf")
    for _ in range(args.repetitions):
        if args.fill:
            decoder.fill(ids[:512], context)
        else:
            decoder.clear()
            begin = time.perf_counter()
            decoder.append(ids[:context])
            prefill = min(prefill, time.perf_counter() - begin)
        begin = time.perf_counter()
        for i in range(context, context + args.steps):
            decoder.append(ids[i : i + 1])
        decode = min(decode, time.perf_counter() - begin)
    decoder.close()
    steps = {"steps_per_second": args.steps / decode}
    return steps if args.fill else {"prefill_tokens_per_second": context / prefill, **steps}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--contexts", type=int, nargs="+", default=[2048, 8192])
    parser.add_argument("--types", nargs="+", default=["as-is", "q8_0", "bf16"], choices=["as-is", *FILE_TYPES])
    parser.add_argument("--caches", nargs="+", default=list(CACHES), choices=CACHES)
    parser.add_argument("--fill", action="store_true")
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repetitions", type=int, default=2)
    args = parser.parse_args()
    llama_cpp.llama_backend_init()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for name in args.types:
            path = of_type(args.model, name, folder)
            for context in args.contexts:
                for cache in args.caches:
                    results.append({"type": name, "context": context, "cache": cache,
                                    **measure(path, cache, context, args)})
    best = {}
    for result in results:
        for rate in result.keys() & {"prefill_tokens_per_second", "steps_per_second"}:
            key = f"{rate} {result['context']} {result['cache']}"
            if key not in best or result[rate] > best[key][rate]:
                best[key] = {"type": result["type"], rate: result[rate]}
    print(json.dumps({"peer": "llama.cpp", "system": llama_cpp.llama_print_system_info().decode(), "results": results,
                      "best": best}))


if __name__ == "__main__":
    main()

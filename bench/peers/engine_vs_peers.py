#!/usr/bin/env python3
"""The engine against transformers, llama.cpp and oneDNN on one model: same ids, same cores, one run.

    engine_vs_peers.py --model FILE.gguf|FOLDER [--contexts 2048 8192] [--llama-python PYTHON] [--build build/bench]

Prefill: tokens per second of each, and the share of oneDNN's rate on the model's own products (512 rows, output matrix
left out) that the whole prefill reaches: of the linear layers' operations alone, and with attention's. Paired steps:
the collector's blocked decode with four schemes at once against llama.cpp's step-by-step rate. Step by step: packed
caches against llama.cpp's FP16 and q4_0 ones.

Needs a Python with torch, transformers, gguf and numpy, the `bench` preset built and, for llama.cpp, a Python with
llama-cpp-python (--llama-python) and a GGUF file (--llama-model). What is compared alternates, so that a machine whose
speed drifts is fair to all; ratios are of the best of each. Prints one JSON object.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).parent
SCHEMES = ["K2V2", "uniform-K1V1", "K1V1", "K4V4"]


def run(*command):
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout


def keep_best(best, name, rate):
    best[name] = max(rate, best.get(name, 0))


def llama_rates(output, kind, context):
    """Rates of one kind by cache, of the fastest weight type."""
    best = json.loads(output)["best"]
    return {key.split()[2]: value[kind] for key, value in best.items() if key.startswith(f"{kind} {context} ")}


def measure(args, context, ids):
    """Tokens, paired steps and steps per second at one context: {what: {who: rate}}."""
    rates = {"prefill": {}, "paired_steps": {}, "steps": {}}
    ours = [f"{args.build}/bench/collector_speed", args.model, ids, context]
    for _ in range(args.rounds):
        exact = json.loads(run(*ours, 16, 16, "exact"))
        keep_best(rates["prefill"], "dgap", context / exact["prefill_and_fork_seconds"])
        torch = json.loads(run(sys.executable, HERE / "blocked_torch.py", "--model", args.model, "--tokens", ids,
                               "--context", context, "--steps", 8, "--block", 8, "--repetitions", 1, "--threads",
                               args.threads))
        keep_best(rates["prefill"], "transformers", torch["prefill_tokens_per_second"])
        if args.llama_python:
            output = run(args.llama_python, HERE / "llama_cpp_speed.py", "--model", args.llama_model, "--contexts",
                         context, "--types", *args.llama_types, "--repetitions", 1, "--threads", args.threads)
            keep_best(rates["prefill"], "llama.cpp", max(llama_rates(output, "prefill_tokens_per_second",
                                                                     context).values()))
            for cache, rate in llama_rates(output, "steps_per_second", context).items():
                keep_best(rates["steps"], f"llama.cpp {cache}", rate)
        if args.decodes:
            paired = json.loads(run(*ours, 512, 512, *SCHEMES))
            keep_best(rates["paired_steps"], "dgap", paired["paired_steps_per_second"])
            for line in run(f"{args.build}/bench/step_speed", args.model, "auto", context - 16).splitlines():
                steps = json.loads(line)
                keep_best(rates["steps"], f"dgap {steps['scheme']}", steps["tokens_per_second"])
    return rates


def onednn(args):
    """Tera-operations of 512 rows through the layers, and oneDNN's rate on them."""
    for line in run(f"{args.build}/bench/onednn_products", args.model, 512, "bf16").splitlines():
        product = json.loads(line)
        if product["product"] == "layers":
            return product["tflop"] / 512, product["onednn_tflops"]


def attention_tflop(args, context):
    """Of one token's scores and weighted sums, on average over a prefill."""
    path = pathlib.Path(args.model)
    if path.is_dir():
        shape = json.loads((path / "config.json").read_text())
        layers, width = shape["num_hidden_layers"], shape["num_attention_heads"] * shape["head_dim"]
    else:
        import gguf
        fields = gguf.GGUFReader(path).fields
        layers = fields["llama.block_count"].contents()
        width = fields["llama.embedding_length"].contents()
    return 4e-12 * layers * width * (context + 1) / 2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--contexts", type=int, nargs="+", default=[2048, 8192])
    parser.add_argument("--llama-python")
    parser.add_argument("--llama-model", help="the same as a GGUF file (folder_to_gguf.py), where --model is a folder")
    parser.add_argument("--llama-types", nargs="+", default=["as-is", "q8_0", "bf16"])
    parser.add_argument("--prefill-only", dest="decodes", action="store_false")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2, help="processors that everybody is bound to")
    parser.add_argument("--build", default="build/bench")
    args = parser.parse_args()
    args.llama_model = args.llama_model or args.model
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])
    report = {}
    with tempfile.NamedTemporaryFile("w", suffix=".ids") as file:
        ids = np.random.default_rng(1).integers(0, 32768, max(args.contexts) + 512)
        file.write(" ".join(map(str, ids)))
        file.flush()
        for context in args.contexts:
            rates = measure(args, context, file.name)
            ratios = {f"prefill over {name}": rates["prefill"]["dgap"] / rate
                      for name, rate in rates["prefill"].items() if name != "dgap"}
            steps = rates["steps"]
            if "llama.cpp f16" in steps and args.decodes:
                ratios["paired steps over llama.cpp's steps"] = rates["paired_steps"]["dgap"] / steps["llama.cpp f16"]
                ratios.update({f"steps over llama.cpp q4_0, {name[5:]}": rate / steps["llama.cpp q4_0"]
                               for name, rate in steps.items() if name.startswith("dgap ")})
            per_token, peak = onednn(args)
            speed = rates["prefill"]["dgap"]
            ratios["prefill's linear layers over oneDNN's rate"] = speed * per_token / peak
            ratios["prefill with attention over oneDNN's rate"] = (
                speed * (per_token + attention_tflop(args, context)) / peak)
            report[context] = {**rates, "onednn_tflops": peak, "ratios": ratios}
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()

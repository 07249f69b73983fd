#!/usr/bin/env python3
"""The collector against a step-by-step twin decode with transformers: same model, tokens, context, cores, one run.

    collector_vs_transformers.py --model FILE.gguf --text FILE.txt [--context 1024] [--schemes 1] [--build build/bench]

A twin decode is two decodes, one over the exact cache and one over a low-bit one ("twin"). With several schemes one can
spare the reference decodes but one, as the collector does ("transformers"): ratios to both are printed. Beside them
PyTorch in blocks of rows, which is what one would write without this project.

Needs a Python with torch, transformers, gguf, accelerate and tokenizers, and the `bench` preset built. The two
alternate, so that a machine whose speed drifts is fair to both; ratios are of the best of each. Prints one
JSON object.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import gguf
from tokenizers import Tokenizer, models, pre_tokenizers

HERE = pathlib.Path(__file__).parent
PRECISIONS = ["K2V2", "uniform-K1V1", "K1V1", "K4V4"]


def ids_of(model, text):
    fields = gguf.GGUFReader(model).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"].contents()]
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    return tokenizer.encode(text).ids


def run(command):
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--text", required=True)
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--schemes", type=int, default=1)
    parser.add_argument("--steps", type=int, default=512)
    parser.add_argument("--peer-steps", type=int, default=32)
    parser.add_argument("--block", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--build", default="build/bench")
    args = parser.parse_args()
    ids = ids_of(args.model, pathlib.Path(args.text).read_text())[2000 : 2000 + args.context + args.steps]
    best = {}
    with tempfile.NamedTemporaryFile("w", suffix=".ids") as file:
        file.write(" ".join(map(str, ids)))
        file.flush()
        ours = [f"{args.build}/bench/collector_speed", args.model, file.name, str(args.context)]
        names = PRECISIONS[: args.schemes]
        twin = [sys.executable, str(HERE / "transformers_twin.py"), "--model", args.model, "--tokens", file.name,
                "--context", str(args.context), "--steps", str(args.peer_steps), "--schemes"]
        commands = {
            "twin": [*twin, "1"],
            "transformers": [*twin, str(args.schemes)],
            "blocked": [*ours, str(args.steps), str(args.block), *names],
            "stepwise": [*ours, str(args.peer_steps), "0", *names],
            "blocked_torch": [sys.executable, str(HERE / "blocked_torch.py"), "--model", args.model, "--tokens",
                              file.name, "--context", str(args.context), "--steps", str(args.steps)],
        }
        for _ in range(args.rounds):
            for name, command in commands.items():
                result = run(command)
                if name not in best or result["decode_seconds"] < best[name]["decode_seconds"]:
                    best[name] = result
    paired = {name: result.get("paired_steps_per_second") for name, result in best.items()}
    best["ratio_blocked_to_twin"] = paired["blocked"] / paired["twin"]
    best["ratio_blocked"] = paired["blocked"] / paired["transformers"]
    # Rows of the reference and of every scheme, each of which does what one row of PyTorch's does, and more.
    rows = best["blocked"]["steps"] * (1 + args.schemes) / best["blocked"]["decode_seconds"]
    best["ratio_rows_to_blocked_torch"] = rows / best["blocked_torch"]["rows_per_second"]
    unit = {name: best[name]["decode_seconds"] / best[name]["steps"] for name in ("twin", "transformers", "blocked")}
    ours = best["blocked"]["prefill_and_fork_seconds"] + 256 * unit["blocked"]
    for name, prefills in (("twin", args.schemes), ("transformers", 1)):
        steps = prefills * 256 * unit[name]
        best[f"ratio_whole_unit_of_256_steps_to_{name}"] = (prefills * best[name]["prefill_seconds"] + steps) / ours
    best["ratio_stepwise"] = paired["stepwise"] / paired["transformers"]
    print(json.dumps(best, indent=2))


if __name__ == "__main__":
    main()

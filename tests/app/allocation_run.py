#!/usr/bin/env python3
"""dgap run with an allocation, on a real model: a precision from the first stage to the bundle. allocation_run.py DGAP

DGAP_TEST_MODEL and DGAP_TEST_BOOKS name the model and the books; without them the test is skipped (exit code 77).
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

CONFIG = """
version: 1
run: {{name: r, dir: {dir}}}
model: {{path: {model}}}
corpus: {{path: {books}, context_lengths: [64], decode_steps: 16, sites_per_book: 1, retrieval: {{train: 4, context: 200}}}}
precisions: [K1V1-R32]
window: {{cap: 32}}
training: {{epochs: 1}}
allocation: {{base: K1V1-R32, name: mixed, budget: 1.3, tensors: [key], estimator: spared, prompts: 1,
             validation_prompts: 1, sites: 1, steps: 8, context: 200, random: 1}}
evaluate: {{retrieval: {{cases: 1, context: 250, tasks: [passkey, count]}}}}
"""


def main():
    model, books = os.environ.get("DGAP_TEST_MODEL"), os.environ.get("DGAP_TEST_BOOKS")
    if not model or not books:
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "c.yaml").write_text(CONFIG.format(dir=folder, model=model, books=books))

        def dgap(verb, path="c.yaml"):
            done = subprocess.run([sys.argv[1], verb, folder / path, "--json"], capture_output=True, text=True, timeout=800)
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout), done.stderr

        answer, _ = dgap("run")
        assert list(answer["precisions"]) == ["K1V1-R32", "mixed"], answer["precisions"]
        low, high = answer["precisions"]["K1V1-R32"]["bits"], answer["precisions"]["mixed"]["bits"]
        assert high[0] > low[0] and high[1] == low[1] and sum(high) / 2 <= 1.3 + 1e-6, (low, high)
        results = json.loads((folder / "r/allocation_results.json").read_text())
        assert abs(sum(high) / 2 - results["allocated"]["bits"]) < 1e-6, (high, results["allocated"])
        manifest = json.loads((folder / "r/bundle/manifest.json").read_text())
        assert manifest["precisions"]["mixed"]["scheme"]["overrides"], "the bundle lacks the allocation"
        tasks = json.loads((folder / "r/evaluation.json").read_text())["tasks"]
        assert set(tasks) == {"passkey", "count"} and "mixed" in tasks["passkey"]["precisions"], tasks
        traces, _ = dgap("verify", "r/traces")
        divergence = {name: p["mean_kl"] for name, p in traces["precisions"].items()}
        assert 0 < divergence["mixed"] < divergence["K1V1-R32"], divergence
        assert traces["precisions"]["mixed"]["bits"][0] == high[0], traces["precisions"]
        _, messages = dgap("run")
        assert "allocate: up to date" in messages and "collect: done already" in messages, messages
    print("one precision more, from allocation to bundle")


if __name__ == "__main__":
    main()

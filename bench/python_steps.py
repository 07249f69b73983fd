#!/usr/bin/env python3
"""What a step costs in Python: the restorer, and the adapters around it.

    python_steps.py BUNDLE PRECISION [STEPS]

Needs the package dgap with torch and transformers. Rows are random, of the bundle's vocabulary; the
median and the 99th percentile over steps, in microseconds, on one thread. "rows" is the batch.
"""
import sys
import time

import dgap
import numpy as np
import torch
from dgap.llama_cpp import LogitsProcessor as LlamaProcessor
from dgap.transformers import LogitsProcessor as TransformersProcessor

bundle, precision = dgap.Bundle(sys.argv[1]), sys.argv[2]
steps = int(sys.argv[3]) if len(sys.argv) > 3 else 400
width, text = bundle.vocab_size, 1000
torch.set_num_threads(1)
random = np.random.default_rng(1)
pool = random.normal(0, 3, (32, width)).astype(np.float32)
ids = random.integers(0, width, text + steps)


def measure(name, rows, prepare, call):
    taken = []
    for step in range(steps):
        given = prepare(pool[(step * rows + np.arange(rows)) % len(pool)], step)
        start = time.perf_counter()
        call(*given)
        taken.append((time.perf_counter() - start) * 1e6)
    print(f"| {name} | {rows} | {np.median(taken):.0f} | {np.percentile(taken, 99):.0f} |")


restorer = bundle.restorer(precision)
context = dgap.Context(bundle)
context.begin(ids[:text])
contexts = lambda rows: [context] * rows if restorer.takes_context else None  # noqa: E731
shown = lambda rows, step: torch.from_numpy(np.tile(ids[:text + step], (rows, 1)))  # noqa: E731
structs = np.zeros(width, [("id", np.int32), ("logit", np.float32), ("p", np.float32)])


def llama_row(rows, step):
    structs["logit"] = rows[0]
    return ids[:text + step].astype(np.int32), structs["logit"]


print(f"{precision}, vocabulary {width}, text of {text} tokens and more\n\n"
      "| | rows | median | p99 |\n| --- | --- | --- | --- |")
for rows in (1, 8):
    measure("score, numpy", rows, lambda given, _: (given.copy(),), restorer.score)
    measure("restore, numpy", rows, lambda given, _: (given.copy(), contexts(len(given))), restorer.restore)
    measure("restore, torch bf16", rows, lambda given, _: (torch.from_numpy(given).bfloat16(), contexts(len(given))),
            restorer.restore)
    measure("transformers", rows, lambda given, step: (shown(len(given), step), torch.from_numpy(given)),
            TransformersProcessor(bundle, precision))
measure("llama-cpp-python", 1, llama_row, LlamaProcessor(bundle, precision))
corrected = (bundle.restorer(precision).restore(pool.copy(), contexts(len(pool))).verdict == dgap.Verdict.RESTORE).mean()
print(f"\n{100 * corrected:.0f} % of the rows are corrected")

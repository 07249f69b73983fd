#!/usr/bin/env python3
"""eq4_vs_numpy.py COVERAGE_SPEED: Eq. 4 for every K, alpha and rho_K over 1,000,000 steps, against numpy.
numpy gets one part of 20,000 steps, and its time is multiplied by the number of parts: once by the
definition (a masked mean for every K and alpha; timed at eight K), once by the one pass that this
project makes (bincount over rank and alpha). All must agree."""
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

with tempfile.TemporaryDirectory() as name:
    ours = json.loads(subprocess.run([sys.argv[1], name], check=True, capture_output=True, text=True).stdout)
    folder = pathlib.Path(name)
    first = np.fromfile(folder / "first", np.int64)
    logits = np.fromfile(folder / "logits", np.float32)
    lse = np.fromfile(folder / "lse", np.float64)
    ranks = np.fromfile(folder / "ranks", np.int32)

alphas = np.arange(1, 20) / 20
cap, parts, steps = ours["cap"], ours["parts"], len(lse)
expected = np.array(ours["coverage"])


def probabilities():
    counts = np.diff(first)
    p = np.exp(logits.astype(np.float64) - np.repeat(lse, counts))
    total = np.cumsum(p)
    before = total - p - np.repeat(np.concatenate([[0.0], total])[first[:-1]], counts)
    return p, before


def by_definition(ks):
    p, before = probabilities()
    return np.array([[(p * ((before < alpha) & (ranks < k))).sum() / steps for k in ks] for alpha in alphas])


def one_pass():
    p, before = probabilities()
    row = np.searchsorted(alphas, before, side="right")
    inside = (ranks < cap) & (row < len(alphas))
    table = np.bincount(row[inside] * cap + ranks[inside], weights=p[inside], minlength=len(alphas) * cap)
    return table.reshape(len(alphas), cap).cumsum(0).cumsum(1) / steps


def timed(function, *arguments):
    begin = time.perf_counter()
    result = function(*arguments)
    return time.perf_counter() - begin, result


ks = np.array([1, 2, 5, 16, 48, 100, 200, 256])
begin = time.perf_counter()
probabilities()
shared = time.perf_counter() - begin
definition, found = timed(by_definition, ks)
definition = shared + (definition - shared) / len(ks) * cap  # every K
passes, table = timed(one_pass)
for name, result, columns in (("definition", found, ks - 1), ("one pass", table, np.arange(cap))):
    error = np.abs(result - expected[:, columns]).max()
    assert error < 1e-9, (name, error)
print(f"{ours['steps']} steps, {ours['candidates']} candidates, {len(alphas)} alphas, every K to {cap}")
print(f"dgap                   {ours['seconds']:8.2f} s (+ {ours['seconds_bounds']:.2f} s for lower bounds, "
      "1000 resamples of 40 books)")
for name, seconds in (("numpy, by definition", definition * parts), ("numpy, one pass", passes * parts)):
    print(f"{name:22s} {seconds:8.2f} s   {seconds / ours['seconds']:8.1f} x")

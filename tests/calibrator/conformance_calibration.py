#!/usr/bin/env python3
"""Windows, labels and window metrics against numpy over full logits (f64), straight from the
definitions of docs/metrics.md."""
import json
import pathlib
import subprocess
import sys
import tempfile

import h5py
import numpy as np

ALPHA, RHO_K, CAP = 0.9, 0.7, 32
EPSILON, RHO_C = 0.05, 0.6


def lse(z):
    top = z.max(-1, keepdims=True)
    return (top + np.log(np.exp(z - top).sum(-1, keepdims=True)))[..., 0]


def softmax(z):
    return np.exp(z - lse(z)[..., None])


def order(z):
    return np.argsort(-z, axis=-1, kind="stable")


def kl(z, y):
    return (softmax(z) * ((z - lse(z)[:, None]) - (y - lse(y)[:, None]))).sum(-1)


def d_loc(z, y, union):
    p, q = softmax(z) * union, softmax(y) * union
    return np.sqrt(((p / p.sum(-1, keepdims=True) - q / q.sum(-1, keepdims=True)) ** 2).sum(-1))


def metrics(z, y, union, target):
    return {"kl": kl(z, y), "drift": d_loc(z, y, union), "nll": lse(y) - y[np.arange(len(y)), target],
            "top1": order(z)[:, 0] == order(y)[:, 0]}


def close(name, found, expected, tolerance):
    error = np.max(np.abs(np.asarray(found, dtype=float) - np.asarray(expected, dtype=float)))
    print(f"{name:28s} largest difference {error:.2e} (allowed {tolerance:.0e})")
    assert error <= tolerance, name


def check(name, z, y, target, windows, columns):
    rows = np.arange(len(z))[:, None]
    p = softmax(z)
    by_reference, by_quantized = order(z), order(y)
    before = np.zeros_like(p)
    sorted_p = p[rows, by_reference]
    before[rows, by_reference] = np.cumsum(sorted_p, -1) - sorted_p
    candidates = before < ALPHA
    covered = np.cumsum((p * candidates)[rows, by_quantized], -1)  # [step, K - 1]
    curve = covered.mean(0)
    k = int(np.argmax(curve >= RHO_K)) + 1
    assert windows["window"] == k, (windows["window"], k)
    assert len(windows["curve"]["coverage"]) == CAP
    close(f"{name} curve", windows["curve"]["coverage"], curve[:CAP], 1e-12)
    close(f"{name} reachable", windows["reachable"], (p * candidates).sum(-1).mean(), 1e-12)
    close(f"{name} coverage", columns["coverage"], covered[:, k - 1], 1e-12)
    close(f"{name} quantiles", list(windows["coverage"]["quantiles"][q] for q in ("5", "25", "50", "75", "95")),
          np.quantile(covered[:, k - 1], [.05, .25, .5, .75, .95]), 1e-12)

    window = np.zeros_like(candidates)
    window[rows, by_quantized[:, :k]] = True
    union = candidates | window
    drift = d_loc(z, y, union)
    risky = (drift > EPSILON) & (covered[:, k - 1] >= RHO_C)
    assert risky.any() and not risky.all()
    assert (np.array(columns["risky"]) == risky).all()
    close(f"{name} positive rate", windows["positive_rate"], risky.mean(), 1e-15)
    close(f"{name} uncovered rate", windows["uncovered_rate"],
          ((drift > EPSILON) & (covered[:, k - 1] < RHO_C)).mean(), 1e-15)
    close(f"{name} drift", columns["drift"], drift, 1e-9)

    edited = y.astype(np.float32)
    edited[rows, by_quantized[:, :k]] += np.where(np.arange(k) % 2 == 0, .5, -.75).astype(np.float32)
    mass, reference_mass = (softmax(y) * window).sum(-1), (p * window).sum(-1)
    offset = lse(y) - lse(z) + np.log((1 - mass) / (1 - reference_mass))
    oracle = np.where(window, z + offset[:, None], y)
    close(f"{name} oracle mass", (softmax(oracle) * window).sum(-1), reference_mass, 1e-12)
    for kind, row, tolerance in (("before", y, 1e-7), ("after", edited.astype(float), 1e-7), ("oracle", oracle, 1e-6)):
        expected = metrics(z, row, union, target)
        for figure, values in expected.items():
            exact = figure == "top1" or (figure != "kl" and kind != "oracle")  # f32: KL column, oracle logits
            close(f"{name} {kind} {figure}", columns[kind][figure], values, 1e-9 if exact else tolerance)


def main():
    with tempfile.TemporaryDirectory() as folder:
        output = json.loads(subprocess.run([sys.argv[1], folder], check=True, capture_output=True, text=True).stdout)
        run = pathlib.Path(folder) / "r"
        windows = json.loads((run / "windows.json").read_text())["precisions"]
        with h5py.File(next((run / "traces").glob("part-*.h5"))) as trace:
            z = trace["reference/logits"][:].astype(float)
            target = trace["steps/target"][:]
            for name in trace["precisions"]:
                y = trace[f"precisions/{name}/logits"][:].astype(float)
                check(name, z, y, target, windows[name], output[name])
    print("all agree")


if __name__ == "__main__":
    main()

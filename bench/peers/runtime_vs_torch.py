#!/usr/bin/env python3
"""One decode step of the runtime against the same computation in PyTorch, one thread, in one run.

    runtime_vs_torch.py --ours BUILD/bench/runtime_speed [--window K]

The program's bundles and rows are read by PyTorch: log-softmax, entropy, topk, the detector's features and network,
and on restore steps the candidates' features, the corrector's networks and a scatter. f32, networks of the same
shapes and weights. Prints one JSON object per vocabulary and number type, with medians in microseconds.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile
import time

import numpy as np
import torch
from safetensors.torch import load_file
from torch.nn import functional as F


class Network:
    def __init__(self, tensors, prefix):
        self.mean, self.scale = tensors[prefix + ".mean"], tensors[prefix + ".scale"]
        self.layers = [(tensors[f"{prefix}.{i}.weight"], tensors[f"{prefix}.{i}.bias"]) for i in range(3)]

    def __call__(self, x):
        x = (x - self.mean) * self.scale
        for i, (weight, bias) in enumerate(self.layers):
            x = F.linear(F.gelu(x, approximate="tanh") if i else x, weight, bias)
        return x


def detector_features(window, log_p, p, entropy):
    """The twenty of docs/features.md."""
    mass = p.cumsum(0)
    gaps = window[:10] - window[1:11]
    q = p / mass[-1]
    return torch.stack([entropy, mass[-1], mass[0], mass[1], mass[4], mass[9], window[0] - window[1],
                        window[1] - window[2], window[2] - window[3], gaps.mean(), gaps.std(correction=0), gaps.min(),
                        window[0] - window[4], window[0] - window[9], window[0] - window[-1],
                        -(q * q.log()).sum(), (q * q).sum(), window.var(correction=0),
                        (mass[-1].log() - torch.log1p(-mass[-1])).clamp(-12, 12),
                        torch.tensor(float(len(window))).log()])


def candidate_features(window, log_p, p):
    above = torch.cat([window[:1], window[:-1]])
    below = torch.cat([window[1:], window[-1:]])
    rank = torch.arange(1, len(window) + 1).float().log()
    return torch.stack([window - window.mean(), p, log_p, rank, window[0] - window, above - window, window - below], 1)


def step(logits, k, detector, shape, mass, restore):
    log_p = F.log_softmax(logits.float(), -1)
    entropy = -(log_p.exp() * log_p).sum()
    window, ids = logits.topk(k)
    window = window.float()
    of_window = log_p[ids]
    p = of_window.exp()
    phi = detector_features(window, of_window, p, entropy)
    risk = torch.sigmoid(detector(phi))
    if not restore and risk.item() <= 1.0:
        return risk
    inputs = torch.cat([phi.expand(k, -1), candidate_features(window, of_window, p)], 1)
    delta = shape(inputs)[:, 0] + mass(phi)
    logits.scatter_(0, ids, (window + delta).to(logits.dtype))
    return risk


def median(f, repetitions=200):
    times = []
    for _ in range(repetitions):
        begin = time.perf_counter()
        f()
        times.append(time.perf_counter() - begin)
    return 1e6 * float(np.median(times))


def measure(folder, ours, k):
    name = str(ours["vocabulary"])
    tensors = load_file(folder / name / "weights.safetensors")
    networks = [Network(tensors, prefix) for prefix in ("detector", "corrector.shape", "corrector.mass")]
    rows = torch.from_numpy(np.fromfile(folder / (name + ".f32"), "<f4").reshape(8, -1).copy())
    row = rows[0].to(torch.bfloat16 if ours["dtype"] == "bf16" else torch.float32)
    with torch.inference_mode():
        keep = median(lambda: step(row, k, *networks, False))
        restore = median(lambda: step(row, k, *networks, True))
    return {**ours, "torch_keep_us": round(keep, 1), "torch_restore_us": round(restore, 1),
            "keep_times": round(keep / ours["keep_us"], 1), "restore_times": round(restore / ours["restore_us"], 1)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ours", required=True)
    parser.add_argument("--window", type=int, default=64)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        out = subprocess.run([arguments.ours, str(arguments.window), folder], check=True, capture_output=True, text=True)
        for line in out.stdout.splitlines():
            print(json.dumps(measure(pathlib.Path(folder), json.loads(line), arguments.window)), flush=True)


if __name__ == "__main__":
    main()

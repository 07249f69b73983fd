#!/usr/bin/env python3
"""One decode step of the runtime against the same computation in PyTorch, one thread, in one run.

    runtime_vs_torch.py --build BUILD [--window K]

BUILD holds bench/runtime_speed, whose bundles and rows both read, and runtime/libdgap_runtime.so. PyTorch does
log-softmax, entropy, topk, the detector's features and network, and on restore steps the candidates' features, the
corrector's networks and a scatter, with the same weights. The two take turns, 25 steps at a time, ours through ctypes
(which counts). Prints one JSON object per vocabulary and number type, with medians in microseconds.
"""
import argparse
import ctypes
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


class Logits(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("rows", ctypes.c_int64),
                ("width", ctypes.c_int64), ("row_stride", ctypes.c_int64), ("element_stride", ctypes.c_int64)]


class Ours:
    """A precision of a bundle through the C ABI."""

    def __init__(self, library, bundle, precision):
        opened, self.restorer = ctypes.c_void_p(), ctypes.c_void_p()
        self.library, self.result = library, (ctypes.c_int32 * 3)()
        assert library.dgap_bundle_open(str(bundle).encode(), ctypes.byref(opened)) == 0
        assert library.dgap_restorer_create(opened, precision.encode(), ctypes.byref(self.restorer)) == 0

    def stepper(self, row):
        """A function that does a step on the row and returns the verdict."""
        size = row.element_size()
        view = Logits(row.data_ptr(), 0 if size == 4 else 2, 1, len(row), len(row) * size, size)
        restore, pointer = self.library.dgap_restorer_restore, ctypes.byref(view)

        def step():
            assert restore(self.restorer, pointer, self.result) == 0
            return self.result[0]
        return step


def medians(steps, turns=10, at_a_time=25):
    """Of functions that take turns; in microseconds."""
    times = [[] for _ in steps]
    for _ in range(turns):
        for of_step, f in zip(times, steps):
            for _ in range(at_a_time):
                begin = time.perf_counter()
                f()
                of_step.append(time.perf_counter() - begin)
    return [round(1e6 * float(np.median(of_step)), 1) for of_step in times]


def measure(folder, library, name, dtype, k):
    tensors = load_file(folder / name / "weights.safetensors")
    networks = [Network(tensors, prefix) for prefix in ("detector", "corrector.shape", "corrector.mass")]
    rows = torch.from_numpy(np.fromfile(folder / (name + ".f32"), "<f4").reshape(8, -1).copy())
    theirs, ours, edited = (rows[0].to(dtype).clone() for _ in range(3))
    keep = Ours(library, folder / name, "keep").stepper(ours)
    restore = Ours(library, folder / name, "restore").stepper(edited)
    assert keep() == 0 and restore() == 1
    with torch.inference_mode():
        of = medians([keep, lambda: step(theirs, k, *networks, False), restore, lambda: step(theirs, k, *networks, True)])
    return {"vocabulary": int(name), "dtype": str(dtype).removeprefix("torch."), "window": k, "keep_us": of[0],
            "torch_keep_us": of[1], "keep_times": round(of[1] / of[0], 1), "restore_us": of[2],
            "torch_restore_us": of[3], "restore_times": round(of[3] / of[2], 1)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--window", type=int, default=64)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    library = ctypes.CDLL(str(arguments.build / "runtime/libdgap_runtime.so"))
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([arguments.build / "bench/runtime_speed", str(arguments.window), folder], check=True,
                       stdout=subprocess.DEVNULL)
        for name in ("32000", "49152", "128256", "151936"):
            for dtype in (torch.float32, torch.bfloat16):
                print(json.dumps(measure(pathlib.Path(folder), library, name, dtype, arguments.window)), flush=True)


if __name__ == "__main__":
    main()

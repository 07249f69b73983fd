"""KIVI presets against a second implementation in torch, written from the method's own rules.

    python conformance_kivi.py PROBE

arXiv:2402.02750: a prompt is attended exactly, then its keys are quantised but for the last T mod R, in groups of
consecutive tokens of one channel, its values but for the last R, in groups of consecutive channels of one token. At
each step keys gather until R of them are quantised together, after the scores; one value at a time leaves. Arithmetic
is FP16 throughout. Codes, scales, minima and what is kept exact must be equal, bit for bit, however the tokens come.
"""
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

THETA = 10000.0


def quantise(x, bits):
    """x [..., group] FP16 -> codes, scale, minimum; every step in FP16."""
    low, high = x.min(-1, keepdim=True).values, x.max(-1, keepdim=True).values
    scale = (high - low) / (2 ** bits - 1)
    codes = ((x - low) / scale).clamp(0, 2 ** bits - 1).round()
    codes = torch.where(scale == 0, torch.zeros_like(codes), codes)  # a constant group reads as its minimum
    return codes.to(torch.uint8), scale, low


class Tensor:
    """Keys (per channel) or values (per token) of one head, as KIVI's forward pass keeps them."""

    def __init__(self, prompt, bits, group, residual, keys):
        self.bits, self.group, self.residual, self.keys = bits, group, residual, keys
        self.codes, self.scales, self.minima = [], [], []
        keep = len(prompt) % residual if keys else min(len(prompt), residual)
        self.full = prompt[len(prompt) - keep:]
        if keep < len(prompt):
            self.add(prompt[:len(prompt) - keep])

    def add(self, x):
        """x [tokens, d]"""
        tokens, d = x.shape
        if self.keys:
            codes, scale, low = quantise(x.t().reshape(d, tokens // self.group, self.group), self.bits)
            self.codes.append(codes.reshape(d, tokens).t())
            self.scales.append(scale[..., 0].t())  # [groups, d]
            self.minima.append(low[..., 0].t())
        else:
            codes, scale, low = quantise(x.reshape(tokens, d // self.group, self.group), self.bits)
            self.codes.append(codes.reshape(tokens, d))
            self.scales.append(scale[..., 0])  # [tokens, groups]
            self.minima.append(low[..., 0])

    def step(self, row):
        self.full = torch.cat([self.full, row])
        if self.keys and len(self.full) == self.residual:
            self.add(self.full)
            self.full = self.full[:0]
        elif not self.keys and len(self.full) == self.residual + 1:
            self.add(self.full[:1])
            self.full = self.full[1:]

    def arrays(self):
        d = self.full.shape[1]
        join = lambda parts, dtype: torch.cat(parts) if parts else torch.zeros((0, d), dtype=dtype)
        codes, scales, minima = join(self.codes, torch.uint8), join(self.scales, torch.half), join(self.minima,
                                                                                                   torch.half)
        spread = (codes.numpy()[..., None] >> np.arange(self.bits)) & 1
        packed = np.packbits(spread.reshape(len(codes), -1).astype(np.uint8), axis=1, bitorder="little")
        wide = (lambda t: t.repeat_interleave(self.group, 0)) if self.keys else (
            lambda t: t.repeat_interleave(self.group, 1))
        read = codes.float() * wide(scales).float() + wide(minima).float()  # as the fused kernels read them
        return [("codes", packed), ("scales", scales.numpy()), ("minima", minima.numpy()),
                ("quantised reads", read.numpy()), ("exact reads", self.full.float().numpy())]


def rope(x):
    """x [tokens, d] f32, pairs i and i + d / 2."""
    tokens, d = x.shape
    angles = np.array([[p * math.pow(THETA, -2.0 * i / d) for i in range(d // 2)] for p in range(tokens)])
    c, s = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    a, b = x[:, :d // 2], x[:, d // 2:]
    return np.concatenate([a * c - b * s, b * c + a * s], axis=1)


def tensors(kind, rng, shape):
    x = rng.standard_normal(shape)
    if kind == "biased":
        x = x * rng.uniform(0.05, 2, shape[2:]) + rng.normal(0, 30, shape[2:])
    elif kind == "constant":
        x = np.broadcast_to(rng.standard_normal(shape[2:]), shape).copy()
        x[..., ::7] = 0
    elif kind == "outliers":
        x = x * np.where(rng.uniform(size=shape) < 0.02, 300.0, 1.0)
    elif kind == "tiny":
        x = x * 3e-7  # subnormal in FP16
    return np.ascontiguousarray(x, np.float32)


def check(probe, folder, preset, kind, bits, group, residual, head_dim, prefix):
    total = prefix + 3 * residual + 1
    shape = (1, total, 2, head_dim)
    rng = np.random.default_rng([bits, group, residual, prefix])
    x = {"key": tensors(kind, rng, shape), "value": tensors(kind, rng, shape)}
    x["key"].tofile(folder / "keys.f32")
    x["value"].tofile(folder / "values.f32")
    expected = []
    for head in range(2):
        for which in ("key", "value"):
            rows = x[which][0, :, head]
            rows = torch.from_numpy(rope(rows) if which == "key" else rows).half()
            tensor = Tensor(rows[:prefix], bits, group, residual, which == "key")
            for t in range(prefix, total):
                tensor.step(rows[t:t + 1])
            kept = total % residual if which == "key" else min(total, residual)
            assert len(tensor.full) == kept
            arrays = tensor.arrays()
            code_bytes = sum(array.nbytes for _, array in arrays[:3])
            assert 8 * code_bytes == (total - kept) * head_dim * (bits + 32 / group), (preset, code_bytes)
            expected += [(f"{which} {name} of head {head}", array) for name, array in arrays]
    for block in (1, 17, total):
        compare(probe, folder, f"{preset}, {kind}, prefix {prefix}, block {block}", expected,
                {"layers": 1, "kv_heads": 2, "head_dim": head_dim, "rope_theta": THETA, "tokens": total,
                 "prefix": prefix, "block": block, "scheme": {"name": preset, "preset": preset}})


def compare(probe, folder, case, expected, job):
    (folder / "job.json").write_text(json.dumps(job))
    subprocess.run([probe, folder / "job.json", folder / "keys.f32", folder / "values.f32", folder / "out"], check=True)
    data, at = (folder / "out").read_bytes(), 0
    for name, want in expected:
        got = np.frombuffer(data, want.dtype, want.size, at).reshape(want.shape)
        at += got.nbytes
        if not np.array_equal(got, want):
            bad = tuple(np.argwhere(got != want)[0])
            raise SystemExit(f"{case}: {name} differ, first at {bad}: {got[bad]} != {want[bad]}")
    if at != len(data):
        raise SystemExit(f"{case}: the probe wrote {len(data)} bytes, {at} were expected")


def main(probe):
    torch.set_num_threads(1)
    cases = 0
    with tempfile.TemporaryDirectory() as folder:
        for bits in (1, 2, 4, 8):
            for group, residual, head_dim in ((32, 32, 64), (32, 128, 64), (64, 64, 64), (128, 128, 128)):
                preset = f"kivi-{bits}-g{group}-R{residual}"
                for turn, prefix in enumerate((1, residual - 1, residual, residual + 1, 2 * residual, 3 * residual + 1)):
                    kind = ("random", "biased", "constant", "outliers", "tiny")[(turn + bits) % 5]
                    check(probe, Path(folder), preset, kind, bits, group, residual, head_dim, prefix)
                    cases += 3
    print(f"{cases} KIVI caches equal in every code, scale, minimum and exact row")


if __name__ == "__main__":
    main(sys.argv[1])

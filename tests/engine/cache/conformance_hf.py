"""Caches of transformers' kind against transformers' own flush rule, and quantisers in numpy.

    python conformance_hf.py PROBE

The layer that is compared with is transformers' QuantizedLayer, fed token by token, over quantisers that are written
down here a second time: quanto's codes, scales and reads must be equal, bit for bit; of HQQ's codes, whose solver stops
by a sum of errors, all but one in a thousand. Where optimum-quanto and hqq are installed, their own layers are
compared with as well.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from transformers.cache_utils import QuantizedLayer

from conformance_cache import F16, F32, tensors


def half(x):
    """FP16, saturated."""
    return np.clip(np.asarray(x, np.float64), -65504, 65504).astype(F16)


def grouped(kind, axis, size, shape):
    """Index arrays of the elements of each group."""
    count, width = int(np.prod(shape)), shape[-1]
    index = np.arange(count)
    if axis == "token":
        groups = index // size
    elif kind == "hqq":
        groups = index % -(-count // size)
    else:
        groups = index // width // size * width + index % width
    return groups


def quanto(x, groups, bits):
    """x FP16 -> codes, scale and zero of every group."""
    n, top = groups.max() + 1, F16(2 ** bits - 1)
    low, high = np.full(n, np.inf, F16), np.full(n, -np.inf, F16)
    np.minimum.at(low, groups, x)
    np.maximum.at(high, groups, x)
    with np.errstate(all="ignore"):
        scale = half(half(high.astype(F32) - low.astype(F32)).astype(F32) / F32(top))
        unit = half(half(x.astype(F32) - low[groups].astype(F32)).astype(F32) / scale[groups].astype(F32))
    unit = np.where(scale[groups] > 0, unit, F16(0))
    return np.clip(np.rint(unit.astype(F32)), 0, top).astype(np.uint8), scale, -low


def read_quanto(codes, scale, zero):
    return half(half(scale.astype(F32) * codes.astype(F32)).astype(F32) - zero.astype(F32))


def hqq(x, groups, bits):
    n, top = groups.max() + 1, F32(2 ** bits - 1)
    x = x.astype(F32)
    low, high = np.full(n, np.inf, F32), np.full(n, -np.inf, F32)
    np.minimum.at(low, groups, x)
    np.maximum.at(high, groups, x)
    count = np.bincount(groups, minlength=n)
    with np.errstate(all="ignore"):
        width = high - low
        scale = np.where(np.abs(width) <= 1e-4, F32(1), np.minimum(top / width, F32(2e4))).astype(F32)
    zero = (-low * scale).astype(F32)
    best = np.inf
    for _ in range(20):
        codes = np.clip(np.rint(x * scale[groups] + zero[groups]), F32(0), top)
        error = x - (codes - zero[groups]) / scale[groups]
        size = np.abs(error)
        with np.errstate(all="ignore"):
            power = np.power(size.astype(np.float64), 0.7 - 1.0).astype(F32)
            left = np.where(size < 0.17, F32(0), np.maximum(size - F32(0.1) * power, F32(0))) * np.sign(error)
        part = codes - (x - left.astype(F32)) * scale[groups]
        zero = (np.bincount(groups, part.astype(np.float64), n) / count).astype(F32)
        total = size.astype(np.float64).sum()
        if not total < best:
            break
        best = total
    codes = np.clip(np.rint(x * scale[groups] + zero[groups]), F32(0), top).astype(np.uint8)
    return codes, half(F32(1) / scale), half(zero)


def read_hqq(codes, scale, zero):
    return half(half(codes.astype(F32) - zero.astype(F32)).astype(F32) * scale.astype(F32))


class Reference(QuantizedLayer):
    """transformers' rule over the quantisers above."""

    def __init__(self, kind, tensor, residual):
        super().__init__(tensor["bits"], tensor["axis"], tensor["axis"], tensor["group_size"], residual)
        self.kind = kind

    def _quantize(self, tensor, axis):
        x = tensor.numpy().astype(F16).reshape(-1)
        groups = grouped(self.kind, axis, self.q_group_size, tensor.shape)
        return {"hqq": hqq, "quanto": quanto}[self.kind](x, groups, self.nbits), groups, tensor.shape

    def _dequantize(self, stored):
        (codes, scale, zero), groups, shape = stored
        read = {"hqq": read_hqq, "quanto": read_quanto}[self.kind](codes, scale[groups], zero[groups])
        return torch.from_numpy(read.reshape(shape))


def library_layer(kind, tensor, residual):
    """The library's own layer, or None."""
    try:
        from transformers import cache_utils
        axis = {"quanto": {"token": 0, "channel": -1}, "hqq": {"token": 1, "channel": 0}}[kind][tensor["axis"]]
        cls = cache_utils.QuantoQuantizedLayer if kind == "quanto" else cache_utils.HQQQuantizedLayer
        return cls(tensor["bits"], axis, axis, tensor["group_size"], residual)
    except ImportError:
        return None


def fill(layer, x, prefix):
    """x [tokens, heads, head_dim] f32 -> what the layer stores as codes, dequantised, [heads, tokens, head_dim]."""
    states = torch.from_numpy(x.astype(F16)).permute(1, 0, 2)[None]
    layer.update(states[:, :, :prefix], states[:, :, :prefix])
    for t in range(prefix, len(x)):
        layer.update(states[:, :, t:t + 1], states[:, :, t:t + 1])
    return layer._dequantize(layer._quantized_values)[0].numpy()


def check(probe, folder, kind, tensor, data_kind, job, seed, tally):
    shape = (1, job["tokens"], job["kv_heads"], job["head_dim"])
    x = tensors(data_kind, np.random.default_rng(seed), shape)[0]
    if data_kind == "hostile":
        x.reshape(-1)[::977] = np.tile([np.nan, np.inf, -np.inf, 1e38, 1e-40], x.size)[:len(x.reshape(-1)[::977])]
    scheme = {"name": "case", "family": "hf", "key": tensor, "value": tensor, "key_before_rope": False,
              "residual_window": job["residual"], "sink_tokens": 0, "prefill": "exact", "rotation_seed": 0}
    (folder / "job.json").write_text(json.dumps({**job, "scheme": scheme}))
    x.tofile(folder / "values.f32")
    subprocess.run([probe, folder / "job.json", folder / "values.f32", folder / "out"], check=True)
    with np.errstate(all="ignore"):
        fed = x.astype(F16).astype(F32)
    fed = np.where(np.isfinite(fed), fed, F32(0))
    layer = Reference(kind, tensor, job["residual"])
    want = fill(layer, fed, job["prefix"])
    (codes, scale, zero), _, stored = layer._quantized_values
    tokens, d, heads = stored[2], job["head_dim"], job["kv_heads"]
    data = (folder / "out").read_bytes()
    row = (d * tensor["bits"] + 7) // 8
    packed = np.frombuffer(data, np.uint8, heads * tokens * row).reshape(heads * tokens, row)
    bits = np.unpackbits(packed, axis=1, bitorder="little")[:, :d * tensor["bits"]].reshape(-1, d, tensor["bits"])
    have = (bits << np.arange(tensor["bits"], dtype=np.uint8)).sum(-1).astype(np.uint8).reshape(-1)
    scales = np.frombuffer(data, F16, 2 * len(scale), packed.size).reshape(-1, 2)
    reads = np.frombuffer(data, F32, want.size, packed.size + scales.nbytes).reshape(want.shape)
    assert packed.size + scales.nbytes + reads.nbytes == len(data), "the probe wrote another number of bytes"
    wrong = float((have != codes).mean())
    label = f"{data_kind} {json.dumps(tensor)} {json.dumps(job)}"
    if kind == "quanto":
        assert wrong == 0, f"{wrong} of the codes differ: {label}"
        assert np.array_equal(scales[:, 0], scale) and np.array_equal(scales[:, 1], zero), label
        assert np.array_equal(reads, want.astype(F32)), label
    else:
        assert wrong <= 1e-3, f"{wrong} of the codes differ: {label}"
    tally["elements"] += want.size
    library = library_layer(kind, tensor, job["residual"])
    whole = d % tensor["group_size"] == 0 and heads * job["prefix"] % 64 == 0 and job["residual"] % 64 == 0
    # hqq cuts three-bit codes of axis 1 to shape[0] * shape[1] / group rows, none of a 4-d tensor.
    readable = not (kind == "hqq" and tensor["bits"] == 3 and tensor["axis"] == "token")
    if library is None or not whole or not readable or data_kind not in ("random", "biased", "outliers"):
        return
    theirs = fill(library, fed, job["prefix"]).astype(F32)
    step = np.abs(scale.astype(F32)).max()
    same = float((theirs == reads).mean())
    assert same >= (1.0 if kind == "quanto" else 0.98), f"{same} of the library's reads are equal: {label}"
    assert np.abs(theirs - reads).max() <= 4 * step + 1e-3, label
    tally["library"] += 1


def main(probe):
    torch.set_num_threads(1)
    tally, cases = {"elements": 0, "library": 0}, 0
    with tempfile.TemporaryDirectory() as folder:
        for kind, widths in (("quanto", (2, 4)), ("hqq", (1, 2, 3, 4, 8))):
            for bits in widths:
                for axis in ("token", "channel"):
                    for turn, data_kind in enumerate(("random", "biased", "constant", "outliers", "tiny", "hostile")):
                        tensor = {"bits": bits, "quantizer": kind, "axis": axis, "group_size": 64, "center": False,
                                  "normalize": False, "rotate": False, "window": "requantize"}
                        whole = turn % 2 == 0 or data_kind == "outliers"  # sizes that the libraries take
                        residual = 64 if whole else 20
                        job = {"kv_heads": 1 + cases % 3, "head_dim": (64, 80, 96, 128)[(turn + cases // 6) % 4],
                               "prefix": 64 if whole else 37, "tokens": 64 + 3 * residual + 11,
                               "block": (1, 9, 300)[cases % 3], "residual": residual}
                        check(probe, Path(folder), kind, tensor, data_kind, job, cases, tally)
                        cases += 1
    print(f"{cases} caches, {tally['elements']} codes and reads as in numpy; {tally['library']} compared with the libraries")


if __name__ == "__main__":
    main(sys.argv[1])

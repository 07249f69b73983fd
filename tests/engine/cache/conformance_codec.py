"""Cache quantisers against second implementations in numpy, written from their definitions.

    python conformance_codec.py PROBE

Codes, scales and reads must be equal, bit for bit, where the arithmetic is fixed; KVarN's iteration
uses logarithms, so its codes may differ in a few places and its reads by rounding. llama.cpp's types
are compared with the gguf package, too.
"""
import functools
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from conformance_cache import half, lane_sum, pack, random_signs, tensors

F32, F16 = np.float32, np.float16
GGML = ("q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl")


# ---- what a second implementation stores and reads --------------------------------------------------


def ggml(name, x):
    """Rows of blocks of 32 -> codes (around our packing's zero), scales, minima, reads."""
    b = x.reshape(-1, 32)
    d, m = np.zeros(len(b), F32), np.zeros(len(b), F32)
    first = np.abs(b).argmax(1)
    top = b[np.arange(len(b)), first]
    with np.errstate(all="ignore"):
        if name == "q8_0":
            d = np.abs(b).max(1) / F32(127)
            inverse = np.where(d != 0, F32(1) / d, F32(0)).astype(F32)
            y = (b * inverse[:, None]).astype(np.float64)
            q = np.sign(y) * np.floor(np.abs(y) + 0.5)
            codes, read = q + 127, lambda c, d, m: (c - F32(127)) * d
        elif name in ("q4_0", "q5_0"):
            n = F32(8 if name == "q4_0" else 16)
            d = top / -n
            inverse = np.where(d != 0, F32(1) / d, F32(0)).astype(F32)
            codes = np.minimum(2 * n - 1, np.trunc(b * inverse[:, None] + (n + F32(0.5))))
            read = lambda c, d, m: (c - n) * d
        elif name in ("q4_1", "q5_1"):
            n = F32(15 if name == "q4_1" else 31)
            m = b.min(1)
            d = (b.max(1) - m) / n
            inverse = np.where(d != 0, F32(1) / d, F32(0)).astype(F32)
            codes = np.minimum(n, np.trunc((b - m[:, None]) * inverse[:, None] + F32(0.5)))
            read = lambda c, d, m: c * d + m
        else:
            levels = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], F32)
            live = np.abs(top) >= F32(1e-15)
            y = (F32(1) / (top / F32(-127)))[:, None] * b
            upper = np.clip(np.searchsorted(levels, y, side="right"), 1, 15)
            codes = np.where(y - levels[upper - 1] < levels[upper] - y, upper - 1, upper)
            codes = np.where(y <= -127, 0, np.where(y >= 113, 15, codes))
            codes[~live] = 0
            v, w = levels[codes], b * b
            products, squares = np.zeros(len(b), F32), np.zeros(len(b), F32)
            for i in range(32):  # in ggml's order
                products = products + w[:, i] * v[:, i] * b[:, i]
                squares = squares + w[:, i] * v[:, i] * v[:, i]
            d = np.where(live, products / squares, F32(0))
            read = lambda c, d, m: levels[c.astype(int)] * d
    scales, minima = half(d), half(m)
    reads = read(codes.astype(F32), scales.astype(F32)[:, None], minima.astype(F32)[:, None])
    return codes.astype(np.uint8).reshape(x.shape), scales, minima, reads.reshape(x.shape)


def nearest(levels, x, scale):
    """Codes of the nearest of ascending levels * scale; ties go up."""
    thresholds = ((levels[:-1].astype(np.float64) + levels[1:]) / 2).astype(F32)
    codes = np.zeros(x.shape, np.uint8)
    for t in thresholds:
        codes += x >= t * scale
    return codes


def normal_float(bits):
    from statistics import NormalDist
    quantile, offset = NormalDist().inv_cdf, 0.9677083
    upper = [quantile(p) for p in np.linspace(offset, 0.5, 2 ** (bits - 1) + 1)[:-1]]
    lower = [-quantile(p) for p in np.linspace(offset, 0.5, 2 ** (bits - 1))[:-1]]
    values = np.sort(np.array(upper + [0.0] + lower))
    return (values / values.max()).astype(F32)


def sphere_levels(bits, d):
    """Lloyd's iteration on a grid of the density's quantiles, refined by Gauss-Legendre sums."""
    nodes, weights = np.polynomial.legendre.leggauss(64)

    def moments(a, b):
        total = np.zeros(2)
        edges = np.linspace(a, b, 9)
        for lo, hi in zip(edges[:-1], edges[1:]):
            y = (lo + hi) / 2 + (hi - lo) / 2 * nodes
            f = weights * np.exp((d - 3) / 2 * np.log1p(-y * y)) * (hi - lo) / 2
            total += f.sum(), (f * y).sum()
        return total

    n = 2 ** (bits - 1)
    levels = (np.arange(n) + 0.5) * 3 / n / math.sqrt(d)
    for _ in range(4000):
        edges = np.concatenate([[0], (levels[:-1] + levels[1:]) / 2, [1]])
        new = np.array([np.divide(*moments(edges[k], edges[k + 1])[::-1]) for k in range(n)])
        moved, levels = np.abs(new - levels).max(), new
        if moved < 1e-13:
            break
    return np.concatenate([-levels[::-1], levels])


@functools.cache
def centroids(bits, d):
    return sphere_levels(bits, d).astype(F32)


def turboquant_mse(bits, x, correct):
    d = x.shape[1]
    levels = centroids(bits, d)
    norm = np.sqrt(lane_sum(x.astype(np.float64) ** 2)).astype(F32)
    scales = half(norm)
    codes = nearest(levels, x, scales.astype(F32)[:, None])
    codes[scales == 0] = 0
    if correct:
        length = np.sqrt(lane_sum(levels[codes].astype(np.float64) ** 2)).astype(F32)
        scales = np.where(scales > 0, half(norm / length), scales)
    return codes, scales, levels[codes] * scales.astype(F32)[:, None]


def fp8_values(name):
    """Every finite non-negative value of the format, by its code."""
    bits, bias = (3, 7) if name == "fp8_e4m3" else (2, 15)
    values = []
    for code in range(0x7f if bits == 3 else 0x7c):
        exponent, mantissa = code >> bits, code & (2 ** bits - 1)
        values.append(math.ldexp(mantissa + (2 ** bits if exponent else 0), max(exponent, 1) - bias - bits))
    return np.array(values)


def fp8(name, x, scale):
    values = fp8_values(name)
    y = (x / F32(scale)).astype(np.float64)
    size = np.minimum(np.abs(y), values[-1])
    low = np.clip(np.searchsorted(values, size, side="right") - 1, 0, len(values) - 2)
    up = size - values[low], values[low + 1] - size
    code = np.where(up[0] < up[1], low, np.where(up[0] > up[1], low + 1, low + low % 2))
    reads = np.where(np.signbit(y), -1, 1).astype(F32) * values[code].astype(F32) * F32(scale)
    return (code | np.where(np.signbit(y), 0x80, 0)).astype(np.uint8), reads


def kvarn_scales(x, iterations):
    """x [R, C] -> s_row, s_col of the lowest imbalance."""
    def spread(v):
        return v.max() / max(v.min(), 1e-8)

    def measure(row, col):
        y = x / (np.exp(row)[:, None] * np.exp(col)[None])
        return y.std(0, ddof=1), y.std(1, ddof=1)

    row, col = np.zeros(x.shape[0]), np.zeros(x.shape[1])
    stds = measure(row, col)
    best = (spread(stds[0]) + spread(stds[1]), row, col)
    for _ in range(iterations):
        col = np.clip(col + np.log(np.clip(measure(row, col)[0], 1e-3, 1e3)), -0.3, 10)
        row = np.clip(row + np.log(np.clip(measure(row, col)[1], 1e-3, 1e3)), -0.3, 10)
        stds = measure(row, col)
        imbalance = spread(stds[0]) + spread(stds[1])
        if imbalance <= best[0]:
            best = (imbalance, row, col)
    return np.exp(best[1]), np.exp(best[2])


def kvarn(tensor, x):
    """Codes [tokens, d], scales, minima, reads, tile by tile."""
    g, top = tensor["group_size"], F32(2 ** tensor["bits"] - 1)
    codes, scales, minima, reads = [], [], [], []
    for tile in x.reshape(-1, g, x.shape[1]):
        m = tile.T if tensor["axis"] == "channel" else tile
        row, col = kvarn_scales(m.astype(np.float64), tensor.get("iterations", 8))
        y = (m / (row[:, None] * col[None])).astype(F32)
        low = y.min(1)
        s = np.maximum((y.max(1) - low) / top, F32(1e-10))
        q = np.clip(np.rint((y - low[:, None]) / s[:, None]), 0, top)
        a, z, c = half(s * row.astype(F32)), half(low * row.astype(F32)), half(col)
        read = (q * a.astype(F32)[:, None] + z.astype(F32)[:, None]) * c.astype(F32)[None]
        turn = (lambda v: v.T) if tensor["axis"] == "channel" else (lambda v: v)
        codes.append(turn(q)), reads.append(turn(read))
        scales += [a, c]
        minima.append(z)
    return np.concatenate(codes).astype(np.uint8), np.concatenate(scales), np.concatenate(minima), np.concatenate(reads)


def turboquant_prod(tensor, x, sketch):
    d, bits = x.shape[1], tensor["bits"]
    norm = half(np.sqrt(lane_sum(x.astype(np.float64) ** 2)).astype(F32))
    n = norm.astype(F32)[:, None]
    with np.errstate(all="ignore"):
        u = np.where(n > 0, x / n, F32(0))
    if bits > 1:
        levels = centroids(bits - 1, d)
        codes = nearest(levels, x, n)
        codes[norm == 0] = 0
        c = np.where(n > 0, levels[codes], F32(0))
        base = levels[codes] * n
    else:
        codes, c, base = None, np.zeros_like(x), np.zeros_like(x)
    r = np.where(n > 0, u - c, F32(0))
    g = half(np.sqrt(lane_sum(r.astype(np.float64) ** 2)).astype(F32))
    projected = np.zeros_like(r)
    for i in range(d):  # sums run over channels
        projected = projected + sketch.T[i] * r[:, i:i + 1]
    signs = projected >= 0
    if tensor.get("sketch", "gaussian") == "gaussian":
        factor = math.sqrt(math.pi / 2) / d
    else:
        factor = math.sqrt(math.pi) * math.exp(math.lgamma((d + 1) / 2) - math.lgamma(d / 2)) / d
    z = np.where(signs, F32(1), F32(-1))
    total = np.zeros_like(r)
    for k in range(0, d, 4):
        four = np.zeros_like(r)
        for i in range(k, k + 4):
            four = four + z[:, i:i + 1] * sketch[i]
        total = total + four
    weight = n * g.astype(F32)[:, None] * F32(factor)
    rows = pack(signs.astype(np.uint8), 1)
    if codes is not None:
        rows = np.concatenate([pack(codes, bits - 1), rows], axis=1)
    return rows, np.stack([norm, g], 1), base + weight * total


def instance(tensor, x, extra):
    """Row bytes, scales [steps, n], minima, reads of one codec."""
    q, bits, d = tensor["quantizer"], tensor["bits"], x.shape[1]
    none = np.zeros(0, F16)
    if q in GGML:
        codes, scales, minima, reads = ggml(q, x)
        return pack(codes, bits), scales, minima if q in ("q4_1", "q5_1") else none, reads
    if q in ("fp8_e4m3", "fp8_e5m2"):
        codes, reads = fp8(q, x, extra["scale"])
        return codes, none, none, reads
    if q == "turboquant_mse":
        codes, scales, reads = turboquant_mse(bits, x, tensor.get("norm_correction", False))
        return pack(codes, bits), scales[:, None], none, reads
    if q == "turboquant_prod":
        rows, scales, reads = turboquant_prod(tensor, x, extra["sketch"])
        return rows, scales, none, reads
    if q == "kvarn":
        codes, scales, minima, reads = kvarn(tensor, x)
        return pack(codes, bits), scales, minima, reads
    levels = np.array(tensor["levels"], F32) if q == "codebook" else normal_float(bits)
    g = x.reshape(-1, tensor["group_size"] or d)
    scales = half(np.abs(g).max(1))
    codes = nearest(levels, g, scales.astype(F32)[:, None])
    codes[scales == 0] = 0
    reads = levels[codes] * scales.astype(F32)[:, None]
    return pack(codes.reshape(x.shape), bits), scales, none, reads.reshape(x.shape)


# ---- rotations ---------------------------------------------------------------------------------------


def sylvester(n):
    h = np.ones((1, 1))
    while len(h) < n:
        h = np.block([[h, h], [h, -h]])
    return h / math.sqrt(n)


def check_rotation(tensor, d, seed, rows):
    """The probe's rotation, as images of the unit vectors, is what the scheme names."""
    kind = tensor.get("rotation", "signed_hadamard")
    matrix = rows.T.astype(np.float64)  # y = matrix @ x
    error = np.abs(matrix @ matrix.T - np.eye(d)).max()
    assert error < 1e-5, f"{kind} is not orthogonal: {error}"
    if kind == "haar":
        return
    if kind == "signed_hadamard":
        want = sylvester(d) * random_signs(seed, d)[None]
    else:
        n = {"hadamard": d, "hadamard_64": 64, "hadamard_blocks": d & -d}[kind]
        want = np.kron(np.eye(d // n), sylvester(n))
    assert np.abs(matrix - want).max() < 1e-6, f"{kind} at {d}"


# ---- jobs --------------------------------------------------------------------------------------------


def cases():
    for q, bits in [("q8_0", 8), ("q4_0", 4), ("q4_1", 4), ("q5_0", 5), ("q5_1", 5), ("iq4_nl", 4)]:
        for d, rotation in [(64, None), (128, "hadamard_blocks"), (96, "hadamard_64"), (192, "hadamard_64"),
                            (192, "hadamard_blocks")]:
            yield d, {"quantizer": q, "bits": bits, "group_size": 32, **rotated(rotation)}
    for q in ("fp8_e4m3", "fp8_e5m2"):
        for d, scale in [(64, 0), (80, 1), (128, 0.37)]:
            yield d, {"quantizer": q, "bits": 8, "scale": scale, **rotated(None)}
    for bits in (1, 2, 3, 4):
        for d, rotation in [(64, "signed_hadamard"), (128, "hadamard"), (80, "haar"), (96, "haar")]:
            yield d, {"quantizer": "turboquant_mse", "bits": bits, **rotated(rotation)}
            yield d, {"quantizer": "turboquant_mse", "bits": bits, "norm_correction": True, **rotated(rotation)}
            for sketch in ("gaussian", "orthonormal"):
                yield d, {"quantizer": "turboquant_prod", "bits": bits, "sketch": sketch, **rotated(rotation)}
    for bits in (1, 2, 3):
        for d in (64, 128, 96):
            yield d, {"quantizer": "turboquant_mse", "bits": bits, "outlier_bits": bits + 1, **rotated("haar")}
            if d != 96:
                yield d, {"quantizer": "turboquant_prod", "bits": bits, "outlier_bits": 4, **rotated("haar")}
    for bits in (1, 2, 3, 4, 8):
        for d, g in [(64, 64), (128, 128), (80, 32), (128, 64)]:
            for axis in ("channel", "token"):
                yield d, {"quantizer": "kvarn", "bits": bits, "axis": axis, "group_size": g,
                          **rotated("hadamard" if d != 80 else None)}
    for bits in (2, 3, 4):
        for d, g in [(64, 0), (128, 32), (80, 16), (80, 0), (36, 9)]:
            yield d, {"quantizer": "normal_float", "bits": bits, "group_size": g, **rotated(None)}
    for bits in (1, 2, 3, 4):
        levels = np.sort(np.random.default_rng(bits).uniform(-1, 1, 2 ** bits).astype(F32))
        yield 64, {"quantizer": "codebook", "bits": bits, "group_size": 16, "levels": [float(v) for v in levels],
                   **rotated("signed_hadamard")}


def rotated(rotation):
    return {"rotate": False} if rotation is None else {"rotate": True, "rotation": rotation}


def bits_per_element(tensor, d):
    """The formulas of docs/schemes.md."""
    q, b, g = tensor["quantizer"], tensor["bits"], tensor.get("group_size", 0) or d
    if q in ("q8_0", "q4_0", "q5_0", "iq4_nl"):
        return b + 16 / 32
    if q in ("q4_1", "q5_1"):
        return b + 32 / 32
    if q.startswith("fp8"):
        return 8
    if q.startswith("turboquant"):
        numbers = (1 if q == "turboquant_mse" else 2) * (2 if tensor.get("outlier_bits") else 1)
        codes = (tensor.get("outlier_bits") * (d // 4) + b * (d - d // 4)) / d if tensor.get("outlier_bits") else b
        return codes + 16 * numbers / d
    if q == "kvarn":
        return b + (16 * (2 * d + g) if tensor["axis"] == "channel" else 16 * (d + 2 * g)) / (d * g)
    return b + 16 / g


def ties(name, rows, d):
    """Blocks whose scaled values fall on the half steps of llama.cpp's types."""
    n = {"q8_0": 127, "q4_0": 8, "q5_0": 16}.get(name, 15)
    rng = np.random.default_rng(7)
    x = rng.integers(-2 * n, 2 * n + 1, (rows, d)) / 2.0
    x[:, ::32] = -n
    return x.astype(F32)


def ggml_bytes(name, codes, scales, minima):
    """Our codes [blocks, 32] in ggml's block layout."""
    d, m = scales.reshape(-1, 1).view(np.uint8), minima.reshape(-1, 1).view(np.uint8)
    if name == "q8_0":
        return np.concatenate([d, (codes.astype(np.int16) - 127).astype(np.int8).view(np.uint8)], axis=1)
    halves = (codes[:, :16] & 15) | ((codes[:, 16:] & 15) << 4)
    high = np.packbits(codes >> 4 & 1, axis=1, bitorder="little")
    return np.concatenate({"q4_0": [d, halves], "iq4_nl": [d, halves], "q4_1": [d, m, halves],
                           "q5_0": [d, high, halves], "q5_1": [d, m, high, halves]}[name], axis=1)


def check_gguf(job, stored, codes, scales, minima, reads):
    """The gguf package reads the same values from the same codes, and makes nearly all of them itself
    (it multiplies in f64 where ggml's reference has f32: near ties may fall the other way)."""
    import gguf
    name, bits = job["tensor"]["quantizer"], job["tensor"]["bits"]
    kind = gguf.GGMLQuantizationType[name.upper()]
    spread = np.unpackbits(codes.reshape(len(stored), -1), axis=1, bitorder="little")
    unpacked = spread.reshape(-1, 32, bits) @ (1 << np.arange(bits))
    ours = ggml_bytes(name, unpacked.astype(np.uint8), scales, minima)
    theirs = gguf.quants.dequantize(ours.reshape(len(stored), -1), kind)
    n = compare("reads by gguf", job, theirs.astype(F32), reads)
    if name != "iq4_nl":  # it does not quantise to this type
        made = gguf.quants.quantize(stored, kind).reshape(ours.shape)
        flat = np.abs(stored.reshape(-1, 32)).max(1) < 1e-3  # d of subnormal halves, or zero blocks
        differ = (made != ours)[~flat]
        assert differ.sum() <= (0.01 if job["kind"] == "ties" else 1e-3) * max(differ.size, 1000), (differ.mean(), job)
    return n


class Arrays:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, kind, count):
        found = np.frombuffer(self.data, kind, count, self.at)
        self.at += found.nbytes
        return found


def compare(what, job, got, want, loose=0.0):
    """Equal, but for a share `loose` of the entries."""
    got, want = np.asarray(got).ravel(), np.asarray(want).ravel()
    differ = got != want
    if got.size != want.size or differ.sum() > loose * differ.size:
        where = np.argwhere(differ)[0][0] if differ.any() else -1
        raise SystemExit(f"{what} differ, {differ.sum()} of {got.size} ({want.size}), first at {where}: {got[where]} != "
                         f"{want[where]}\n{json.dumps(job)}")
    return got.size


def check(job, x, out):
    tensor, d = job["tensor"], job["head_dim"]
    sizes = out.take(np.int32, 6)
    order, parameters = out.take(np.uint16, sizes[0]), out.take(F32, sizes[1])
    matrix, codes = out.take(F32, sizes[2]), out.take(np.uint8, sizes[3])
    scales, minima = out.take(F16, sizes[4]), out.take(F16, sizes[5])
    stored, reads, restored = (out.take(F32, x.size).reshape(x.shape) for _ in range(3))

    moved = x
    if len(order):
        top = np.sort(np.argsort(-(x.astype(np.float64) ** 2).sum(0), kind="stable")[:d // 4])
        assert list(order) == list(top) + [c for c in range(d) if c not in set(top)], job
        moved = x[:, order]
    size = np.abs(x).max() + 1e-30
    if len(matrix):
        check_rotation(tensor, d, job["seed"], matrix.reshape(d, d))
        assert np.abs(moved.astype(np.float64) @ matrix.reshape(d, d) - stored).max() < 4e-5 * size * math.sqrt(d), job
    else:
        assert np.array_equal(moved, stored), job

    extra = {}
    if tensor["quantizer"].startswith("fp8"):
        top = F32(448 if tensor["quantizer"] == "fp8_e4m3" else 57344)
        extra["scale"] = F32(tensor["scale"]) or np.abs(stored).max() / top
        if tensor["scale"] == 0:
            compare("scales", job, parameters, [extra["scale"]])
    parts = [(slice(0, d), tensor)]
    if tensor.get("outlier_bits"):
        parts = [(slice(0, d // 4), {**tensor, "bits": tensor["outlier_bits"]}), (slice(d // 4, d), tensor)]
    loose = 2e-3 if tensor["quantizer"] == "kvarn" else 0.0
    wants = []
    for channels, part in parts:
        y = np.ascontiguousarray(stored[:, channels])
        if tensor["quantizer"] == "turboquant_prod":
            extra["sketch"] = sketch_of(part.get("sketch", "gaussian"), y.shape[1], job["seed"])
        wants.append(instance(part, y, extra))
    if loose and job["kind"] in ("constant", "tiny"):  # which scales are the best is a matter of rounding
        want = np.concatenate([w[3] for w in wants], axis=1)
        assert np.abs(reads - stored).mean() <= 1.5 * np.abs(want - stored).mean() + 2 ** -25, job
        return reads.size
    n = compare("codes", job, codes, np.concatenate([w[0] for w in wants], axis=1), loose)
    want = np.concatenate([w[3] for w in wants], axis=1)
    if loose:  # a factor may stand in the rows' scales or in the columns': reads are what is defined
        assert np.quantile(np.abs(reads - want), 1 - loose) <= 2 ** -9 * np.abs(want).max(), job
        n += reads.size
    else:
        n += compare("scales", job, scales, np.concatenate([w[1] for w in wants], axis=-1))
        n += compare("minima", job, minima, wants[0][2])
        n += compare("reads", job, reads, want)
    if tensor["quantizer"] in GGML:
        n += check_gguf(job, stored, codes, scales, minima, reads)
    if not len(matrix) and not len(order):
        compare("restored reads", job, restored, reads)
    else:
        back = reads.astype(np.float64) @ (matrix.reshape(d, d).T if len(matrix) else np.eye(d))
        turned = np.empty_like(back)
        turned[:, order if len(order) else slice(None)] = back
        bound = 4e-5 * math.sqrt(d) * (np.abs(reads).max() + 1e-30)
        assert np.abs(turned - restored).max() < bound, job

    stored_bits = 8 * codes.size + 16 * (scales.size + minima.size)
    padded = d * tensor["bits"] % 8 != 0
    assert padded or abs(stored_bits / x.size - bits_per_element(tensor, d)) < 1e-12, (stored_bits / x.size, job)
    return n


@functools.cache
def sketch_of(kind, d, seed):
    """The random matrix, drawn as documented: normals of a named stream, orthonormalised by rows."""
    normals = normal_stream(seed, f"sketch {d}", d * d).reshape(d, d)
    if kind == "gaussian":
        return normals.astype(F32)
    q, r = np.linalg.qr(normals.T)
    return np.ascontiguousarray((q * np.sign(np.diag(r))).T.astype(F32))


@functools.cache
def normal_stream(seed, purpose, count):
    """Box-Muller over mt19937_64 seeded by (seed, purpose); cosine, then sine."""
    mask = (1 << 64) - 1

    def mix(v):
        v ^= v >> 30
        v = v * 0xBF58476D1CE4E5B9 & mask
        v ^= v >> 27
        v = v * 0x94D049BB133111EB & mask
        return v ^ (v >> 31)

    state = mix(seed + 0x9E3779B97F4A7C15 & mask)
    for c in purpose.encode():
        state = mix(state ^ c)
    mt = [state]
    for i in range(1, 312):
        mt.append(6364136223846793005 * (mt[-1] ^ (mt[-1] >> 62)) + i & mask)
    out, at = [], 312
    uniforms = []
    while len(out) < count:
        if at == 312:
            for i in range(312):
                v = (mt[i] & 0xFFFFFFFF80000000) | (mt[(i + 1) % 312] & 0x7FFFFFFF)
                mt[i] = mt[(i + 156) % 312] ^ (v >> 1) ^ (0xB5026F5AA96619E9 if v & 1 else 0)
            at = 0
        y = mt[at]
        at += 1
        y ^= (y >> 29) & 0x5555555555555555
        y ^= (y << 17) & 0x71D67FFFEDA60000
        y ^= (y << 37) & 0xFFF7EEE000000000
        y ^= y >> 43
        uniforms.append((y >> 11) * 2.0 ** -53)
        if len(uniforms) == 2:
            radius, angle = math.sqrt(-2 * math.log(1 - uniforms[0])), 2 * math.pi * uniforms[1]
            out += [radius * math.cos(angle), radius * math.sin(angle)]
            uniforms = []
    return np.array(out[:count])


def main(probe):
    jobs, rows = [], []
    for number, (d, tensor) in enumerate(cases()):
        step = tensor["group_size"] if tensor["quantizer"] == "kvarn" or tensor.get("axis") == "channel" else 1
        kinds = ["random", "biased", "constant", "outliers", "tiny"]
        for kind in kinds + (["ties"] if tensor["quantizer"] in ("q8_0", "q4_0", "q5_0", "iq4_nl") and
                             not tensor["rotate"] else []):
            count = 3 * max(step, 9)
            rng = np.random.default_rng(number)
            if kind == "ties":
                x = ties(tensor["quantizer"], count, d)
            else:
                x = tensors(kind, rng, (1, count, 1, d))[0, :, 0].astype(F16).astype(F32)
            full = {"axis": "token", "group_size": 0, **tensor}
            jobs.append({"tensor": full, "head_dim": d, "rows": count, "seed": number % 2, "kind": kind})
            rows.append(x)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "jobs.json").write_text(json.dumps(jobs))
        np.concatenate([x.ravel() for x in rows]).tofile(folder / "rows.f32")
        subprocess.run([probe, folder / "jobs.json", folder / "rows.f32", folder / "out"], check=True)
        out = Arrays((folder / "out").read_bytes())
    compared = sum(check(job, x, out) for job, x in zip(jobs, rows))
    assert out.at == len(out.data)
    print(f"{len(jobs)} tensors, {compared} codes, scales and reads equal")


if __name__ == "__main__":
    main(sys.argv[1])

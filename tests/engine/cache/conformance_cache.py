"""Quantised caches against a second implementation of docs/schemes.md, in numpy.

    python conformance_cache.py PROBE

Codes, scales, minima, statistics and reads must be equal, bit for bit.
"""
import functools
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

F32, F16, U64 = np.float32, np.float16, (1 << 64) - 1


# ---- formulas -------------------------------------------------------------------------------------


def half(x):
    """FP16, saturated, as f32."""
    return np.clip(np.asarray(x, F32), F32(-65504), F32(65504)).astype(F16)


def lane_sum(x):
    """Sum in f64 over the last axis: 16 lanes, folded in halves."""
    x = x.astype(np.float64)
    n = x.shape[-1]
    padded = np.zeros(x.shape[:-1] + (-(-n // 16) * 16,))
    padded[..., :n] = x
    lanes = np.zeros(x.shape[:-1] + (16,))
    for start in range(0, n, 16):
        lanes = lanes + padded[..., start:start + 16]
    for h in (8, 4, 2, 1):
        lanes = lanes[..., :h] + lanes[..., h:2 * h]
    return lanes[..., 0]


def encode(quantizer, bits, x):
    """x [groups, n] -> codes, scales, minima."""
    n = x.shape[-1]
    minima = np.zeros(x.shape[:-1], F16)
    if quantizer == "sign_mean":
        scales = half((lane_sum(np.abs(x)) / n).astype(F32))
        codes = (x >= 0).astype(np.uint8)
    elif quantizer == "lloyd_max":
        scales = half(np.sqrt(lane_sum(x.astype(np.float64) ** 2) / n).astype(F32))
        outer = ~(np.abs(x) < F32(0.9816) * scales.astype(F32)[..., None])
        codes = np.where(x >= 0, 2 + outer, 1 - outer.astype(int)).astype(np.uint8)
    elif quantizer == "symmetric":
        top = F32(2 ** (bits - 1) - 1)
        scales = half(np.abs(x).max(-1) / top)
        with np.errstate(all="ignore"):
            q = x / scales.astype(F32)[..., None]
        codes = (np.rint(np.clip(np.nan_to_num(q), -top, top)) + top).astype(np.uint8)
    else:
        top = F32(2 ** bits - 1)
        minima = half(x.min(-1))
        scales = half(np.maximum(x.max(-1) - minima.astype(F32), F32(0)) / top)
        with np.errstate(all="ignore"):
            q = (x - minima.astype(F32)[..., None]) / scales.astype(F32)[..., None]
        codes = np.rint(np.clip(np.nan_to_num(q), 0, top)).astype(np.uint8)
    codes[scales == 0] = 0
    return codes, scales, minima


def decode(quantizer, bits, codes, scales, minima):
    s, m, q = scales.astype(F32)[..., None], minima.astype(F32)[..., None], codes.astype(F32)
    if quantizer == "sign_mean":
        return np.where(codes == 1, s, -s)
    if quantizer == "lloyd_max":
        return np.array([-1.510, -0.4528, 0.4528, 1.510], F32)[codes] * s
    if quantizer == "symmetric":
        return (q - F32(2 ** (bits - 1) - 1)) * s
    return q * s + m


def pack(codes, bits):
    """codes [rows, n] -> bytes, least significant bits first, rows on bytes."""
    spread = (codes[..., None] >> np.arange(bits)) & 1
    return np.packbits(spread.reshape(codes.shape[0], -1).astype(np.uint8), axis=1, bitorder="little")


def hadamard(x):
    """Butterflies of distance n/2, n/4, ..., 1 in f32, then one factor."""
    n = x.shape[-1]
    h = n // 2
    while h >= 1:
        v = x.reshape(x.shape[:-1] + (n // (2 * h), 2, h))
        x = np.stack([v[..., 0, :] + v[..., 1, :], v[..., 0, :] - v[..., 1, :]], axis=-2).reshape(x.shape)
        h //= 2
    return x * F32(1 / math.sqrt(n))


def random_signs(seed, n):
    """Bit 0 of successive draws of mt19937_64, seeded by (seed, "rotation")."""
    def mix(x):
        x ^= x >> 30
        x = x * 0xBF58476D1CE4E5B9 & U64
        x ^= x >> 27
        x = x * 0x94D049BB133111EB & U64
        return x ^ (x >> 31)
    state = mix(seed + 0x9E3779B97F4A7C15 & U64)
    for c in b"rotation":
        state = mix(state ^ c)
    mt = [state]
    for i in range(1, 312):
        mt.append(6364136223846793005 * (mt[-1] ^ (mt[-1] >> 62)) + i & U64)
    signs, at = [], 312
    while len(signs) < n:
        if at == 312:
            for i in range(312):
                x = (mt[i] & 0xFFFFFFFF80000000) | (mt[(i + 1) % 312] & 0x7FFFFFFF)
                mt[i] = mt[(i + 156) % 312] ^ (x >> 1) ^ (0xB5026F5AA96619E9 if x & 1 else 0)
            at = 0
        y = mt[at]
        at += 1
        y ^= (y >> 29) & 0x5555555555555555
        y ^= (y << 17) & 0x71D67FFFEDA60000
        y ^= (y << 37) & 0xFFF7EEE000000000
        y ^= y >> 43
        signs.append(-1.0 if y & 1 else 1.0)
    return np.array(signs, F32)


@functools.cache
def rope_row(position, d, theta):
    angles = [position * math.pow(theta, -2.0 * i / d) for i in range(d // 2)]
    return np.array([[math.cos(a) for a in angles], [math.sin(a) for a in angles]]).astype(F32)


def rope(x, first, theta):
    """x [tokens, d] at positions first, first + 1, ..."""
    d = x.shape[1]
    if len(x) == 0:
        return x
    c, s = np.stack([rope_row(first + t, d, theta) for t in range(len(x))], axis=1)
    a, b = x[:, :d // 2], x[:, d // 2:]
    return np.concatenate([a * c - b * s, b * c + a * s], axis=1)


def statistics(x, center, normalize):
    """x [tokens, d] -> FP16 mean and RMS, sums in f64 in the order of tokens."""
    mean, rms = np.zeros(x.shape[1], F32), np.ones(x.shape[1], F32)
    if len(x) == 0:
        return mean, rms
    total = np.zeros(x.shape[1])
    if center:
        for row in x:
            total = total + row.astype(np.float64)
        mean = half((total / len(x)).astype(F32)).astype(F32)
    if normalize:
        total = np.zeros(x.shape[1])
        for row in x:
            total = total + (row.astype(np.float64) - mean.astype(np.float64)) ** 2
        rms = half(np.maximum(np.sqrt(total / len(x)).astype(F32), F32(1e-6))).astype(F32)
    return mean, rms


# ---- one tensor of one head -----------------------------------------------------------------------


def quantised_tokens(tensor, residual, tokens):
    """Of `tokens` tokens beyond the sinks."""
    rule, group = tensor["window"], tensor["group_size"] if tensor["axis"] == "channel" else 1
    if tensor["bits"] == 16 or tokens <= 0:
        return 0
    if rule == "none":
        return tokens
    if rule == "flush":
        return tokens - tokens % max(residual, 1)
    kept = residual if rule == "lagging" else max(residual, 1)
    return max(tokens - kept, 0) // group * group


def expected(scheme, which, x, job):
    """x [tokens, d] as appended -> the probe's arrays for this tensor."""
    tensor, d, tokens = scheme[which], job["head_dim"], job["tokens"]
    before_rope = which == "key" and scheme["key_before_rope"]
    rotates = which == "key" and not before_rope
    sinks = 0 if scheme["key"]["bits"] == scheme["value"]["bits"] == 16 else scheme["sink_tokens"]
    middle = sinks + quantised_tokens(tensor, scheme["residual_window"], tokens - sinks)

    source = (rope(x, 0, job["rope_theta"]) if rotates else x).astype(F16).astype(F32)
    read = (lambda y, first: rope(y, first, job["rope_theta"])) if before_rope else (lambda y, first: y)
    exact = read(source[middle:], middle)
    if tensor["bits"] == 16:
        return [("exact reads", exact)]

    centred = tensor["center"] or tensor["normalize"]
    mean, rms = statistics(source[sinks:job["prefix"]], tensor["center"], tensor["normalize"])
    y = source[sinks:middle]
    if centred:
        y = (y - mean) / rms
    signs = random_signs(scheme["rotation_seed"], d)
    if tensor["rotate"]:
        y = hadamard(signs * y)
    n = tensor["group_size"] or d
    if tensor["axis"] == "token":
        groups = y.reshape(-1, n)
    else:
        groups = y.reshape(-1, n, d).transpose(0, 2, 1).reshape(-1, n)
    quantizer, bits = tensor["quantizer"], tensor["bits"]
    codes, scales, minima = encode(quantizer, bits, groups)
    values = decode(quantizer, bits, codes, scales, minima)
    if tensor["axis"] == "channel":
        codes = codes.reshape(-1, d, n).transpose(0, 2, 1)
        values = values.reshape(-1, d, n).transpose(0, 2, 1)
    codes, values = codes.reshape(-1, d), values.reshape(-1, d)
    arrays = [("codes", pack(codes, bits)), ("scales", scales)]
    if quantizer == "asymmetric":
        arrays.append(("minima", minima))
    if centred:
        arrays += [("mean", mean), ("rms", rms)]
    if which == "key" and not (rotates and tensor["rotate"] and not centred):
        if tensor["rotate"]:
            values = signs * hadamard(values)
        if centred:
            values = values * rms + mean
    return arrays + [("quantised reads", read(values, sinks)), ("exact reads", exact)]


# ---- jobs -----------------------------------------------------------------------------------------


def tensors(kind, rng, shape):
    x = rng.standard_normal(shape)
    if kind == "biased":
        x = x * rng.uniform(0.05, 2, shape[2:]) + rng.normal(0, 5, shape[2:])
    elif kind == "constant":
        x = np.broadcast_to(rng.standard_normal(shape[2:]), shape).copy()
        x[:, ::7] = 0
    elif kind == "outliers":
        x = x * np.where(rng.uniform(size=shape) < 0.02, 100.0, 1.0)
    elif kind == "tiny":
        x = x * 1e-6
    return np.ascontiguousarray(x, F32)


def tensor(bits, quantizer, axis="token", group=0, **flags):
    return {"bits": bits, "quantizer": quantizer, "axis": axis, "group_size": group,
            "center": False, "normalize": False, "rotate": False, "window": "sliding", **flags}


EXACT = tensor(16, "exact")


def schemes():
    plain = {1: "sign_mean", 2: "lloyd_max", 4: "symmetric", 8: "symmetric"}
    base = {"name": "case", "family": "custom", "key_before_rope": False, "residual_window": 0, "sink_tokens": 0,
            "prefill": "exact", "rotation_seed": 0}
    made = []
    for kb, vb in [(1, 1), (2, 2), (4, 4), (8, 8), (1, 4), (2, 1), (16, 1), (2, 16)]:
        for family in ("centred", "rotated", "uniform"):
            key = tensor(kb, plain[kb]) if kb < 16 else dict(EXACT)
            value = tensor(vb, plain[vb]) if vb < 16 else dict(EXACT)
            if family == "centred":
                key["center"] = key["normalize"] = kb < 16
                value["center"] = value["rotate"] = vb < 16
            elif family == "rotated":
                key["rotate"], value["rotate"] = kb < 16, vb < 16
            made.append({**base, "key": key, "value": value, "key_before_rope": family == "centred" and kb < 16,
                         "sink_tokens": 4 if family == "centred" else 0})
    made.append({**base, "key": dict(EXACT), "value": dict(EXACT)})
    # every quantiser on both axes with several group sizes, and every pair of transformations
    for quantizer, bits in [("sign_mean", 1), ("lloyd_max", 2), ("symmetric", 2), ("symmetric", 4), ("symmetric", 8),
                            ("asymmetric", 1), ("asymmetric", 2), ("asymmetric", 4), ("asymmetric", 8)]:
        made.append({**base, "key": tensor(bits, quantizer, "channel", 32), "value": tensor(bits, quantizer, "token", 32),
                     "residual_window": 32})
        made.append({**base, "key": tensor(bits, quantizer, "channel", 16, window="flush"),
                     "value": tensor(bits, quantizer, "token", 32, window="lagging"), "residual_window": 32})
        made.append({**base, "key": tensor(bits, quantizer, "token", 32, window="none"),
                     "value": tensor(bits, quantizer, "token", 16, window="flush"), "residual_window": 20})
        made.append({**base, "key": tensor(bits, quantizer, "token", 16, center=True, rotate=True),
                     "value": tensor(bits, quantizer, "channel", 24, normalize=True), "sink_tokens": 3})
        made.append({**base, "key": tensor(bits, quantizer, "token", 8, center=True, normalize=True, rotate=True),
                     "value": tensor(bits, quantizer, "token", 64, center=True, normalize=True, rotate=True),
                     "key_before_rope": True, "rotation_seed": 12345, "residual_window": 5, "sink_tokens": 1})
    return made


def check(probe, folder, scheme, kind, job, seed):
    rng = np.random.default_rng(seed)
    shape = (job["layers"], job["tokens"], job["kv_heads"], job["head_dim"])
    x = {"key": tensors(kind, rng, shape), "value": tensors(kind, rng, shape)}
    (folder / "job.json").write_text(json.dumps({**job, "scheme": scheme}))
    x["key"].tofile(folder / "keys.f32")
    x["value"].tofile(folder / "values.f32")
    subprocess.run([probe, folder / "job.json", folder / "keys.f32", folder / "values.f32", folder / "out"], check=True)
    data, at, compared = (folder / "out").read_bytes(), 0, 0
    for layer in range(job["layers"]):
        for head in range(job["kv_heads"]):
            for which in ("key", "value"):
                for name, want in expected(scheme, which, x[which][layer, :, head], job):
                    got = np.frombuffer(data, want.dtype, want.size, at).reshape(want.shape)
                    at += got.nbytes
                    compared += want.size
                    if np.array_equal(got, want):
                        continue
                    bad = np.argwhere(got != want)[0]
                    raise SystemExit(f"{kind}: {which} {name} of layer {layer}, head {head} differ, first at "
                                     f"{tuple(bad)}: {got[tuple(bad)]} != {want[tuple(bad)]}\n"
                                     f"{json.dumps(scheme)}\n{json.dumps(job)}")
    if at != len(data):
        raise SystemExit(f"{kind}: the probe wrote {len(data)} bytes, {at} were expected\n{json.dumps(scheme)}")
    return compared


def main(probe):
    cases = compared = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, scheme in enumerate(schemes()):
            group = max(scheme[t]["group_size"] if scheme[t]["axis"] == "channel" else 0 for t in ("key", "value"))
            reach = 3 * max(scheme["residual_window"], group) + 1
            for turn, kind in enumerate(("random", "biased", "constant", "outliers", "tiny")):
                window = (scheme["residual_window"], 16)[(number + turn) % 2]
                job = {"layers": 2, "kv_heads": 2, "head_dim": 64, "rope_theta": 10000.0,
                       "prefix": 40, "tokens": 40 + reach + 13, "block": 1 + number % 30}
                compared += check(probe, Path(folder), {**scheme, "residual_window": window}, kind, job, number)
                cases += 1
        uniform = [s for s in schemes() if not (s["key"]["rotate"] or s["value"]["rotate"])]
        for number, scheme in enumerate(uniform):  # head_dim that is no power of two, and no multiple of 16
            for head_dim in (80, 36):
                parts = {t: {**scheme[t], "group_size": head_dim // 2 if scheme[t]["axis"] == "token" and
                             scheme[t]["group_size"] else scheme[t]["group_size"]} for t in ("key", "value")}
                job = {"layers": 1, "kv_heads": 3, "head_dim": head_dim, "rope_theta": 500000.0, "prefix": 20,
                       "tokens": 150, "block": 64}
                compared += check(probe, Path(folder), {**scheme, **parts}, "outliers", job, number)
                cases += 1
    print(f"{cases} caches, {compared} codes, scales, statistics and reads equal")


if __name__ == "__main__":
    main(sys.argv[1])

"""KVQuant's calibration and codes against a second implementation of docs/quantizers.md, in numpy.

    python conformance_kvquant.py PROBE

Thresholds, codes, ranges, outliers, reads and counts of bytes must be equal, bit for bit; levels, which are found by
Lloyd's iteration on the sample itself instead of bins, to 2e-3, or at a mean square as low.
"""
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from conformance_cache import F16, F32, half, pack, rope, tensors


def thresholds(x, share):
    """x [tokens, width] -> FP16 lower and upper, as f32."""
    x = x.astype(np.float64)
    return tuple(half(np.quantile(x, q, axis=0).astype(F32)).astype(F32) for q in (share / 2, 1 - share / 2))


def token_outliers(row, share):
    """The k largest and the k smallest of the rest; of equals the lower channels."""
    width = len(row)
    k = math.ceil(share / 2 * (width - 1))
    marks = np.zeros(width, bool)
    marks[sorted(range(width), key=lambda c: (-row[c], c))[:k]] = True
    rest = [c for c in range(width) if not marks[c]]
    marks[sorted(rest, key=lambda c: (row[c], c))[:k]] = True
    return marks


def token_range(row, marks):
    low, high = row[~marks].min(), row[~marks].max()
    return half((high + low) / F32(2)).astype(F32), half((high - low) / F32(2)).astype(F32)


def unit(x, offset, scale):
    with np.errstate(all="ignore"):
        return np.where(scale > 0, (x - offset) / scale, F32(0)).astype(F32)


def inliers(tensor, x):
    """x [tokens, width] finite -> the calibration sample, and thresholds."""
    if tensor["axis"] == "channel":
        low, high = thresholds(x, tensor["outliers"])
        kept = (x >= low) & (x <= high)
        return unit(x, (high + low) / F32(2), (high - low) / F32(2))[kept], low, high
    sample = []
    for row in x:
        marks = token_outliers(row, tensor["outliers"])
        sample.append(unit(row, *token_range(row, marks))[~marks])
    return np.concatenate(sample), None, None


def lloyd(sample, count):
    x = np.sort(sample.astype(np.float64))
    levels = np.array([x[min(math.ceil(len(x) * (k + 0.5) / count) - 1, len(x) - 1)] for k in range(count)])
    for _ in range(200):
        cuts = np.searchsorted(x, (levels[1:] + levels[:-1]) / 2, side="left")
        parts = np.split(x, cuts)
        new = np.sort([p.mean() if len(p) else old for p, old in zip(parts, levels)])
        if np.array_equal(new, levels):
            break
        levels = new
    return levels


def mean_square(sample, levels):
    near = np.abs(sample.astype(np.float64)[:, None] - np.asarray(levels, np.float64)).min(1)
    return float((near ** 2).mean())


def check_levels(sample, got, q_norm, kind):
    levels, reads = np.array(got["levels"]), np.array(got["reads"])
    want = lloyd(sample, len(levels))
    near = np.abs(levels - want).max() <= 2e-3
    assert near or mean_square(sample, levels) <= 1.005 * mean_square(sample, want) + 1e-9, (levels, want)
    if not q_norm:
        return np.testing.assert_array_equal(reads, levels)
    codes = np.searchsorted((levels[1:] + levels[:-1]) / 2, sample.astype(np.float64), side="right")
    rounded = levels[codes]
    if sample.std() > 1e-6 and rounded.std() > 1e-6:
        scale = sample.astype(np.float64).std() / rounded.std()
        np.testing.assert_allclose(reads, levels * scale + sample.astype(np.float64).mean() - rounded.mean() * scale,
                                   atol=2e-4 if kind == "random" else 1e-2)  # many equal values on a threshold


def expected(tensor, got, x, heads):
    """x [tokens, width] -> the arrays of one tensor of a layer, and reads [tokens, width]."""
    levels, reads = (np.array(got[k], np.float64).astype(F32) for k in ("levels", "reads"))
    cuts = ((levels[1:].astype(np.float64) + levels[:-1]) / 2).astype(F32)
    sparse, by_token = tensor["outliers"] > 0, tensor["axis"] == "token"
    if by_token:
        marks = np.array([token_outliers(row, tensor["outliers"]) for row in x])
        offset, scale = (np.array(v, F32)[:, None] for v in zip(*[token_range(r, m) for r, m in zip(x, marks)]))
    else:
        low, high = (np.array(got[k], np.float64).astype(F32) for k in ("lower", "upper"))
        marks = ((x > high) | (x < low)) & sparse
        offset, scale = (high + low) / F32(2), (high - low) / F32(2)
    codes = (unit(x, offset, scale)[..., None] >= cuts).sum(-1).astype(np.uint8)
    codes[marks] = 0
    values = reads[codes] * scale + offset
    values = np.where(marks, half(x).astype(F32), values).astype(F32)
    tokens, width = x.shape
    packed = pack(codes.reshape(tokens * heads, -1), tensor["bits"])
    ranges = np.stack([offset[:, 0], scale[:, 0]], 1).astype(F16) if by_token else np.zeros(0, F16)
    ends = np.cumsum(marks.sum(1)).astype(np.uint32) if sparse else np.zeros(0, np.uint32)
    where = np.nonzero(marks)
    arrays = [packed, ranges, ends, where[1].astype(np.uint16), half(x)[where]]
    fixed = (0 if by_token else 4 * width) + (8 if tensor["q_norm"] else 4) * len(levels)
    return arrays, values, sum(a.nbytes for a in arrays), fixed


def check(probe, folder, scheme, kind, job, seed):
    rng = np.random.default_rng(seed)
    shape = (job["layers"], job["tokens"], job["kv_heads"], job["head_dim"])
    x = {t: tensors(kind, rng, shape) for t in ("key", "value")}
    if kind == "hostile":
        for t in x.values():
            t.reshape(-1)[rng.integers(0, t.size, 40)] = np.tile([np.nan, np.inf, -np.inf, 1e38, 1e-40], 8)
    (folder / "job.json").write_text(json.dumps({**job, "scheme": scheme}))
    x["key"].tofile(folder / "keys.f32")
    x["value"].tofile(folder / "values.f32")
    subprocess.run([probe] + [folder / f for f in ("job.json", "keys.f32", "values.f32", "cal.json", "out")], check=True)
    calibration = json.loads((folder / "cal.json").read_text())["layers"]
    data, at, compared = (folder / "out").read_bytes(), 0, 0
    counted = {"key": 0, "value": 0}
    total = {"key": 0, "value": 0}
    sinks, heads, d = scheme["sink_tokens"], job["kv_heads"], job["head_dim"]
    for layer in range(job["layers"]):
        for t in ("key", "value"):
            tensor = scheme[t]
            finite = lambda a: np.where(np.abs(a) < 65520, a, F32(0)).astype(F32)
            whole = x[t][layer].reshape(job["tokens"], -1)
            sample, low, high = inliers(tensor, finite(whole[:job["tokens"] // 2]))
            got = calibration[layer][t]
            if low is not None:
                np.testing.assert_array_equal(np.array(got["lower"], F32), low)
                np.testing.assert_array_equal(np.array(got["upper"], F32), high)
            check_levels(sample, got, tensor["q_norm"], kind)
            with np.errstate(all="ignore"):
                source = finite(whole.astype(F16).astype(F32))[sinks:]
            arrays, values, size, fixed = expected(tensor, got, source, heads)
            counted[t] += size
            total[t] += size + fixed + 2 * sinks * heads * d
            reads = values.reshape(-1, heads, d).transpose(1, 0, 2)
            if t == "key":
                reads = np.stack([rope(r, sinks, job["rope_theta"]) for r in reads])
            for name, want in zip(("codes", "ranges", "row ends", "channels", "outliers", "reads"),
                                  arrays + [np.ascontiguousarray(reads)]):
                have = np.frombuffer(data, want.dtype, want.size, at).reshape(want.shape)
                at += have.nbytes
                compared += want.size
                if not np.array_equal(have, want):
                    bad = tuple(np.argwhere(have != want)[0])
                    raise SystemExit(f"{kind}: {t} {name} of layer {layer} differ, first at {bad}: {have[bad]} != "
                                     f"{want[bad]}\n{json.dumps(scheme)}\n{json.dumps(job)}")
    counts = np.frombuffer(data, np.int64, 4, at)
    assert list(counts) == [counted["key"], counted["value"], total["key"], total["value"]], (counts, counted, total)
    assert at + counts.nbytes == len(data)
    return compared


def main(probe):
    cases = compared = 0
    with tempfile.TemporaryDirectory() as folder:
        number = 0
        for bits, share, q_norm in [(2, 0.01, True), (2, 0.0, False), (3, 0.0, False), (3, 0.01, False),
                                    (3, 0.1, True), (4, 0.01, False)]:
            for head_dim in (64, 80, 96, 128):
                for kind in ("random", "biased", "constant", "outliers", "tiny", "hostile"):
                    number += 1
                    tensor = {"bits": bits, "quantizer": "kvquant", "group_size": 0, "center": False, "normalize": False,
                              "rotate": False, "window": "none", "outliers": share, "q_norm": q_norm}
                    scheme = {"name": "case", "family": "kvquant", "key": {**tensor, "axis": "channel"},
                              "value": {**tensor, "axis": "token"}, "key_before_rope": True, "residual_window": 0,
                              "sink_tokens": number % 3, "prefill": "quantized", "rotation_seed": 0}
                    job = {"layers": 2, "kv_heads": 1 + number % 3, "head_dim": head_dim, "rope_theta": 10000.0,
                           "tokens": 90, "block": 1 + 7 * (number % 13)}
                    compared += check(probe, Path(folder), scheme, kind, job, number)
                    cases += 1
    print(f"{cases} caches, {compared} codes, ranges, outliers and reads equal")


if __name__ == "__main__":
    main(sys.argv[1])

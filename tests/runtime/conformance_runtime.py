#!/usr/bin/env python3
"""The shared library, called through ctypes, against docs/features.md and the bundle format in numpy (f64).

conformance_runtime.py SHARED_LIBRARY MAKE_BUNDLE MANIFEST_SCHEMA
"""
import ctypes
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

V, K = 613, 32
EPS = 2.0**-24
FLT_MAX = float(np.finfo(np.float32).max)
KEEP, RESTORE, ESCALATE, REJECTED = 0, 1, 2, 3


class Logits(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int), ("rows", ctypes.c_int64),
                ("width", ctypes.c_int64), ("row_stride", ctypes.c_int64), ("element_stride", ctypes.c_int64)]


RESULT = np.dtype([("verdict", "<i4"), ("window", "<i4"), ("risk", "<f4")])


class Runtime:
    def __init__(self, library, bundle):
        self.lib = ctypes.CDLL(library)
        self.lib.dgap_last_error.restype = ctypes.c_char_p
        self.bundle = ctypes.c_void_p()
        self.check(self.lib.dgap_bundle_open(str(bundle).encode(), ctypes.byref(self.bundle)))

    def check(self, status):
        assert status == 0, self.lib.dgap_last_error().decode()

    def context(self, text):
        """A context that ends with `text`, by way of a draft that is taken back."""
        context, ids = ctypes.c_void_p(), np.array(text, np.int32)
        half, draft = len(ids) // 2, np.array([1, 2, 1], np.int32)
        pointer = lambda a: a.ctypes.data_as(ctypes.c_void_p)
        self.check(self.lib.dgap_context_create(self.bundle, ctypes.c_int64(0), ctypes.byref(context)))
        self.check(self.lib.dgap_context_begin(context, pointer(ids), ctypes.c_int64(half)))
        self.check(self.lib.dgap_context_accept(context, pointer(draft), ctypes.c_int64(3)))
        self.check(self.lib.dgap_context_roll_back(context, ctypes.c_int64(3)))
        self.check(self.lib.dgap_context_accept(context, pointer(ids[half:]), ctypes.c_int64(len(ids) - half)))
        return context

    def restore(self, precision, rows, dtype, texts=None):
        restorer = ctypes.c_void_p()
        self.check(self.lib.dgap_restorer_create(self.bundle, precision.encode(), ctypes.byref(restorer)))
        rows = np.ascontiguousarray(rows).copy()
        results = np.zeros(len(rows), RESULT)
        view = Logits(rows.ctypes.data, dtype, len(rows), rows.shape[1], rows.strides[0], rows.strides[1])
        out = results.ctypes.data_as(ctypes.c_void_p)
        if texts is None:
            self.check(self.lib.dgap_restorer_restore(restorer, ctypes.byref(view), out))
        else:
            known = {id(text): self.context(text) for text in texts}
            contexts = (ctypes.c_void_p * len(rows))(*(known[id(text)] for text in texts))
            self.check(self.lib.dgap_restorer_restore_in_context(restorer, contexts, ctypes.byref(view), out))
            for context in known.values():
                self.lib.dgap_context_destroy(context)
        self.lib.dgap_restorer_destroy(restorer)
        return rows, results


def read_safetensors(path):
    raw = path.read_bytes()
    n = int.from_bytes(raw[:8], "little")
    return {name: np.frombuffer(raw[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]], "<f4").astype(float)
            .reshape(t["shape"]) for name, t in json.loads(raw[8:8 + n]).items()}


class Network:
    """f64 forward, and how far f32 arithmetic may be from it: rounding errors of n operations at the size of
    the terms' absolute values, which add up like a random walk (8 + 2 sqrt n, generously)."""

    def __init__(self, tensors, prefix, layers):
        self.mean, self.scale = tensors[prefix + ".mean"], tensors[prefix + ".scale"]
        self.layers = [(tensors[f"{prefix}.{i}.weight"], tensors[f"{prefix}.{i}.bias"]) for i in range(layers)]

    def __call__(self, x):
        size = (np.abs(x) + np.abs(self.mean)) * np.abs(self.scale)
        x = (x - self.mean) * self.scale
        operations = x.shape[-1]
        for i, (weight, bias) in enumerate(self.layers):
            if i > 0:
                x = x / (1 + np.exp(-np.sqrt(8 / np.pi) * (x + 0.044715 * x**3)))
                operations += x.shape[-1] + 8
            x, size = x @ weight.T + bias, size @ np.abs(weight).T + np.abs(bias)
        return x, (8 + 2 * np.sqrt(operations)) * EPS * size

    def of_window(self, phi, xi):
        """Changes of all candidates by a network of the whole window; those that a short window lacks are at the mean."""
        x = self.mean.copy()
        x[:20], x[20:20 + xi.size] = phi, xi.ravel()
        return tuple(values[:len(xi)] for values in self(x))

    def of_candidates(self, phi, xi):
        x = np.concatenate([np.broadcast_to(phi, (len(xi), 20)), xi], axis=1)
        return tuple(values[..., 0] for values in self(x))


def to_float(x):
    return np.clip(x, -FLT_MAX, FLT_MAX).astype(np.float32).astype(float)


def features(z, lse, entropy):
    """Phi and xi of one window (docs/features.md)."""
    k = len(z)
    at = lambda j: z[min(j, k) - 1]
    p = np.exp(z - lse)
    mass = lambda n: p[:n].sum()
    gaps = z[:min(10, k - 1)] - z[1:min(10, k - 1) + 1]
    q = p / p.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = np.clip(np.log(p.sum()) - np.log(max(0.0, 1 - p.sum())), -12, 12)
        window_entropy = -np.where(q > 0, q * np.log(q), 0).sum()
    phi = [entropy, p.sum(), p[0], mass(2), mass(5), mass(10), at(1) - at(2), at(2) - at(3), at(3) - at(4),
           *((gaps.mean(), gaps.std(), gaps.min()) if len(gaps) else (0, 0, 0)),
           at(1) - at(5), at(1) - at(10), at(1) - at(k), window_entropy, (q**2).sum(), z.var(), odds, np.log(k)]
    xi = np.stack([z - z.mean(), p, z - lse, np.log(np.arange(1, k + 1)), z[0] - z,
                   np.concatenate([[0], z[:-1] - z[1:]]), np.concatenate([z[:-1] - z[1:], [0]])], axis=1)
    return to_float(np.array(phi)), to_float(xi)


def is_copied(x, place):
    """Three tokens in a row around x[place] come again later, x[place] among the last 32."""
    for j in range(max(place + 1, len(x) - 32), len(x)):
        for first in (-2, -1, 0):
            a, b = x[place + first:place + first + 3], x[j + first:j + first + 3]
            if x[j] == x[place] and place + first >= 0 and len(b) == 3 and (a == b).all():
                return True
    return False


def context_features(text, ids):
    """Of every candidate, over the whole text at once (docs/features.md)."""
    x, n = np.array(text, int), len(text)
    equal = np.zeros((max(n - 1, 0), 8), bool)  # [place, tokens back]
    for i in range(n - 1):
        for m in range(min(8, i + 1)):
            equal[i, m] = x[i - m] == x[n - 1 - m]
    suffix, fuzzy = np.cumprod(equal, axis=1).sum(axis=1), equal @ 0.8 ** np.arange(8)
    follower, recent = x[1:], set(x[-32:].tolist())
    weight = np.array([np.log((n + 1) / (x == t).sum()) if t in recent else 0.0 for t in x])
    key = np.array([weight[max(0, i - 11):i + 1].sum() if i < n - 32 else 0.0 for i in range(max(n - 1, 0))])
    largest = lambda values, where: np.max(values[where], initial=0)
    places = [follower == c for c in ids]
    keys = np.array([[largest(key, p & (suffix >= g)) for g in range(4)] for p in places])
    fuzzies = np.array([largest(fuzzy, p) for p in places])
    scale = keys[:, 0].max()
    scaled = keys / scale if scale > 0 else keys
    kept = np.array([key[i] > 0 and not is_copied(x, i + 1) for i in range(max(n - 1, 0))], bool)
    fresh = np.array([[largest(key, p & kept & (suffix >= g)) for g in (0, 1)] for p in places])
    reach = [kept & (suffix >= g) & (key >= 0.9 * fresh[:, g].max() - 1e-5) & np.isin(follower, ids) for g in (0, 1)]
    first = [follower[r.argmax()] if r.any() else -1 for r in reach]
    totals = {g: (suffix >= g).sum() for g in (1, 2, 3, 5)}
    rows = []
    for k, (c, p) in enumerate(zip(ids, places)):
        positions, bigrams = np.flatnonzero(x == c), np.flatnonzero(p & (suffix >= 1)) + 1
        away = lambda at: -np.log(n - at[-1]) if len(at) else -12.0
        row = [np.log1p(len(positions)), away(positions)]
        for g in (1, 2, 3, 5):
            matches = (p & (suffix >= g)).sum()
            row += [np.log1p(matches), matches / max(1, totals[g])]
        row += [np.log1p(totals[g]) for g in (1, 2, 3)] + [away(bigrams)]
        longest = largest(suffix, p)
        row += [longest / 8, (longest - suffix.max(initial=0)) / 8, fuzzies[k], fuzzies[k] - fuzzies.max()]
        row += [*scaled[k], *(scaled[k, 1:3] - scaled[:, 1:3].max(axis=0)), np.log1p(scale)]
        row += [*(fresh[k] / (scale or 1)), *((fresh[k] - fresh.max(axis=0)) / (scale or 1)), *(f == c for f in first)]
        rows.append(row)
    return np.array(rows)


def make_text(rng, length):
    """Words of a small alphabet and phrases that come again."""
    text = []
    while len(text) < length:
        if len(text) > 20 and rng.random() < 0.3:
            start = rng.integers(0, len(text) - 10)
            text += text[start:start + 10]
        else:
            text.append(int(rng.integers(0, 15)) * 40)
    return text[:length]


def make_rows(rng, count):
    """Rows of every kind that is to be expected, and of those that should never come."""
    spread = np.exp(rng.uniform(np.log(0.3), np.log(30), (count, 1)))
    rows = rng.standard_normal((count, V)) * spread + rng.uniform(-20, 20, (count, 1))
    kind = rng.integers(0, 12, count)
    rows[kind == 1] = np.round(rows[kind == 1] * 4) / 4  # ties
    rows[kind == 2] = np.round(rows[kind == 2])
    rows[kind == 3] = rows[kind == 3, :1]  # constant
    rows[(kind == 4)[:, None] & (rng.random((count, V)) < 0.7)] = -np.inf
    rows[(kind == 5)[:, None] & (rng.random((count, V)) < 0.98)] = -np.inf  # fewer than K are left
    rows[kind == 6] *= 1e-41
    rows[kind == 7] *= 100
    bad = np.flatnonzero(kind == 8)
    rows[bad, rng.integers(0, V, len(bad))] = rng.choice([np.nan, np.inf], len(bad))
    rows[bad[::3]] = -np.inf
    return rows.astype(np.float32)


def check_row(name, entry, networks, before, after, result, store, text):
    """Returns what the row was counted as."""
    finite = before > -np.inf
    if np.isnan(before).any() or (before == np.inf).any() or not finite.any():
        assert result["verdict"] == REJECTED and np.isnan(result["risk"]), (name, result)
        assert np.array_equal(before, after, equal_nan=True)
        return "rejected"
    ids = np.argsort(-before, kind="stable")[:min(K, finite.sum())]
    z = before[ids]
    d = before[finite] - z[0]
    e = np.exp(d)
    lse = z[0] + np.log(e.sum())
    held, mass = np.cumsum(np.exp(z - lse)), entry.get("window_mass", 1.0)
    if mass < 1:
        if np.abs(held - mass).min() < 1e-12:
            return "too near to tell"
        ids = ids[:(held < mass).sum() + 1]
        z = before[ids]
    assert result["window"] == len(ids), (name, result)
    outside = np.ones(V, bool)
    outside[ids] = False
    assert np.array_equal(before[outside], after[outside])

    entropy = max(0.0, np.log(e.sum()) - (e * d).sum() / e.sum())
    phi, xi = features(z, lse, entropy)
    if entry["detector"]["architecture"] == "constant":
        risk, risk_error = entry["detector"]["constant_risk"], EPS
    else:
        (logit,), (error,) = networks["detector"](phi)
        risk, risk_error = 1 / (1 + np.exp(-logit)), error / 4 + 4 * EPS
    assert abs(result["risk"] - risk) <= risk_error, (name, result, risk, risk_error)

    if "escalate" in networks:
        (logit,), (error,) = networks["escalate"](phi)
        score, escalate_tau = 1 / (1 + np.exp(-logit)), entry["threshold"]["escalate_tau"]
        if abs(score - escalate_tau) <= 1e-6 + error / 4 + 4 * EPS:
            return "too near to tell"
        assert (result["verdict"] == ESCALATE) == (score > escalate_tau), (name, result, score)
        if score > escalate_tau:
            assert np.array_equal(before, after)
            return "escalated"

    tau = entry["threshold"]["tau"]
    restores = entry["mode"] == "always" or risk > tau
    if entry["mode"] == "threshold" and abs(risk - tau) <= 1e-6 + risk_error:
        return "too near to tell"
    assert result["verdict"] == (RESTORE if restores else KEEP), (name, result, risk)
    if not restores:
        assert np.array_equal(before, after)
        return "kept"
    if "context" in entry["corrector"]["inputs"]:
        xi = np.concatenate([xi, to_float(context_features(text, ids))], axis=1)
    shape = networks["shape"]
    delta, error = (shape.of_window if entry["corrector"].get("form") == "window" else shape.of_candidates)(phi, xi)
    if "mass" in networks:
        offset, more = networks["mass"](phi)
        delta, error = delta + offset, error + more
    wanted = z + delta
    low, high = store(wanted - error - 4 * EPS * np.abs(wanted)), store(wanted + error + 4 * EPS * np.abs(wanted))
    assert ((after[ids] >= low) & (after[ids] <= high)).all(), (name, after[ids], low, high)
    return "restored"


def as_bfloat16(x):
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bfloat16(x):
    return (x.astype(np.uint32) << 16).view(np.float32)


def check_manifest(folder, schema):
    try:
        import jsonschema
    except ImportError:
        return "no jsonschema package: manifest.schema.json was not tried"
    schema = json.loads(pathlib.Path(schema).read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    manifest = json.loads((folder / "manifest.json").read_text())
    validator.validate(manifest)
    wrong = {"tau": lambda m: m["precisions"]["mlp"]["threshold"].update(tau=None),
             "mode": lambda m: m["precisions"]["mlp"].update(mode="maybe"),
             "layers": lambda m: m["precisions"]["mlp"]["detector"].update(layers=1),
             "path": lambda m: m["files"][0].update(path="../x"),
             "inputs": lambda m: m["precisions"]["context"]["corrector"].update(inputs=["context"]),
             "form": lambda m: m["precisions"]["window"]["corrector"].update(form="candidate"),
             "heads": lambda m: m["precisions"]["transformer"]["corrector"].pop("heads"),
             "heads of an mlp": lambda m: m["precisions"]["mlp"]["corrector"].update(heads=2),
             "layers of a transformer": lambda m: m["precisions"]["transformer"]["corrector"].update(layers=7),
             "window_mass": lambda m: m["precisions"]["linear"].update(window_mass=1.5),
             "step": lambda m: m["precisions"]["linear"]["threshold"]["online"].update(step=0),
             "scale": lambda m: m["precisions"]["linear"]["detector"]["calibration"].update(scale=-1),
             "unknown": lambda m: m.update(extra=1)}
    for name, change in wrong.items():
        changed = json.loads(json.dumps(manifest))
        change(changed)
        assert not validator.is_valid(changed), name
    return "manifest fits manifest.schema.json"


def main():
    library, make_bundle, schema = sys.argv[1:]
    rng = np.random.default_rng(20260716)
    np.seterr(over="ignore")  # exp of far arguments, f16 beyond its range: both give what is wanted
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work) / "bundle"
        subprocess.run([make_bundle, folder, str(V), str(K), "1"], check=True)
        manifest = json.loads((folder / "manifest.json").read_text())
        tensors = read_safetensors(folder / "weights.safetensors")
        print(check_manifest(folder, schema))
        runtime = Runtime(library, folder)
        f32 = lambda x: np.asarray(x, np.float32)
        plans = [("mlp", 0, 7000, f32, f32, f32), ("linear", 0, 7000, f32, f32, f32), ("always", 0, 4000, f32, f32, f32),
                 ("always", 1, 1500, lambda x: np.asarray(x, np.float16), f32,
                  lambda x: np.asarray(np.clip(x, -65504, 65504), np.float16)),
                 ("context", 0, 1500, f32, f32, f32), ("window", 0, 1500, f32, f32, f32),
                 ("mlp", 2, 1500, as_bfloat16, from_bfloat16, lambda x: from_bfloat16(as_bfloat16(x)))]
        for name, dtype, count, encode, decode, store in plans:
            entry = manifest["precisions"][name]
            networks = {}
            if entry["detector"]["architecture"] != "constant":
                networks["detector"] = Network(tensors, entry["detector"]["tensors"], entry["detector"]["layers"])
            if entry["detector"].get("escalate"):
                networks["escalate"] = Network(tensors, entry["detector"]["tensors"] + ".escalate",
                                               entry["detector"]["layers"])
            corrector = entry["corrector"]
            networks["shape"] = Network(tensors, corrector["tensors"] + ".shape", corrector["layers"])
            if corrector["mass"]:
                networks["mass"] = Network(tensors, corrector["tensors"] + ".mass", corrector["layers"])
            rows = encode(make_rows(rng, count))
            takes_context = "context" in corrector["inputs"]
            some = [make_text(rng, length) for length in (0, 1, 5, 31, 33, 64, 200, 400)]
            texts = [some[i % len(some)] for i in range(count)]
            restored, results = runtime.restore(name, rows, dtype, texts if takes_context else None)
            before, after = decode(rows).astype(float), decode(restored).astype(float)
            counts = {}
            for i in range(count):
                kind = check_row(name, entry, networks, before[i], after[i], results[i],
                                 lambda x: store(x).astype(float), texts[i])
                counts[kind] = counts.get(kind, 0) + 1
            print(f"{name}, dtype {dtype}: {count} rows, {counts}")
            assert counts.get("too near to tell", 0) < count / 50, counts
            assert counts["restored"] > count / 10, counts


if __name__ == "__main__":
    main()

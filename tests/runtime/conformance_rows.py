#!/usr/bin/env python3
"""Many random rows through the shared library, against docs/features.md and the bundle format in numpy (f64), all
rows of a batch at once: verdicts, risks, windows, corrected logits, and every bit that must stay.

conformance_rows.py SHARED_LIBRARY MAKE_BUNDLE [ROWS]      20,000 rows unless said otherwise
"""
import collections
import ctypes
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

from conformance_runtime import (EPS, ESCALATE, KEEP, REJECTED, RESTORE, RESULT, Logits, Network, Runtime, as_bfloat16,
                                 from_bfloat16, read_safetensors, to_float)

BATCH = 500
NEAR = 1e-6  # of tau: the verdict may be either

# Vocabulary and window of the bundles; a precision of each; its share of the rows. From 4,096 on, rows are summed in two
# ways (runtime/row_scan.hpp).
PLANS = [(613, 32, "mlp", 5), (613, 32, "linear", 5), (613, 32, "always", 2), (2048, 64, "mlp", 2), (5000, 80, "mlp", 1),
         (97, 5, "linear", 3), (17, 17, "mlp", 2), (17, 17, "linear", 1), (2, 1, "mlp", 1), (1, 1, "always", 1)]


class Type:
    """A type of logits: its number in the ABI, bits to and from f64, and the nearest below and above."""

    def __init__(self, number, name, storage, encode, decode, largest):
        self.number, self.name, self.storage = number, name, storage
        self.encode, self.decode, self.largest = encode, decode, largest

    def store(self, x):
        return self.decode(self.encode(np.clip(x, -self.largest, self.largest)))


TYPES = [Type(0, "f32", np.uint32, lambda x: np.asarray(x, np.float32).view(np.uint32),
              lambda b: b.view(np.float32).astype(float), float(np.finfo(np.float32).max)),
         Type(1, "f16", np.uint16, lambda x: np.asarray(x, np.float16).view(np.uint16),
              lambda b: b.view(np.float16).astype(float), 65504.0),
         Type(2, "bf16", np.uint16, as_bfloat16, lambda b: from_bfloat16(b).astype(float), float(2.0**128 - 2.0**120))]


def random_rows(rng, count, v):
    """f64 [count, v], of every kind that is to be expected, and of those that should never come; and the kinds."""
    spread = np.exp(rng.uniform(np.log(0.3), np.log(30), (count, 1)))
    rows = rng.standard_normal((count, v)) * spread + rng.uniform(-20, 20, (count, 1))
    names = np.array(["plain", "plain", "plain", "quarters", "integers", "constant", "masked", "nearly all masked",
                      "denormal", "wide", "huge", "NaN or +inf", "nothing left"])
    kind = names[rng.integers(0, len(names), count)]
    of = lambda name: kind == name
    rows[of("quarters")] = np.round(rows[of("quarters")] * 4) / 4
    rows[of("integers")] = np.round(rows[of("integers")])
    rows[of("constant")] = rows[of("constant"), :1]
    rows[of("masked")[:, None] & (rng.random((count, v)) < 0.7)] = -np.inf
    rows[of("nearly all masked")[:, None] & (rng.random((count, v)) < 0.98)] = -np.inf
    rows[of("denormal")] *= 1e-41
    rows[of("wide")] *= 100
    rows[of("huge")] *= 1e36
    bad = np.flatnonzero(of("NaN or +inf"))
    rows[bad, rng.integers(0, v, len(bad))] = rng.choice([np.nan, np.inf], len(bad))
    rows[of("nothing left")] = -np.inf
    return rows, kind


class Reference:
    """What a precision of a bundle does to rows."""

    def __init__(self, folder, name):
        entry = json.loads((folder / "manifest.json").read_text())["precisions"][name]
        tensors = read_safetensors(folder / "weights.safetensors")
        detector, corrector = entry["detector"], entry["corrector"]
        network = lambda key, layers: Network(tensors, key, layers)
        self.window, self.mass, self.mode = entry["window"], entry.get("window_mass", 1.0), entry["mode"]
        self.tau, self.escalate_tau = entry["threshold"]["tau"], entry["threshold"]["escalate_tau"]
        self.constant = detector.get("constant_risk")
        self.detector = network(detector["tensors"], detector["layers"]) if self.constant is None else None
        self.second = network(detector["tensors"] + ".escalate", detector["layers"]) if detector.get("escalate") else None
        self.shape = network(corrector["tensors"] + ".shape", corrector["layers"])
        self.offset = network(corrector["tensors"] + ".mass", corrector["layers"]) if corrector["mass"] else None

    def windows(self, z):
        """Ids and logits [n, k] in order, ties by lower id; how many count; log-sum-exp and entropy; whether a mass
        ends the window within rounding of another place."""
        k = min(self.window, z.shape[1])
        ids = np.argsort(-z, axis=1, kind="stable")[:, :k]
        top = np.take_along_axis(z, ids, axis=1)
        d = z - top[:, :1]
        e = np.exp(d)
        total = e.sum(axis=1)
        lse = top[:, 0] + np.log(total)
        entropy = np.maximum(0, np.log(total) - (e * np.where(e > 0, d, 0)).sum(axis=1) / total)
        used = (top > -np.inf).sum(axis=1)
        near = np.zeros(len(z), bool)
        if self.mass < 1:
            held = np.cumsum(np.exp(top - lse[:, None]), axis=1)
            near = np.abs(held - self.mass).min(axis=1) < 1e-12
            used = np.minimum(used, (held < self.mass).sum(axis=1) + 1)
        return ids, top, used, lse, entropy, near

    def features(self, top, used, lse, entropy):
        """Phi [n, 20] and xi [n, k, 7]."""
        n, k = top.shape
        inside = np.arange(k) < used[:, None]
        last = top[np.arange(n), used - 1]
        z = np.where(inside, top, last[:, None])
        at = lambda j: z[:, min(j, k) - 1]
        p = np.where(inside, np.exp(z - lse[:, None]), 0)
        held = np.cumsum(p, axis=1)
        mass = lambda j: held[:, min(j, k) - 1]
        total = held[:, -1]
        gaps, g = z[:, :min(10, k - 1)] - z[:, 1:min(10, k - 1) + 1], np.minimum(10, used - 1)
        counted = np.arange(gaps.shape[1]) < g[:, None]
        share = np.maximum(g, 1)
        mean_gap = np.where(counted, gaps, 0).sum(axis=1) / share
        with np.errstate(invalid="ignore"):
            std_gap = np.sqrt(np.where(counted, (gaps - mean_gap[:, None])**2, 0).sum(axis=1) / share)
            least_gap = np.where(g > 0, np.where(counted, gaps, np.inf).min(axis=1, initial=np.inf), 0)
        q = p / total[:, None]
        log_q = np.log(np.where(q > 0, q, 1))
        mean = np.where(inside, z, 0).sum(axis=1) / used
        variance = np.where(inside, (z - mean[:, None])**2, 0).sum(axis=1) / used
        with np.errstate(divide="ignore"):
            odds = np.clip(np.log(total) - np.log(np.maximum(0, 1 - total)), -12, 12)
        phi = np.stack([entropy, total, p[:, 0], mass(2), mass(5), mass(10), at(1) - at(2), at(2) - at(3), at(3) - at(4),
                        mean_gap, std_gap, least_gap, at(1) - at(5), at(1) - at(10), at(1) - last,
                        np.maximum(0, -(q * log_q).sum(axis=1)), (q**2).sum(axis=1), variance, odds, np.log(used)], axis=1)
        up = np.concatenate([np.zeros((n, 1)), z[:, :-1] - z[:, 1:]], axis=1)
        down = np.concatenate([z[:, :-1] - z[:, 1:], np.zeros((n, 1))], axis=1)
        xi = np.stack([z - mean[:, None], p, z - lse[:, None], np.broadcast_to(np.log(np.arange(1, k + 1)), z.shape),
                       z[:, :1] - z, up, down], axis=2)
        return to_float(phi), to_float(xi)

    @staticmethod
    def sigmoid(network, phi):
        """And how far f32 may be from it."""
        logit, error = network(phi)
        return 1 / (1 + np.exp(-logit[:, 0])), error[:, 0] / 4 + 4 * EPS

    def changed(self, phi, xi, top):
        """Corrected logits of the window [n, k] and how far f32 may be from them."""
        both = np.concatenate([np.broadcast_to(phi[:, None], (*xi.shape[:2], 20)), xi], axis=2)
        delta, error = (x[:, :, 0] for x in self.shape(both))
        if self.offset is not None:
            offset, more = self.offset(phi)
            delta, error = delta + offset, error + more
        wanted = top + delta
        return wanted, error + 4 * EPS * np.abs(wanted)


def restore(runtime, precision, bits, kind, rng):
    """Bits [n, v] of logits before -> after, and the results. Half of the batches are strided, among bytes that must stay."""
    n, v = bits.shape
    step, more = (3, 11) if rng.random() < 0.5 else (1, 0)
    memory = rng.integers(0, 255, (n, (v + more) * step), dtype=np.uint8).astype(bits.dtype)
    memory[:, :v * step:step] = bits
    before, results = memory.copy(), np.zeros(n, RESULT)
    restorer = ctypes.c_void_p()
    runtime.check(runtime.lib.dgap_restorer_create(runtime.bundle, precision.encode(), ctypes.byref(restorer)))
    view = Logits(memory.ctypes.data, kind.number, n, v + more, memory.strides[0], memory.strides[1] * step)
    runtime.check(runtime.lib.dgap_restorer_restore(restorer, ctypes.byref(view), results.ctypes.data_as(ctypes.c_void_p)))
    runtime.lib.dgap_restorer_destroy(restorer)
    after = memory[:, :v * step:step].copy()
    memory[:, :v * step:step] = bits
    assert np.array_equal(memory, before), "bytes beside the logits were written"
    return after, results


def check_batch(reference, kind, before, after, results, tally):
    rejected = results["verdict"] == REJECTED
    z = kind.decode(before)
    hopeless = np.isnan(z).any(axis=1) | (z == np.inf).any(axis=1) | (z == -np.inf).all(axis=1)
    assert np.isnan(results["risk"][hopeless]).all() and rejected[hopeless].all()
    assert np.array_equal(before[hopeless], after[hopeless])
    tally["rejected"] += int(hopeless.sum())
    before, after, results, z = before[~hopeless], after[~hopeless], results[~hopeless], z[~hopeless]

    ids, top, used, lse, entropy, near = reference.windows(z)
    tally["window too near to tell"] += int(near.sum())
    assert (near | (results["window"] == used)).all()
    outside = np.ones(before.shape, bool)
    np.put_along_axis(outside, ids, np.arange(ids.shape[1]) >= used[:, None], axis=1)
    assert (near[:, None] | ~outside | (before == after)).all(), "a logit outside the window was touched"

    phi, xi = reference.features(top, used, lse, entropy)
    risk, error = (np.full(len(z), float(reference.constant)), np.full(len(z), EPS)) if reference.detector is None else \
        reference.sigmoid(reference.detector, phi)
    assert (near | (np.abs(results["risk"] - risk) <= error)).all()
    wanted = np.full(len(z), RESTORE) if reference.mode == "always" else np.where(risk > reference.tau, RESTORE, KEEP)
    close = np.zeros(len(z), bool) if reference.mode == "always" else np.abs(risk - reference.tau) <= NEAR
    beyond_f32 = np.zeros(len(z), bool) if reference.mode == "always" else np.abs(risk - reference.tau) <= error
    if reference.second is not None:
        score, more = reference.sigmoid(reference.second, phi)
        wanted[score > reference.escalate_tau] = ESCALATE
        close |= np.abs(score - reference.escalate_tau) <= NEAR
        beyond_f32 |= np.abs(score - reference.escalate_tau) <= more
    inside = np.arange(top.shape[1]) < used[:, None]
    changed, more = reference.changed(phi, xi, np.where(inside, top, 0))
    overflow = (np.where(inside, np.abs(changed) + more, 0) >= np.finfo(np.float32).max).any(axis=1)
    other = (results["verdict"] != wanted) & ~near
    other &= ~(overflow & (wanted == RESTORE) & (results["verdict"] == REJECTED))
    tally["verdict within 1e-6 of tau"] += int((close & ~near).sum())
    tally["other verdict, further from tau"] += int((other & ~close).sum())
    assert not (other & ~close & ~beyond_f32).any(), "another verdict than the reference's"

    restored = (results["verdict"] == RESTORE) & ~near
    assert np.array_equal(before[(results["verdict"] != RESTORE) & ~near], after[(results["verdict"] != RESTORE) & ~near])
    low, high = kind.store(changed[restored] - more[restored]), kind.store(changed[restored] + more[restored])
    found = np.take_along_axis(kind.decode(after[restored]), ids[restored], axis=1)
    assert (~inside[restored] | (found >= low) & (found <= high)).all(), "a corrected logit is not the reference's"
    for verdict, name in ((KEEP, "kept"), (RESTORE, "restored"), (ESCALATE, "escalated"), (REJECTED, "not finite")):
        tally[name] += int((results["verdict"] == verdict).sum())


def main():
    library, make_bundle = sys.argv[1:3]
    wanted = int(sys.argv[3]) if len(sys.argv) > 3 else 20_000
    rng = np.random.default_rng(20260717)
    np.seterr(over="ignore")  # exp of far arguments, f16 beyond its range: both give what is wanted
    tally, kinds, shares = collections.Counter(), collections.Counter(), sum(plan[3] for plan in PLANS)
    with tempfile.TemporaryDirectory() as work:
        for number, (v, k, precision, share) in enumerate(PLANS):
            folder = pathlib.Path(work) / f"bundle-{number}"
            subprocess.run([make_bundle, folder, str(v), str(k), str(number + 1)], check=True)
            runtime, reference = Runtime(library, folder), Reference(folder, precision)
            left, own = -(-wanted * share // shares), collections.Counter()
            while left > 0:
                kind = TYPES[rng.choice(3, p=(0.5, 0.25, 0.25))]
                rows, names = random_rows(rng, min(left, max(100, min(BATCH, 1_000_000 // v))), v)
                bits = kind.encode(rows)
                after, results = restore(runtime, precision, bits, kind, rng)
                check_batch(reference, kind, bits, after, results, own)
                own["rows"] += len(rows)
                own[kind.name] += len(rows)
                kinds.update(names.tolist())
                left -= len(rows)
            print(f"vocabulary {v}, window {k}, {precision}: {dict(own)}", flush=True)
            tally.update(own)
    print("all:", dict(tally))
    print("kinds:", dict(kinds))
    assert tally["kept"] and tally["restored"] and tally["escalated"]


if __name__ == "__main__":
    main()

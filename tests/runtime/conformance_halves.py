#!/usr/bin/env python3
"""What logits in f16 and bf16 change: how often verdict and top-1 are not those that f32 gives. And that nothing but
rounding does: rows in a half type are judged, bit for bit, as the same numbers in f32 are.

conformance_halves.py SHARED_LIBRARY MAKE_BUNDLE         rows like a model's, a toy bundle
conformance_halves.py SHARED_LIBRARY BUNDLE TRACES       the test units of traces with trace.logits: full, for each
                                                         precision with a threshold that they have
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

from conformance_runtime import RESTORE, Runtime, as_bfloat16, from_bfloat16

TYPES = {"f16": (1, lambda x: x.astype(np.float16).view(np.uint16), lambda b: b.view(np.float16).astype(np.float32)),
         "bf16": (2, as_bfloat16, from_bfloat16)}


def toy_rows(folder):
    """4,000 rows: a normal body and a few tokens that stand out, as those of models do."""
    rng, v = np.random.default_rng(5), json.loads((folder / "manifest.json").read_text())["base_model"]["vocab_size"]
    for _ in range(8):
        rows = 2 * rng.standard_normal((500, v))
        rows[np.arange(500)[:, None], rng.integers(0, v, (500, 5))] += rng.exponential(6, (500, 5))
        yield rows.astype(np.float32)


def trace_rows(folder, precision):
    import h5py
    for path in sorted(folder.glob("part-*.h5")):
        with h5py.File(path) as part:
            if precision not in part["precisions"]:
                return
            is_test = np.isin(part["steps/unit"][:], np.flatnonzero(part["units/split"][:] == b"test"))
            for start in range(0, len(is_test), 256):
                rows = part[f"precisions/{precision}/logits"][start:start + 256][is_test[start:start + 256]]
                if len(rows):
                    yield rows


def compare(runtime, precision, vocab, batches):
    count = {name: np.zeros(4, int) for name in TYPES}
    rows_seen = restored = 0
    for rows in batches:
        rows = np.ascontiguousarray(rows[:, :vocab])
        after, results = runtime.restore(precision, rows, 0)
        rows_seen += len(rows)
        restored += int((results["verdict"] == RESTORE).sum())
        for name, (number, encode, decode) in TYPES.items():
            bits = encode(rows)
            rounded = np.ascontiguousarray(decode(bits))
            half_after, half = runtime.restore(precision, bits, number)
            f32_after, f32 = runtime.restore(precision, rounded, 0)
            assert np.array_equal(half, f32, equal_nan=False) and np.array_equal(half_after, encode(f32_after))
            count[name] += [(half["verdict"] != results["verdict"]).sum(),
                            (rounded.argmax(axis=1) != rows.argmax(axis=1)).sum(),
                            (decode(half_after).argmax(axis=1) != after.argmax(axis=1)).sum(),
                            (after.argmax(axis=1) != rows.argmax(axis=1)).sum()]
    if rows_seen == 0:
        return 0
    share = lambda n: f"{n} ({100 * n / rows_seen:.2f} %)"
    print(f"{precision}: {rows_seen} rows, f32 restores {share(restored)} and changes the top-1 of "
          f"{share(count['f16'][3])}", flush=True)
    for name, (verdict, top, top_after, _) in count.items():
        print(f"  {name}: another verdict {share(verdict)}, another top-1 by rounding alone {share(top)}, after restore "
              f"{share(top_after)}", flush=True)
    return restored


def main():
    library, bundle = sys.argv[1:3]
    if len(sys.argv) == 3:
        with tempfile.TemporaryDirectory() as work:
            folder = pathlib.Path(work) / "bundle"
            subprocess.run([bundle, folder, "2048", "48", "1"], check=True)
            assert compare(Runtime(library, folder), "mlp", 2048, toy_rows(folder)) > 0
        return
    manifest = json.loads((pathlib.Path(bundle) / "manifest.json").read_text())
    runtime, traces = Runtime(library, bundle), pathlib.Path(sys.argv[3])
    for precision, entry in manifest["precisions"].items():
        if entry["mode"] == "threshold":
            compare(runtime, precision, manifest["base_model"]["vocab_size"], trace_rows(traces, precision))


if __name__ == "__main__":
    main()

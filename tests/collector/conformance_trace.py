#!/usr/bin/env python3
"""Traces as h5py and numpy see them: layout and attributes, every column recomputed from the full
logits, and files that h5py wrote read back. Usage: conformance_trace.py PROBE INDEX_SCHEMA"""
import hashlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import h5py
import jsonschema
import numpy as np
import yaml

ALPHA_MAX = 0.95
ROOT = {"format", "format_version", "producer", "producer_commit", "run_id", "model_sha256", "tokenizer_sha256",
        "vocab_size", "hidden_size", "compute", "cpu_isa", "decode_mode"}
TYPES = {"units/context": "<i4", "units/start": "<i8", "units/steps": "<i4", "units/first_step": "<i8",
         "units/first_token": "<i8", "tokens": "<i4", "steps/unit": "<i4", "steps/position": "<i4",
         "steps/target": "<i4", "reference/lse": "<f8", "reference/entropy": "<f4", "reference/target_logit": "<f4",
         "reference/top/ids": "<i4", "reference/top/logits": "<f4", "reference/candidates/first": "<i8",
         "reference/candidates/ids": "<i4", "reference/candidates/logits": "<f4", "reference/logits": "<f4"}
PRECISION_TYPES = {"lse": "<f8", "entropy": "<f4", "target_logit": "<f4", "kl": "<f4", "top/ids": "<i4",
                   "top/logits": "<f4", "top/reference_logits": "<f4", "top/reference_mass_before": "<f8",
                   "candidates/ranks": "<i4", "candidates/logits": "<f4", "hidden": "<f2", "logits": "<f4"}


def text(value):
    return value.decode() if isinstance(value, bytes) else str(value)


def check_layout(file):
    assert set(file.attrs) == ROOT, set(file.attrs) ^ ROOT
    assert text(file.attrs["format"]) == "dgap-trace" and text(file.attrs["format_version"]) == "1.0"
    config = file["config"].asstr()[()]
    assert text(file.attrs["run_id"]) == hashlib.sha256(config.encode()).hexdigest()
    names = list(yaml.safe_load(config)["precisions"])
    names = [n if isinstance(n, str) else n["name"] for n in names]
    by_index = sorted(file["precisions"], key=lambda p: file["precisions"][p].attrs["index"])
    assert by_index == names, (by_index, names)
    types = dict(TYPES)
    for name in names:
        group = file["precisions"][name]
        assert json.loads(text(group.attrs["scheme"]))["name"] == name
        for part in "key", "value":
            assert 0 < group.attrs[f"bits_per_element_{part}"] <= group.attrs[f"total_bits_per_element_{part}"] <= 16.5
        types.update({f"precisions/{name}/{k}": v for k, v in PRECISION_TYPES.items()})
    for key in "book", "source", "domain", "split", "text_sha256":
        assert file["units"][key].asstr()[0]
    found = set()

    def visit(name, item):
        assert h5py.h5o.get_info(item.id).mtime == 0 or not hasattr(h5py.h5o.get_info(item.id), "mtime")
        if not isinstance(item, h5py.Dataset):
            return
        assert text(item.attrs["long_name"]), name
        if name == "config":
            return
        found.add(name)
        assert text(item.attrs["units"]), name
        assert (item.compression, item.shuffle, item.fletcher32) == ("gzip", True, True), name
        assert item.chunks[1:] == item.shape[1:], name
        assert np.prod(item.chunks) * item.dtype.itemsize <= 2**20 or item.chunks[0] == 1, name
        assert not item.id.get_create_plist().get_obj_track_times(), name
        if name in types:
            assert item.dtype == np.dtype(types[name]), (name, item.dtype)

    file.visititems(visit)
    assert set(types) <= found, set(types) - found


def order_of(logits):
    return np.lexsort((np.arange(len(logits)), -logits))


def log_sum_exp(logits):
    top = logits.max()
    return top + np.log(np.exp(logits - top).sum())


class Row:
    def __init__(self, logits):
        self.logits = logits.astype(np.float64)
        self.order = order_of(self.logits)
        self.rank = np.argsort(self.order)
        self.lse = log_sum_exp(self.logits)
        self.log_p = self.logits - self.lse
        self.p = np.exp(self.log_p)
        ordered = self.p[self.order]
        before = np.concatenate([[0.0], np.cumsum(ordered)[:-1]])
        self.before = np.empty_like(before)
        self.before[self.order] = before
        self.entropy = -(self.p * self.log_p).sum()


def check_common(group, t, row, target, top):
    assert abs(group["lse"][t] - row.lse) < 1e-12
    assert abs(group["entropy"][t] - row.entropy) < 1e-6
    assert group["target_logit"][t] == row.logits[target]
    ids = group["top/ids"][t]
    assert (ids == row.order[:top]).all() and (group["top/logits"][t] == row.logits[ids]).all()
    return ids


def check_columns(file):
    reference = file["reference"]
    first = reference["candidates/first"][:]
    top = reference["top/ids"].shape[1]
    worst_kl = 0.0
    for t in range(len(file["steps/unit"])):
        target = file["steps/target"][t]
        row = Row(reference["logits"][t])
        check_common(reference, t, row, target, top)
        mine = slice(first[t], first[t + 1])
        candidates = row.order[row.before[row.order] < ALPHA_MAX]
        assert (reference["candidates/ids"][mine] == candidates).all()
        assert (reference["candidates/logits"][mine] == row.logits[candidates]).all()
        for name in file["precisions"]:
            group = file["precisions"][name]
            other = Row(group["logits"][t])
            ids = check_common(group, t, other, target, top)
            assert (group["top/reference_logits"][t] == row.logits[ids]).all()
            assert np.abs(group["top/reference_mass_before"][t] - row.before[ids]).max() < 1e-12
            assert (group["candidates/ranks"][mine] == other.rank[candidates]).all()
            assert (group["candidates/logits"][mine] == other.logits[candidates]).all()
            kl = (row.p * (row.log_p - other.log_p)).sum()
            assert abs(group["kl"][t] - kl) <= 1e-6 * max(1.0, kl), (t, name, group["kl"][t], kl)
            worst_kl = max(worst_kl, abs(group["kl"][t] - kl))
    return worst_kl


def check_units(file):
    units, tokens = file["units"], file["tokens"][:]
    for i in range(len(units["context"])):
        context, steps = units["context"][i], units["steps"][i]
        at, first = units["first_token"][i], units["first_step"][i]
        rows = slice(first, first + steps)
        assert (file["steps/unit"][rows] == i).all()
        assert (file["steps/position"][rows] == np.arange(context - 1, context - 1 + steps)).all()
        assert (file["steps/target"][rows] == tokens[at + context:at + context + steps]).all()


def rewrite(source, target, strings, libver):
    """The same trace as h5py would write it: its own strings, other filters, other layout."""
    def convert(value):
        value = text(value)
        if strings == "variable":
            return value
        return np.array(value.encode(), dtype=h5py.string_dtype(strings, max(1, len(value.encode()))))

    with h5py.File(source) as old, h5py.File(target, "w", libver=libver) as new:
        def copy_attributes(item, into):
            for key, value in item.attrs.items():
                into.attrs[key] = convert(value) if isinstance(value, (bytes, str)) else value

        def visit(name, item):
            if isinstance(item, h5py.Group):
                into = new.create_group(name)
            elif h5py.check_string_dtype(item.dtype):
                values = item.asstr()[()]
                kind = h5py.string_dtype() if strings == "variable" else h5py.string_dtype(strings, 80)
                if isinstance(values, str):
                    into = new.create_dataset(name, data=convert(values))
                else:
                    encoded = values if strings == "variable" else np.array([v.encode() for v in values], dtype=kind)
                    into = new.create_dataset(name, data=encoded, dtype=kind)
            else:
                into = new.create_dataset(name, data=item[:], compression="gzip", compression_opts=9)
            copy_attributes(item, into)

        copy_attributes(old, new)
        old.visititems(visit)


def main(probe, schema):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run = lambda *arguments: subprocess.run([probe, *map(str, arguments)], check=True, text=True,
                                                capture_output=True).stdout.strip()
        traces = pathlib.Path(run("collect", folder))
        index = json.loads((traces / "index.json").read_text())
        jsonschema.validate(index, json.loads(pathlib.Path(schema).read_text()))
        worst, steps = 0.0, 0
        for entry in index["parts"]:
            path = traces / entry["file"]
            assert hashlib.sha256(path.read_bytes()).hexdigest() == entry["sha256"]
            with h5py.File(path) as file:
                check_layout(file)
                check_units(file)
                worst = max(worst, check_columns(file))
                assert len(file["steps/unit"]) == entry["steps"]
                steps += entry["steps"]
        print(f"{len(index['parts'])} parts, {steps} steps: worst KL difference {worst:.2e}")
        original = traces / index["parts"][0]["file"]
        if shutil.which("h5dump"):
            dump = subprocess.run(["h5dump", "-H", "-p", str(original)], check=True, text=True, capture_output=True)
            assert "CHECKSUM FLETCHER32" in dump.stdout and "CSET H5T_CSET_UTF8" in dump.stdout
        digest = run("digest", original)
        for strings in "variable", "utf-8", "ascii":
            for libver in "earliest", "latest":
                copy = folder / f"{strings}-{libver}.h5"
                rewrite(original, copy, strings, (libver, "v110") if libver == "earliest" else ("v110", "v110"))
                assert run("digest", copy) == digest, (strings, libver)
        print("h5py's own files read alike")


if __name__ == "__main__":
    main(*sys.argv[1:])

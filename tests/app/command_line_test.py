#!/usr/bin/env python3
"""The program as its users meet it: exit codes, streams, JSON. command_line_test.py DGAP SOURCE_FOLDER"""
import json
import pathlib
import subprocess
import sys
import tempfile

DGAP, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
failures = []


def dgap(*words, cwd=None):
    return subprocess.run([DGAP, *words], capture_output=True, text=True, cwd=cwd, timeout=60)


def expect(what, condition, detail=""):
    if not condition:
        failures.append(f"{what}: {detail}")


def code(words, expected, cwd=None):
    done = dgap(*words, cwd=cwd)
    expect(" ".join(words), done.returncode == expected, f"exit code {done.returncode}, not {expected}\n{done.stderr}")
    return done


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    expect("help is on stdout", "collect" in code(["--help"], 0).stdout)
    expect("version", code(["--version"], 0).stdout.startswith("dgap "))
    done = code([], 2)
    expect("usage errors are on stderr", done.stdout == "" and "a verb is missing" in done.stderr, done.stderr)
    for verb in ("train-adapters", "sweep"):
        expect(verb, "not built in this version" in code([verb, "plan", "x.yaml"], 1).stderr)
    code(["run", "none.yaml"], 2, folder)
    (folder / "c.yaml").write_text("model: {path: none.gguf}\ncorpus: {path: none}\nprecisions: [K4V4]\nwindw: {}\n")
    done = code(["run", "c.yaml", "--json"], 2, folder)
    expect("the nearest key", "c.yaml:4: windw: unknown key; did you mean window?" in json.loads(done.stdout)["error"]["message"])
    (folder / "c.yaml").write_text("model: {path: none.gguf}\ncorpus: {path: none}\nprecisions: [K4V4]\n")
    done = code(["inspect", "c.yaml", "--json"], 0, folder)
    expect("inspect a configuration", json.loads(done.stdout)["precisions"] == ["K4V4"])
    done = code(["calibrate", "c.yaml"], 1, folder)
    expect("what to run first", "run `dgap collect` first" in done.stderr, done.stderr)
    expect("the resolved configuration", (folder / "runs/run/config.resolved.yaml").exists())
    done = code(["allocate", "c.yaml"], 2, folder)
    expect("nothing to allocate", "allocation.base names no precision" in done.stderr, done.stderr)
    done = code(["collect", "c.yaml", "--set", "allocation={base: K4V4, budget: 5, choices: [8]}"], 1, folder)
    expect("allocate comes first", "precision allocated needs it; run `dgap allocate` first" in done.stderr, done.stderr)
    loss = {"nll": 0.5, "kl": 0.1, "token": 0.9, "exact": 0.5}
    table = [[0.25, -0.5]]
    (folder / "sensitivity.json").write_text(json.dumps(
        {"version": 1, "key": "", "base": "K1V1", "layers": 1, "kv_heads": 2, "spared_bits": 4, "prompts": 1, "sites": 1,
         "exact": loss, "quantized": loss,
         "tensors": {"key": {"cost_nll": table, "cost_kl": table, "gain_nll": table, "gain_kl": table}}}))
    done = code(["inspect", "sensitivity.json", "--json"], 0, folder)
    expect("the top head", list(json.loads(done.stdout)["top_heads"])[0] == "key layer 0 head 0", done.stdout)
    point = {"bits": 1.25, "parts": 0, "loss": loss}
    (folder / "allocation_results.json").write_text(json.dumps(
        {"version": 1, "base": "K1V1", "name": "mixed", "estimator": "paths", "budget": 1.5, "floor": 0, "exact": loss,
         "quantized": point, "allocated": point, "estimators": {"paths": point}, "random": [], "curve": [point]}))
    code(["verify", "allocation_results.json"], 0, folder)
    (folder / "sensitivity.json").write_text("{}")
    code(["inspect", "sensitivity.json"], 74, folder)
    code(["verify", "none"], 74, folder)
    (folder / "bad.gguf").write_bytes(b"GGUF\x03\0\0\0" + b"\xff" * 60)
    code(["inspect", "bad.gguf"], 74, folder)
    (folder / "bad.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + b"\xff" * 60)
    code(["verify", "bad.h5"], 74, folder)
    (folder / "text.txt").write_text("x")
    code(["inspect", "text.txt"], 2, folder)
    done = code(["doctor", "--json"], 0, folder)
    expect("doctor", json.loads(done.stdout)["file_system"]["locking"] is True, done.stdout)
    for config in sorted((SOURCE / "configs").glob("*.yaml")):
        code(["inspect", str(config)], 0)

print("\n".join(failures) or "all as expected")
sys.exit(1 if failures else 0)

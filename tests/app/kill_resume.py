#!/usr/bin/env python3
"""SIGKILL at random moments of `dgap run`, then the same command again: traces, windows, thresholds, networks and bundle
must be those of a run that nobody disturbed, byte for byte.

    kill_resume.py DGAP [TRIALS]

The model is $DGAP_TEST_MODEL, the books $DGAP_TEST_BOOKS; skipped (77) where they are not set.
"""
import hashlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

CONFIG = """
version: 1
run: {{name: {name}, dir: {dir}, seed: 3}}
model: {{path: {model}}}
corpus: {{path: {books}, context_lengths: [64, 128], decode_steps: 24, sites_per_book: 2}}
trace: {{units_per_part: 4}}
precisions: [K1V1-R32, K4V4]
window: {{cap: 32}}
training: {{epochs: 3}}
evaluate: {{retrieval: {{cases: 1, context: 400, tasks: [passkey]}}}}
"""
SAME = ["windows.json", "threshold.json", "evaluation.json", "report.html"]


def start(dgap, config):
    return subprocess.Popen([dgap, "run", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def finish(dgap, config):
    process = start(dgap, config)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, f"exit code {process.returncode}:\n{errors}"


def contents(run):
    files = [run / name for name in SAME]
    for folder in ("traces", "detector", "corrector", "bundle"):
        files += sorted(p for p in (run / folder).rglob("*") if p.is_file() and p.name != "provenance.json" and not p.name.startswith("."))
    assert len([f for f in files if f.suffix == ".h5"]) >= 3, files
    # The run's own name is in the resolved configuration, so every trial has the same name in a folder of its own.
    return {str(f.relative_to(run)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def write_config(folder, model, books):
    folder.mkdir()
    config = folder / "config.yaml"
    config.write_text(CONFIG.format(name="killed", dir=folder, model=model, books=books))
    return config, folder / "killed"


def main():
    dgap = sys.argv[1]
    model, books = os.environ.get("DGAP_TEST_MODEL"), os.environ.get("DGAP_TEST_BOOKS")
    if not model or not books:
        sys.exit(77)
    trials = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    seed = time.time_ns()
    print(f"seed {seed}", flush=True)
    moments = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        config, run = write_config(root / "undisturbed", model, books)
        begin = time.monotonic()
        finish(dgap, config)
        duration = time.monotonic() - begin
        expected = contents(run)
        print(f"undisturbed: {duration:.1f} s, {len(expected)} files", flush=True)
        for trial in range(trials):
            config, run = write_config(root / f"trial{trial}", model, books)
            process = start(dgap, config)
            moment = moments.uniform(0.02, 0.98) * duration
            try:
                process.communicate(timeout=moment)
                died = "was done already"
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.communicate()
                died = "killed"
            stages = len(list((run / "stages").glob("*.json"))) if (run / "stages").is_dir() else 0
            finish(dgap, config)
            found = contents(run)
            print(f"trial {trial}: {died} after {moment:.2f} s with {stages} stages finished", flush=True)
            different = sorted(k for k in expected.keys() | found.keys() if expected.get(k) != found.get(k))
            assert not different, f"seed {seed}, trial {trial}: these differ after resuming: {different}"
    print("all trials equal the undisturbed run")


if __name__ == "__main__":
    main()

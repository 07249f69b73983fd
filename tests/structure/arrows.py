#!/usr/bin/env python3
"""Fails when an include points the wrong way (docs/architecture.md).

    app -> {collector, calibrator, trainer, evaluator} -> {corpus, engine, statistics, runtime}
        -> schemas -> base

The four in the middle never include each other, the engine knows neither statistics nor runtime,
the corpus counts in the tokens of the engine,
bindings see the runtime's public headers alone,
statistics may use the runtime (traces hold what is served), and the runtime sees of the schemas
the bundle alone.
"""
import pathlib
import re
import sys

ALLOWED = {
    "base": {"base"},
    "schemas": {"schemas", "base"},
    "runtime": {"runtime", "schemas/bundle", "base"},
    "statistics": {"statistics", "runtime", "schemas", "base"},
    "engine": {"engine", "schemas", "base"},
    "corpus": {"corpus", "engine/tokenizer", "schemas", "base"},
    **{stage: {stage, "engine", "corpus", "statistics", "runtime", "schemas", "base"}
       for stage in ("collector", "calibrator", "trainer", "evaluator")},
    "app": {"app", "collector", "calibrator", "trainer", "evaluator", "engine", "statistics", "runtime",
            "schemas", "base"},
    "bindings": {"bindings", "runtime/include/dgap"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')
RUNTIME_FORBIDDEN = re.compile(r"^\s*#\s*include\s*<(hdf5|H5|yaml-cpp|Eigen|tbb|oneapi|dnnl|omp)")


def violations(root):
    found = []
    for folder, allowed in ALLOWED.items():
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in {".hpp", ".cpp", ".h", ".cu", ".cuh"}:
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                where = f"{path.relative_to(root)}:{number}"
                if folder in ("runtime", "base") and RUNTIME_FORBIDDEN.match(line):
                    found.append(f"{where}: {folder}/ must not need {line.strip()}")
                match = INCLUDE.match(line)
                if not match:
                    continue
                target = match.group(1)
                if target.startswith("dgap/"):
                    target = "runtime/include/" + target
                if not any(target.startswith(a + "/") for a in allowed):
                    found.append(f"{where}: {folder}/ must not include {match.group(1)}")
    return found


def self_test():
    import tempfile
    bad = {"engine/a.cpp": '#include "statistics/b.hpp"', "trainer/a.cpp": '#include "evaluator/b.hpp"',
           "runtime/a.cpp": '#include "schemas/trace/trace.hpp"', "base/a.hpp": '#include "schemas/x.hpp"',
           "runtime/b.cpp": "#include <hdf5.h>", "schemas/a.cpp": '#include "engine/x.hpp"',
           "bindings/a.cpp": '#include "runtime/restorer.hpp"'}
    good = {"app/a.cpp": '#include "trainer/b.hpp"', "runtime/c.cpp": '#include "schemas/bundle/bundle.hpp"',
            "bindings/b.cpp": '#include "dgap/runtime.h"'}
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        for files in (bad, good):
            for path, text in files.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text + "\n")
        hit = {line.split(":")[0] for line in violations(root)}
    assert hit == set(bad), f"expected {sorted(bad)}, found {sorted(hit)}"


if __name__ == "__main__":
    if sys.argv[1] == "--self-test":
        self_test()
        sys.exit(0)
    problems = violations(pathlib.Path(sys.argv[1]))
    print("\n".join(problems) or "all includes point the right way")
    sys.exit(1 if problems else 0)

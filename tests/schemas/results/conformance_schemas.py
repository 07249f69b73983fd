#!/usr/bin/env python3
"""Schemas and what is written, judged by jsonschema and PyYAML. conformance_schemas.py PROBE SOURCE_FOLDER"""
import json
import pathlib
import subprocess
import sys
import tempfile

import jsonschema
import yaml

probe, source = sys.argv[1], pathlib.Path(sys.argv[2])


def validator(path):
    schema = json.loads((source / "schemas" / path).read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


results = {name: validator(f"results/{name}.schema.json") for name in ("windows", "threshold", "evaluation", "stage", "sensitivity",
                                                                "allocation_results")}
config = validator("config/config.schema.json")
configs = sorted((source / "configs").glob("*.yaml"))
assert configs

with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    subprocess.run([probe, folder, *configs], check=True)
    for kind in ("windows", "threshold", "sensitivity", "allocation_results"):
        results[kind].validate(json.loads((folder / f"{kind}.json").read_text()))
    for path in configs:
        given, resolved = yaml.safe_load(path.read_text()), yaml.safe_load((folder / path.name).read_text())
        config.validate(given)
        config.validate(resolved)
        assert resolved["corpus"]["decode_steps"] == given["corpus"]["decode_steps"]
        assert [p["name"] for p in resolved["precisions"]] == given["precisions"]
        assert isinstance(resolved["corrector"]["lambda_reg"], float)  # 1e-4 is text to YAML 1.1
        results["stage"].validate(json.loads((folder / path.stem / "stages/report.json").read_text()))

for path in sorted((source / "runs").glob("*/evaluation.json")):
    results["evaluation"].validate(json.loads(path.read_text()))
print("schemas, results and configurations agree")

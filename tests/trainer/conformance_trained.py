"""Files of trained networks, judged by jsonschema and safetensors: conformance_trained.py PROBE SCHEMA"""
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

import jsonschema
from safetensors.numpy import load

schema = json.loads(pathlib.Path(sys.argv[2]).read_text())
jsonschema.Draft202012Validator.check_schema(schema)


def check_network(tensors, prefix, layers, inputs, outputs=1):
    assert tensors[f"{prefix}.mean"].shape == tensors[f"{prefix}.scale"].shape == (inputs,)
    for i in range(layers):
        weight, bias = tensors[f"{prefix}.{i}.weight"], tensors[f"{prefix}.{i}.bias"]
        assert weight.shape == (bias.size, inputs) and weight.dtype == "float32"
        inputs = bias.size
    assert inputs == outputs


def check_transformer(tensors, prefix, network, inputs):
    width = tensors[f"{prefix}.0.bias"].size
    assert network["layers"] == 6 and width % network["heads"] == 0
    hidden = tensors[f"{prefix}.3.bias"].size
    for i, shape in enumerate([(width, inputs), (3 * width, width), (width, width), (hidden, width), (width, hidden),
                               (1, width)]):
        assert tensors[f"{prefix}.{i}.weight"].shape == shape and tensors[f"{prefix}.{i}.bias"].shape == shape[:1]


with tempfile.TemporaryDirectory() as name:
    subprocess.run([sys.argv[1], name], check=True, stdout=subprocess.DEVNULL)
    documents = sorted(pathlib.Path(name).glob("*/*.json"))
    assert len(documents) == 12
    for path in documents:
        document = json.loads(path.read_text())
        jsonschema.validate(document, schema)
        weights = path.with_suffix(".safetensors").read_bytes()
        assert hashlib.sha256(weights).hexdigest() == document["weights_sha256"]
        network, tensors = document["network"], load(weights)
        prefix, layers = network["tensors"], network["layers"]
        if prefix.endswith(".detector"):
            check_network(tensors, prefix, layers, 20)
        else:
            if network["architecture"] == "transformer":
                check_transformer(tensors, prefix + ".shape", network, 27)
            elif network["form"] == "window":
                check_network(tensors, prefix + ".shape", layers, 20 + 37 * 7, 37)
            else:
                check_network(tensors, prefix + ".shape", layers, 58 if "context" in network["inputs"] else 27)
            assert network["mass"] == (document["figures"]["objective"] == "extended")
            if network["mass"]:
                check_network(tensors, prefix + ".mass", network["mass_layers"] or layers, 20)
            if "tokens" in network["inputs"]:
                rank = network["rank"]
                assert tensors[f"{prefix}.tokens"].shape[1] == rank
                check_network(tensors, prefix + ".query", 1, 20 + 8, rank)
print("trained networks agree with schema and safetensors")

"""The example for ONNX Runtime GenAI on the real generator, over a model of a few tensors made here."""
import json
import pathlib
import runpy
import tempfile
import unittest

import dgap
import numpy as np
import onnx
import onnxruntime_genai as genai
from onnx import TensorProto, helper, numpy_helper
from support import VOCABULARY, Reference, make_bundle

EXAMPLE = pathlib.Path(__file__).parents[2] / "bindings/examples/onnxruntime_genai_generate.py"
WIDTH, STEPS, PROMPT = 8, 10, list(range(3, 40))
_random = np.random.default_rng(6)
EMBEDDING = _random.normal(0, 1, (VOCABULARY, WIDTH)).astype(np.float32)
HEAD = _random.normal(0, 1.5, (WIDTH, VOCABULARY)).astype(np.float32)


def write_model(folder):
    """logits = EMBEDDING[id] HEAD; keys and values are the embeddings, which nothing reads."""
    cache = ["batch", 1, "past", WIDTH]
    inputs = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "sequence"]),
              helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch", "total"])]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "sequence", VOCABULARY])]
    nodes = [helper.make_node("Gather", ["embedding", "input_ids"], ["embedded"]),
             helper.make_node("MatMul", ["embedded", "head"], ["logits"]),
             helper.make_node("Unsqueeze", ["embedded", "axis"], ["rows"])]
    for kind in ("key", "value"):
        inputs.append(helper.make_tensor_value_info(f"past_key_values.0.{kind}", TensorProto.FLOAT, cache))
        outputs.append(helper.make_tensor_value_info(f"present.0.{kind}", TensorProto.FLOAT, ["batch", 1, "total", WIDTH]))
        nodes.append(helper.make_node("Concat", [f"past_key_values.0.{kind}", "rows"], [f"present.0.{kind}"], axis=2))
    constants = [numpy_helper.from_array(EMBEDDING, "embedding"), numpy_helper.from_array(HEAD, "head"),
                 numpy_helper.from_array(np.array([1], np.int64), "axis")]
    graph = helper.make_graph(nodes, "toy", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, folder / "model.onnx")
    decoder = {"session_options": {}, "filename": "model.onnx", "head_size": WIDTH, "hidden_size": WIDTH,
               "num_attention_heads": 1, "num_key_value_heads": 1, "num_hidden_layers": 1,
               "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask",
                          "past_key_names": "past_key_values.%d.key", "past_value_names": "past_key_values.%d.value"},
               "outputs": {"logits": "logits",
                           "present_key_names": "present.%d.key", "present_value_names": "present.%d.value"}}
    (folder / "genai_config.json").write_text(json.dumps({
        "model": {"type": "llama", "vocab_size": VOCABULARY, "context_length": 256, "bos_token_id": 1, "eos_token_id": 2,
                  "pad_token_id": 2, "decoder": decoder},
        "search": {"max_length": 256, "do_sample": False}}))


class GenaiTest(unittest.TestCase):
    def test_example_loop(self):
        example = runpy.run_path(str(EXAMPLE))
        path, folder = make_bundle(), pathlib.Path(tempfile.mkdtemp())
        write_model(folder)
        model = genai.Model(str(folder))
        for precision in ("always", "window"):
            parameters = genai.GeneratorParams(model)
            parameters.set_search_options(max_length=len(PROMPT) + STEPS, do_sample=False)
            generator = genai.Generator(model, parameters)
            generator.append_tokens(PROMPT)
            verdicts = np.concatenate(list(example["repaired_tokens"](generator, dgap.Bundle(path), precision)))
            reference, ids, plain = Reference(path, precision), list(PROMPT), 0
            for _ in range(STEPS):
                logits = EMBEDDING[ids[-1]] @ HEAD
                restored, _ = reference.restore(logits, [ids])
                plain += int(logits.argmax()) != int(restored[0].argmax())
                ids.append(int(restored[0].argmax()))
            self.assertEqual(generator.get_sequence(0).tolist(), ids)
            self.assertEqual(verdicts.tolist(), [dgap.Verdict.RESTORE] * STEPS)
        self.assertGreater(plain, 0, "the toy changes what is chosen")


if __name__ == "__main__":
    unittest.main()

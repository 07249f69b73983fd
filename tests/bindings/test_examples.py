"""The examples for ONNX Runtime GenAI and vLLM, on stand-ins of what they call of these packages.

The real generator runs in peers_onnxruntime_genai.py, the other examples in peers_examples.py.
"""
import contextlib
import io
import pathlib
import runpy
import sys
import types
import unittest
from unittest import mock

import dgap.checks  # noqa: F401
import dgap.sequences  # noqa: F401: what examples import stays loaded between them
import numpy as np
from support import Reference, make_bundle, random_rows

EXAMPLES = pathlib.Path(__file__).parents[2] / "bindings/examples"


def run(name, *arguments, **modules):
    """What the example prints."""
    said = io.StringIO()
    with mock.patch.dict(sys.modules, modules), mock.patch("sys.argv", [name, *map(str, arguments)]):
        with contextlib.redirect_stdout(said):
            runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return said.getvalue()


class Generator:
    """Greedy search over given logits: get_logits() is a copy [batch, 1, width], as in the package."""

    def __init__(self, *_):
        self.ids, self.steps, self.seen = [], 6, []

    def append_tokens(self, ids):
        self.ids += list(ids)

    def is_done(self):
        return len(self.seen) == self.steps

    def get_logits(self):
        self.logits = random_rows(1, seed=len(self.seen))[:, None]
        return self.logits.copy()

    def set_logits(self, logits):
        assert logits.shape == self.logits.shape and logits.dtype == np.float32
        self.logits = logits.copy()

    def generate_next_token(self):
        self.seen.append(self.logits.ravel().copy())
        self.ids.append(int(self.logits.argmax()))

    def get_sequence(self, row):
        assert row == 0
        return np.array(self.ids, np.int32)


class ExamplesTest(unittest.TestCase):
    def test_onnxruntime_genai(self):
        path, prompt = make_bundle(), list(range(30))
        for precision in ("always", "context"):
            generator = Generator()
            module = types.SimpleNamespace(
                Model=lambda folder: folder, Generator=lambda *_: generator,
                GeneratorParams=lambda model: types.SimpleNamespace(set_search_options=lambda **_: None),
                Tokenizer=lambda model: types.SimpleNamespace(encode=lambda text: prompt,
                                                              decode=lambda ids: f"{len(ids)} ids"))
            said = run("onnxruntime_genai_generate.py", "model", path, precision, "prompt", onnxruntime_genai=module)
            self.assertEqual(said, "36 ids\n6 of 6 steps corrected\n")
            reference = Reference(path, precision)
            for step, row in enumerate(generator.seen):
                expected, _ = reference.restore(random_rows(1, seed=step), [generator.ids[:30 + step]])
                np.testing.assert_array_equal(row, expected[0])

    def test_vllm(self):
        asked = []

        class LLM:
            def __init__(self, model, kv_cache_dtype, additional_config):
                assert (model, kv_cache_dtype) == ("model", "fp8")
                assert additional_config == {"dgap": {"bundle": "bundle", "precision": "vllm-fp8"}}

            def generate(self, prompts, parameters):
                asked.append(parameters.extra_args["dgap"])
                return [types.SimpleNamespace(outputs=[types.SimpleNamespace(text=f"{prompts[0]}!")])]

        module = types.SimpleNamespace(LLM=LLM, SamplingParams=lambda **settings: types.SimpleNamespace(**settings))
        said = run("vllm_offline.py", "model", "bundle", "vllm-fp8", "Hello", vllm=module)
        self.assertEqual(said, "as it is: Hello!\nrepaired: Hello!\n")
        self.assertEqual(asked, [False, True])


if __name__ == "__main__":
    unittest.main()

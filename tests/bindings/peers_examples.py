"""The examples for transformers and llama-cpp-python, on a real model and toy bundles."""
import pathlib
import subprocess
import sys
import unittest

from support import make_bundle, model_file

EXAMPLES = pathlib.Path(__file__).parents[2] / "bindings/examples"
MODEL = model_file()
VOCABULARY, HIDDEN = 49152, 576  # of SmolLM2-135M


def run(name, *arguments):
    done = subprocess.run([sys.executable, "-W", "always::dgap.MismatchWarning", EXAMPLES / name, *arguments],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


class ExamplesTest(unittest.TestCase):
    def test_transformers(self):
        scheme = {"name": "hf-hqq-4", "family": "hf", "residual_window": 128,
                  **dict.fromkeys(("key", "value"), {"quantizer": "hqq", "bits": 4, "group_size": 64, "axis": "channel"})}
        said, warned = run("transformers_generate.py", MODEL, make_bundle(VOCABULARY, HIDDEN, scheme), "context",
                           "Once upon a time", "The")
        self.assertTrue(said.startswith("Once upon a time"))
        self.assertIn("last step: ['RESTORE', 'RESTORE']", said)
        self.assertNotIn("MismatchWarning", warned)

    def test_llama_cpp(self):
        scheme = {"name": "llamacpp-q8_0", "family": "llamacpp", **dict.fromkeys(("key", "value"), {"quantizer": "q8_0"})}
        said, warned = run("llama_cpp_completion.py", MODEL, make_bundle(VOCABULARY, HIDDEN, scheme), "window",
                           "Once upon a time")
        self.assertTrue(said.startswith("Once upon a time"))
        self.assertIn("last step: RESTORE", said)
        self.assertIn("the model file's SHA-256", warned)
        self.assertNotIn("another cache", warned)


if __name__ == "__main__":
    unittest.main()

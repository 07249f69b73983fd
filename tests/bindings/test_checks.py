"""dgap.checks: what does not match is said, exactly, and what matches is not."""
import hashlib
import pathlib
import tempfile
import unittest
import warnings

import dgap
import numpy as np
from dgap import checks
from dgap.sequences import Sequences
from support import VOCABULARY, Reference, make_bundle, random_rows

Q8 = {"name": "mine", "family": "llamacpp",
      "key": {"quantizer": "q8_0", "bits": 8}, "value": {"quantizer": "q4_0", "bits": 4}}


class ChecksTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.bundle = dgap.Bundle(make_bundle(scheme=Q8, architectures=["llama"]))

    def check(self, **known):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = checks.check(self.bundle, "mlp", **known)
        self.assertEqual([str(w.message) for w in said], found)
        self.assertTrue(all(w.category is dgap.MismatchWarning for w in said))
        return " ".join(found)

    def test_what_fits_says_nothing(self):
        self.assertEqual(self.check(), "")
        self.assertEqual(self.check(logits_width=VOCABULARY, hidden_size=64, architectures=["MistralForCausalLM"],
                                    cache={"family": "llamacpp", "key": {"quantizer": "q8_0"}}), "")
        self.assertEqual(self.check(logits_width=VOCABULARY + 8), "")

    def test_another_vocabulary_is_an_error(self):
        for width in (VOCABULARY - 1, VOCABULARY + 9):
            message = f"{VOCABULARY} and logits {VOCABULARY + 8} wide; these are {width}"
            with self.assertRaisesRegex(dgap.MismatchError, message):
                checks.check(self.bundle, "mlp", logits_width=width)
        with self.assertRaisesRegex(dgap.MismatchError, "no precision 'K9'; it has always"):
            checks.check(self.bundle, "K9")

    def test_another_model(self):
        said = self.check(hidden_size=65, architectures=["Qwen2ForCausalLM"])
        self.assertIn("hidden_size is 64 in the bundle and 65 here", said)
        self.assertIn("['llama'] in the bundle and ['Qwen2ForCausalLM'] here", said)
        with self.assertRaisesRegex(dgap.MismatchError, "another model"):
            checks.check(self.bundle, "mlp", hidden_size=65, strict=True)

    def test_the_model_file(self):
        with tempfile.NamedTemporaryFile() as file:
            pathlib.Path(file.name).write_bytes(b"model")
            self.assertIn("SHA-256", self.check(model_file=file.name))
            bundle = dgap.Bundle(make_bundle(model_sha256=hashlib.sha256(b"model").hexdigest()))
            self.assertEqual(checks.check(bundle, "mlp", model_file=file.name, strict=True), [])

    def test_another_cache(self):
        said = self.check(cache={"family": "llamacpp", "key": {"quantizer": "q8_0"}, "value": {"quantizer": "q8_0"}})
        self.assertIn("value.quantizer is 'q4_0' in the bundle and 'q8_0' here", said)
        self.assertNotIn("key.quantizer", said)
        self.assertIn("no precision for this cache", said)
        with self.assertRaisesRegex(dgap.MismatchError, "family is 'llamacpp' in the bundle and 'exact' here"):
            checks.check(self.bundle, "mlp", cache={"family": "exact"}, strict=True)

    def test_another_precision_may_fit(self):
        manifest = {"precisions": {"a": {"scheme": Q8}, "b": {"scheme": {"family": "exact"}}}}
        self.assertIn("the bundle has b for this cache", checks._cache_differences(manifest, "a", {"family": "exact"})[0])

    def test_what_runs_before(self):
        checks.check_order([])
        with self.assertWarnsRegex(dgap.MismatchWarning, "repetition_penalty, sequence_bias edit the logits before"):
            checks.check_order(["repetition_penalty", "sequence_bias"])
        with self.assertRaises(dgap.MismatchError):
            checks.check_order(["repetition_penalty"], strict=True)

    def test_once(self):
        once = checks.Once()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for sentence in "aabab":
                once(sentence)
        self.assertEqual([str(w.message) for w in said], ["a", "b"])

    def test_contexts_follow_what_decoders_show(self):
        path = make_bundle()
        sequences, reference = Sequences(dgap.Bundle(path)), Reference(path, "context")
        restorer = dgap.Bundle(path).restorer("context")
        random = np.random.default_rng(4)
        rows = [random.integers(0, VOCABULARY, 30), random.integers(0, VOCABULARY, 41)]
        memory = np.zeros(200, np.int64)  # that the first row goes on in
        steps = [rows,
                 [np.append(rows[0], [5, 6]), np.append(rows[1], 7)],      # continued
                 [np.append(rows[1], [7, 8]), np.append(rows[0], [5, 6, 9])],  # beams changed places
                 [rows[1][:20], np.append(rows[0], [5, 6, 9])],            # one shorter, one the same
                 [np.append(rows[1][:20], 1)],                             # fewer rows
                 [rows[0], rows[1], rows[0][:3]]]                          # new prompts
        for texts in steps:
            memory[:len(texts[0])] = texts[0]
            shown = [memory[:len(texts[0])], *texts[1:]]
            logits = random_rows(len(texts))
            expected, _ = reference.restore(logits, [text.tolist() for text in texts])
            restorer.restore(logits, sequences.follow(shown))
            np.testing.assert_array_equal(logits, expected)


if __name__ == "__main__":
    unittest.main()

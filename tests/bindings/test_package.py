"""The package dgap: numpy, DLPack, strides, types, contexts, hidden states, threads, errors."""
import pathlib
import shutil
import sys
import threading
import unittest

import dgap
import numpy as np
from support import (BFLOAT, CUDA, HIDDEN, VOCABULARY, WINDOW, Dlpack, Reference, from_bfloat16, make_bundle,
                     random_rows, to_bfloat16)

PLAIN = ("mlp", "linear", "always", "off", "none")
TAKES_CONTEXT = ("context", "transformer", "window")


def texts(rows, seed=5):
    random = np.random.default_rng(seed)
    return [random.integers(0, VOCABULARY, 40 + r).tolist() * 2 for r in range(rows)]


class PackageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.path = make_bundle()
        cls.bundle = dgap.Bundle(cls.path)

    def expect(self, results, reference):
        for field in ("verdict", "window", "risk"):
            np.testing.assert_array_equal(getattr(results, field), reference[field], field)

    def contexts(self, ids):
        contexts = [dgap.Context(self.bundle, 8) for _ in ids]
        for context, text in zip(contexts, ids):
            context.begin(text)
        return contexts

    def test_bundle(self):
        self.assertEqual(self.bundle.precisions, sorted(PLAIN + TAKES_CONTEXT + ("hidden",)))
        self.assertEqual((self.bundle.vocab_size, self.bundle.hidden_size), (VOCABULARY, HIDDEN))
        manifest = self.bundle.manifest
        self.assertEqual(manifest["base_model"]["vocab_size"], VOCABULARY)
        self.assertEqual(set(manifest["precisions"]), set(self.bundle.precisions))
        self.assertIsNot(manifest, self.bundle.manifest)
        self.assertEqual(dgap.Bundle(str(self.path)).vocab_size, VOCABULARY)

    def test_rows_are_those_of_the_c_interface(self):
        seen = set()
        for precision in PLAIN:
            rows = random_rows(24)
            expected, reference = Reference(self.path, precision).restore(rows)
            restorer = self.bundle.restorer(precision)
            scored = restorer.score(rows)
            np.testing.assert_array_equal(rows, random_rows(24))
            results = restorer.restore(rows)
            np.testing.assert_array_equal(rows.view(np.uint32), expected.view(np.uint32), precision)
            self.expect(results, reference)
            np.testing.assert_array_equal(scored.risk, results.risk)
            self.assertEqual(len(results), 24)
            seen |= set(results.verdict.tolist())
        self.assertLessEqual({dgap.Verdict.KEEP, dgap.Verdict.RESTORE}, seen)

    def test_one_row_gives_scalars(self):
        row = random_rows(1)[0]
        expected, reference = Reference(self.path, "always").restore(row)
        results = self.bundle.restorer("always").restore(row)
        np.testing.assert_array_equal(row, expected[0])
        self.assertEqual(results.verdict.shape, ())
        self.assertEqual(results.verdict, dgap.Verdict.RESTORE)
        self.assertEqual((float(results.risk), int(results.window)), (reference["risk"][0], WINDOW))

    def test_results_outlive_all_and_are_read_only(self):
        risk = self.bundle.restorer("mlp").score(random_rows(3)).risk
        self.assertEqual(risk.shape, (3,))
        with self.assertRaises(ValueError):
            risk[0] = 1

    def test_rejected_rows_stay(self):
        rows = random_rows(2)
        rows[0, 5] = np.nan
        before = rows[0].copy()
        results = self.bundle.restorer("always").restore(rows)
        self.assertEqual(results.verdict.tolist(), [dgap.Verdict.REJECTED, dgap.Verdict.RESTORE])
        self.assertTrue(np.isnan(results.risk[0]))
        np.testing.assert_array_equal(rows[0], before)

    def test_strides_are_honoured_and_the_rest_is_untouched(self):
        expected, _ = Reference(self.path, "always").restore(random_rows(4))
        restorer = self.bundle.restorer("always")
        wide = np.full((9, VOCABULARY + 13), -777, np.float32)
        structs = np.zeros((4, VOCABULARY), [("id", np.int32), ("logit", np.float32), ("p", np.float32)])
        columns = np.full((VOCABULARY, 4), 0, np.float32)
        views = {"padded": wide[1::2, :VOCABULARY], "structs": structs["logit"], "columns": columns.T}
        for name, view in views.items():
            view[...] = random_rows(4)
            restorer.restore(view)
            np.testing.assert_array_equal(view, expected, name)
        self.assertTrue((wide[:, VOCABULARY:] == -777).all() and (wide[::2] == -777).all())
        self.assertFalse(structs["p"].any() or structs["id"].any())
        wide[1::2, :VOCABULARY] = random_rows(4)
        restorer.restore(wide[1::2])  # padding ids beyond the vocabulary
        np.testing.assert_array_equal(wide[1::2, :VOCABULARY], expected)
        self.assertTrue((wide[:, VOCABULARY:] == -777).all())

    def test_types(self):
        half = random_rows(6).astype(np.float16)
        expected, reference = Reference(self.path, "always").restore(half)
        self.expect(self.bundle.restorer("always").restore(half), reference)
        np.testing.assert_array_equal(half, expected.astype(np.float16))
        bits = to_bfloat16(random_rows(6))
        expected, reference = Reference(self.path, "always").restore(from_bfloat16(bits))
        self.expect(self.bundle.restorer("always").restore(Dlpack(bits, BFLOAT)), reference)
        np.testing.assert_array_equal(bits, to_bfloat16(expected))

    def test_buffers_without_numpy(self):
        import array
        row = array.array("f", random_rows(1)[0].tolist())
        expected, _ = Reference(self.path, "always").restore(random_rows(1))
        self.bundle.restorer("always").restore(row)
        np.testing.assert_array_equal(np.array(row, np.float32), expected[0])

    def test_contexts(self):
        for precision in TAKES_CONTEXT:
            restorer = self.bundle.restorer(precision)
            self.assertTrue(restorer.takes_context and not restorer.takes_hidden)
            rows, ids = random_rows(3), texts(3)
            contexts = self.contexts(ids)
            for kind in (list, np.array, lambda text: np.array(text, np.int32)):
                contexts[0].begin(kind(ids[0]))
            contexts[1].accept(np.int64(7))
            contexts[1].accept([8, 9])
            contexts[1].roll_back(2)
            self.assertEqual((len(contexts[1]), contexts[0].length), (len(ids[1]) + 1, len(ids[0])))
            expected, reference = Reference(self.path, precision).restore(rows, [ids[0], ids[1] + [7], ids[2]])
            self.expect(restorer.restore(rows, contexts), reference)
            np.testing.assert_array_equal(rows, expected, precision)
            row = random_rows(1)[0]
            restorer.restore(row, contexts[0])
            np.testing.assert_array_equal(row, expected[0])
            with self.assertRaisesRegex(dgap.InvalidArgumentError, "pass contexts"):
                restorer.restore(rows)
            with self.assertRaisesRegex(dgap.InvalidArgumentError, "2 contexts for 3 rows"):
                restorer.restore(rows, contexts[:2])

    def test_hidden_states(self):
        restorer = self.bundle.restorer("hidden")
        self.assertTrue(restorer.takes_context and restorer.takes_hidden)
        hidden = np.random.default_rng(9).normal(0, 1, (3, HIDDEN)).astype(np.float32)
        expected, _ = Reference(self.path, "hidden").restore(random_rows(3), texts(3), hidden)
        rows = random_rows(3)
        hidden.flags.writeable = False
        restorer.restore(rows, self.contexts(texts(3)), hidden)
        np.testing.assert_array_equal(rows, expected)
        with self.assertRaisesRegex(dgap.InvalidArgumentError, "pass hidden"):
            restorer.restore(rows, self.contexts(texts(3)))
        with self.assertRaisesRegex(dgap.InvalidArgumentError, "hidden has 2 rows"):
            restorer.restore(rows, self.contexts(texts(3)), hidden[:2])

    def test_controllers(self):
        restorer, controller = self.bundle.restorer("linear"), dgap.Controller(self.bundle, "linear")
        first = controller.tau
        restorer.set_controller(controller)
        restorer.restore(random_rows(20))
        self.assertNotEqual(controller.tau, first)
        controller.reset()
        self.assertEqual(controller.tau, first)
        restorer.set_controller(None)
        held = sys.getrefcount(controller)
        restorer.set_controller(controller)
        self.assertEqual(sys.getrefcount(controller), held + 1, "the restorer keeps what it uses")
        with self.assertRaisesRegex(dgap.UnsupportedError, "online"):
            dgap.Controller(self.bundle, "mlp")

    def test_sixteen_threads_on_one_bundle(self):
        expected, _ = Reference(self.path, "always").restore(random_rows(40))
        failures = []

        def work():
            restorer = self.bundle.restorer("always")
            for _ in range(5):
                rows = random_rows(40)
                restorer.restore(rows)
                if not (rows == expected).all():
                    failures.append(1)

        threads = [threading.Thread(target=work) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_other_threads_run_meanwhile_and_may_not_share_a_restorer(self):
        restorer, refused, done = self.bundle.restorer("transformer"), [], threading.Event()
        context = self.contexts(texts(1))[0]
        rows = np.tile(random_rows(1), (4000, 1))

        def work():
            restorer.restore(rows, [context] * len(rows))
            done.set()

        thread = threading.Thread(target=work)
        thread.start()
        while not done.is_set() and len(refused) < 2:
            for call in (lambda: restorer.score(rows[:1]), lambda: context.accept(1)):
                try:
                    call()
                except dgap.InvalidArgumentError as error:
                    refused.append(str(error))
        thread.join()
        self.assertIn("restorer is in use by another thread", refused[0])
        restorer.score(rows[:1])  # free again
        context.accept(1)

    def test_arrays_that_cannot_be_corrected(self):
        restorer = self.bundle.restorer("always")
        frozen = random_rows(1)
        frozen.flags.writeable = False
        cases = {"read-only": frozen, "float32, float16 and bfloat16 are taken": random_rows(1).astype(np.float64),
                 "list that gives no array": [0.0] * VOCABULARY,
                 "another device": Dlpack(random_rows(1), device=CUDA)}
        for message, array in cases.items():
            with self.assertRaisesRegex(dgap.ArrayTypeError, message) as caught:
                restorer.restore(array)
            self.assertIsInstance(caught.exception, TypeError)
        self.assertEqual(len(restorer.score(frozen)), 1)
        for message, array in {"3 dimensions": random_rows(1)[None], "width is 996; .* needs 997": random_rows(1, 996),
                               "row_stride -3988": random_rows(2)[::-1]}.items():
            with self.assertRaisesRegex(dgap.InvalidArgumentError, message):
                restorer.restore(array)
        self.assertEqual(len(restorer.restore(random_rows(0))), 0)

    def test_errors_are_typed(self):
        for error, base, call in (
                (dgap.InvalidArgumentError, ValueError, lambda: self.bundle.restorer("K9")),
                (dgap.BundleError, OSError, lambda: dgap.Bundle("/nowhere/at/all")),
                (dgap.InvalidArgumentError, ValueError, lambda: dgap.Context(self.bundle, -1)),
                (dgap.InvalidArgumentError, ValueError, lambda: dgap.Context(self.bundle).accept(VOCABULARY + (1 << 40))),
                (dgap.InvalidArgumentError, ValueError, lambda: dgap.Context(self.bundle).roll_back(1))):
            with self.assertRaises(error) as caught:
                call()
            self.assertIsInstance(caught.exception, base)
            self.assertIsInstance(caught.exception, dgap.Error)
            self.assertTrue(str(caught.exception))
        for call in (lambda: dgap.Context(self.bundle).begin(["a"]),
                     lambda: dgap.Context(self.bundle).accept(1.5)):
            with self.assertRaisesRegex(dgap.InvalidArgumentError, "is not a token's id"):
                call()
        restorer = self.bundle.restorer("context")
        with self.assertRaisesRegex(dgap.InvalidArgumentError, "NoneType was passed where a dgap.Context is taken"):
            restorer.restore(random_rows(1), [None])
        with self.assertRaisesRegex(dgap.InvalidArgumentError, "where a dgap.Controller is taken"):
            restorer.set_controller(1)
        self.bundle.restorer("always").restore(random_rows(1), [None], 3)  # not taken, not looked at
        with self.assertRaisesRegex(dgap.ArrayTypeError, "int32 or int64"):
            dgap.Context(self.bundle).begin(np.zeros(3))

    def test_damaged_bundles(self):
        damaged = self.path.with_name("damaged")
        shutil.copytree(self.path, damaged)
        weights = damaged / "weights.safetensors"
        weights.write_bytes(weights.read_bytes()[:-1] + b"\x7f")
        with self.assertRaisesRegex(dgap.BundleError, "SHA-256"):
            dgap.Bundle(damaged)

    def test_the_package_is_typed_and_light(self):
        folder = pathlib.Path(dgap.__file__).parent
        stub = (folder / "_dgap.pyi").read_text()
        self.assertTrue((folder / "py.typed").exists())
        self.assertIn("def restore(self, logits: object", stub)
        self.assertFalse({"torch", "transformers", "vllm", "llama_cpp"} & set(sys.modules))
        self.assertEqual(dgap.__version__, dgap.runtime_version())


if __name__ == "__main__":
    unittest.main()

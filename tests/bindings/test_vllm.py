"""dgap.vllm against stand-ins of vLLM's interfaces, with tensors that must be copied to the host.

peers_vllm.py checks that the real interfaces have these names and parameters.
"""
import dataclasses
import enum
import sys
import types
import unittest
import warnings
from abc import ABC, abstractmethod
from unittest import mock

import dgap
import numpy as np
from support import VOCABULARY, Reference, make_bundle, random_rows


class MoveDirectionality(enum.Enum):
    UNIDIRECTIONAL = enum.auto()
    SWAP = enum.auto()


@dataclasses.dataclass(frozen=True)
class BatchUpdate:
    batch_size: int
    removed: list
    added: list
    moved: list


class V1LogitsProcessor(ABC):
    @classmethod
    def validate_params(cls, sampling_params):
        return None

    @abstractmethod
    def __init__(self, vllm_config, device, is_pin_memory):
        raise NotImplementedError

    @abstractmethod
    def apply(self, logits):
        raise NotImplementedError

    @abstractmethod
    def is_argmax_invariant(self):
        raise NotImplementedError

    @abstractmethod
    def update_state(self, batch_update):
        raise NotImplementedError


class V2LogitsProcessor(ABC):
    def __init__(self, vllm_config, req_states):
        pass

    @classmethod
    def validate_params(cls, sampling_params):
        pass

    def add_request(self, req_idx, sampling_params):
        return True

    def apply_staged_writes(self):
        pass

    @abstractmethod
    def apply(self, logits, ctx):
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class LogitsContext:
    expanded_idx_mapping: object
    idx_mapping: object
    idx_mapping_np: object
    expanded_local_pos: object
    input_ids: object
    pos: object
    seq_lens_upper_bound_np: object


def process_dict_updates(req_entries, batch_update, new_state):
    if batch_update is None:
        return False
    for index in batch_update.removed:
        req_entries.pop(index, None)
    for index, params, prompt, output in batch_update.added:
        req_entries.pop(index, None)
        state = new_state(params, prompt, output)
        if state is not None:
            req_entries[index] = state
    for a, b, direction in batch_update.moved:
        first, second = req_entries.pop(a, None), req_entries.pop(b, None)
        if first is not None:
            req_entries[b] = first
        if second is not None and direction == MoveDirectionality.SWAP:
            req_entries[a] = second
    return True


def module(name, **members):
    made = types.ModuleType(name)
    made.__path__ = []
    vars(made).update(members)
    return made


V1, V2 = "vllm.v1.sample.logits_processor", "vllm.v1.worker.gpu.sample.logits_processor"
for parent in {".".join(name.split(".")[:i]) for name in (V1, V2) for i in range(1, name.count(".") + 1)}:
    sys.modules[parent] = module(parent)
sys.modules[V1] = module(V1, LogitsProcessor=V1LogitsProcessor, process_dict_updates=process_dict_updates)
sys.modules[V2] = module(V2, LogitsProcessor=V2LogitsProcessor)

from dgap.vllm import LogitsProcessor, describe_cache  # noqa: E402


class Host(np.ndarray):
    """A tensor on the host."""

    def to(self, device):
        assert device == "cuda:0"
        return Device(np.array(self))


class Device:
    """A tensor on a device: nothing reads its numbers but cpu() and tolist()."""
    device = "cuda:0"

    def __init__(self, array):
        self.secret, self.copied = array, []

    def __getitem__(self, index):
        made = Device(self.secret[index])
        made.copied = self.copied
        self.copied.append(index)
        return made

    def __setitem__(self, rows, value):
        assert isinstance(value, Device)
        self.secret[rows] = value.secret

    def cpu(self):
        return np.array(self.secret).view(Host)

    def tolist(self):
        return self.secret.tolist()


def parameters(**settings):
    names = ("extra_args", "logit_bias", "allowed_token_ids", "bad_words", "structured_outputs")
    defaults = {**dict.fromkeys(names), "min_tokens": 0, "presence_penalty": 0.0, "frequency_penalty": 0.0,
                "repetition_penalty": 1.0}
    return types.SimpleNamespace(**{**defaults, "extra_args": {"dgap": True}, **settings})


def config(path, precision="always", cache_dtype="fp8", **settings):
    model = types.SimpleNamespace(get_vocab_size=lambda: VOCABULARY, get_hidden_size=lambda: 64,
                                  architectures=["LlamaForCausalLM"])
    additional = {"dgap": {"bundle": str(path), "precision": precision, **settings}} if path else {}
    return types.SimpleNamespace(model_config=model, additional_config=additional,
                                 cache_config=types.SimpleNamespace(cache_dtype=cache_dtype))


SCHEME = {"name": "mine", "family": "vllm", "key": {"quantizer": "fp8_e4m3"}, "value": {"quantizer": "fp8_e4m3"}}


class VllmTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.path = make_bundle(scheme=SCHEME)

    def setUp(self):
        warnings.simplefilter("error", dgap.MismatchWarning)

    def v1(self, *arguments, **settings):
        return LogitsProcessor(config(self.path, *arguments, **settings), "cuda:0", True)

    def v2(self, *arguments, **settings):
        self.tokens = np.zeros((8, 100), np.int64)
        states = types.SimpleNamespace(all_token_ids=types.SimpleNamespace(gpu=Device(self.tokens)))
        return LogitsProcessor(config(self.path, *arguments, **settings), states)

    def test_v1_restores_the_requests_that_ask(self):
        processor = self.v1(strict=True)
        self.assertFalse(processor.is_argmax_invariant())
        asked, other = parameters(), parameters(extra_args=None)
        processor.update_state(BatchUpdate(4, [], [(0, asked, [1], []), (1, other, [1], []), (2, asked, [1], [])], []))
        processor.update_state(BatchUpdate(4, [], [(3, asked, [1], [])], [(0, 1, MoveDirectionality.SWAP)]))
        processor.update_state(BatchUpdate(4, [3], [], []))
        processor.update_state(None)
        rows = random_rows(4)
        logits = Device(rows.copy())
        self.assertIs(processor.apply(logits), logits)
        expected, _ = Reference(self.path, "always").restore(rows)
        np.testing.assert_array_equal(logits.secret[[1, 2]], expected[[1, 2]])
        np.testing.assert_array_equal(logits.secret[[0, 3]], rows[[0, 3]])
        self.assertEqual(logits.copied, [[1, 2]], "only these rows were copied")

    def test_v1_contexts_follow_the_output(self):
        processor, outputs = self.v1("context"), [[], []]
        prompts = [list(range(40)), [5, 6, 7] * 9]
        processor.update_state(BatchUpdate(2, [], [(i, parameters(), prompts[i], outputs[i]) for i in range(2)], []))
        reference = Reference(self.path, "context")
        for step in range(4):
            logits = Device(random_rows(2, seed=step))
            expected, _ = reference.restore(logits.secret, [p + o for p, o in zip(prompts, outputs)])
            processor.apply(logits)
            np.testing.assert_array_equal(logits.secret, expected)
            outputs[0].append(step)
            outputs[1] += [step, step]
            if step == 2:
                del outputs[0][1:]  # a resumed request
        outputs[0].append(-1)
        logits = Device(random_rows(2))
        expected, _ = reference.restore(logits.secret, [[1], prompts[1] + outputs[1]])
        with self.assertWarnsRegex(dgap.MismatchWarning, "ids are not at hand"):
            processor.apply(logits)
        np.testing.assert_array_equal(logits.secret[0], random_rows(2)[0])
        np.testing.assert_array_equal(logits.secret[1], expected[1])

    def context_of(self, slots, offsets, positions, inputs):
        batch = list(dict.fromkeys(slots))
        device = [Device(np.array(values)) for values in (slots, batch, offsets, inputs, positions)]
        return LogitsContext(device[0], device[1], np.array(batch), device[2], device[3], device[4], np.array(positions))

    def test_v2_finds_rows_by_slot(self):
        processor = self.v2(strict=True)
        self.assertTrue(processor.add_request(5, parameters()))
        self.assertFalse(processor.add_request(2, parameters(extra_args={"dgap": False})))
        rows = random_rows(3)
        logits = Device(rows.copy())
        self.assertIs(processor.apply(logits, self.context_of([2, 5, 5], [0, 0, 1], [3, 7, 8], [1, 1, 1])), logits)
        expected, _ = Reference(self.path, "always").restore(rows)
        np.testing.assert_array_equal(logits.secret[1:], expected[1:])
        np.testing.assert_array_equal(logits.secret[0], rows[0])
        untouched = Device(rows.copy())
        processor.apply(untouched, self.context_of([2], [0], [3], [1]))
        self.assertEqual(untouched.copied, [])
        self.assertFalse(processor.add_request(5, parameters(extra_args=None)), "a slot is used again")
        processor.apply(untouched, self.context_of([5], [0], [3], [1]))
        self.assertEqual(untouched.copied, [])

    def test_v2_contexts_with_drafts(self):
        processor, reference = self.v2("context"), Reference(self.path, "context")
        processor.add_request(3, parameters())
        text = np.random.default_rng(2).integers(0, VOCABULARY, 60).tolist()
        # Steps: (committed ids, drafts after the last of them); the second step has rejected one draft.
        for committed, drafts in ((40, []), (41, [7, 8]), (43, [9]), (42, [])):
            self.tokens[3] = -1
            self.tokens[3, :committed] = text[:committed]
            inputs = [text[committed - 1], *drafts]
            count = len(inputs)
            logits = Device(random_rows(count, seed=committed))
            texts = [text[:committed] + drafts[:j] for j in range(count)]
            expected, _ = reference.restore(logits.secret, texts)
            processor.apply(logits, self.context_of([3] * count, list(range(count)),
                                                    [committed - 1 + j for j in range(count)], inputs))
            np.testing.assert_array_equal(logits.secret, expected)

    def test_without_a_bundle_it_does_nothing(self):
        with mock.patch.dict("os.environ", {}, clear=False):
            processor = LogitsProcessor(config(None), "cuda:0", False)
            processor.update_state(BatchUpdate(1, [], [(0, parameters(extra_args=None), [1], [])], []))
            logits = Device(random_rows(1))
            processor.apply(logits)
            self.assertEqual(logits.copied, [])
            with self.assertWarnsRegex(dgap.MismatchWarning, "no bundle is configured"):
                processor.update_state(BatchUpdate(1, [], [(0, parameters(), [1], [])], []))

    def test_the_environment_configures(self):
        with mock.patch.dict("os.environ", {"DGAP_BUNDLE": str(self.path), "DGAP_PRECISION": "always"}):
            self.assertTrue(LogitsProcessor(config(None), object()).add_request(0, parameters()))
        with mock.patch.dict("os.environ", {"DGAP_BUNDLE": str(self.path)}):
            with self.assertRaisesRegex(dgap.InvalidArgumentError, "no precision"):
                LogitsProcessor(config(None), object())
        with self.assertRaisesRegex(dgap.InvalidArgumentError, r"\['bundel'\]; known are"):
            self.v1(bundel="x")

    def test_all_requests(self):
        processor = self.v2(all_requests=True)
        self.assertTrue(processor.add_request(0, parameters(extra_args=None)))
        self.assertFalse(processor.add_request(0, parameters(extra_args={"dgap": False})))

    def test_what_does_not_match_is_said(self):
        with self.assertRaisesRegex(dgap.MismatchError, "family is 'vllm' in the bundle and 'exact' here"):
            self.v1(cache_dtype="auto", strict=True)
        with self.assertRaisesRegex(dgap.MismatchWarning, "'fp8_e4m3' in the bundle and 'fp8_e5m2' here"):
            self.v2(cache_dtype="fp8_e5m2")
        with self.assertRaisesRegex(dgap.UnsupportedError, "do not see"):
            self.v1("hidden")

    def test_edits_before_it_are_said_once(self):
        processor = self.v2()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for _ in range(3):
                processor.add_request(0, parameters(logit_bias={3: 1.0}, repetition_penalty=1.2))
        self.assertEqual(len(said), 1)
        self.assertIn("logit_bias, repetition_penalty of a request", str(said[0].message))
        first = self.v1()  # V1 has penalties after it
        first.update_state(BatchUpdate(1, [], [(0, parameters(repetition_penalty=1.2), [1], [])], []))
        with self.assertRaisesRegex(dgap.MismatchWarning, "min_tokens"):
            first.update_state(BatchUpdate(1, [], [(0, parameters(min_tokens=3), [1], [])], []))

    def test_parameters_are_validated(self):
        LogitsProcessor.validate_params(parameters())
        LogitsProcessor.validate_params(parameters(extra_args=None))
        with self.assertRaisesRegex(ValueError, "'yes': true or false"):
            LogitsProcessor.validate_params(parameters(extra_args={"dgap": "yes"}))

    def test_caches_are_described(self):
        self.assertEqual(describe_cache("auto"), {"family": "exact"})
        self.assertEqual(describe_cache("fp8")["key"], {"quantizer": "fp8_e4m3"})
        self.assertEqual(describe_cache("turboquant_k3v4_nc"), {
            "family": "vllm", "key": {"bits": 3, "quantizer": "turboquant_mse"},
            "value": {"bits": 4, "quantizer": "asymmetric"}})
        self.assertEqual(describe_cache("nvfp4")["key"], {"quantizer": "nvfp4"})


if __name__ == "__main__":
    unittest.main()

"""dgap.transformers in generate(): a real model, a quantised cache, batches with padding on the left."""
import inspect
import unittest
import warnings

import dgap
import numpy as np
import torch
import transformers
from dgap.transformers import LogitsProcessor, check_first, describe_cache
from support import Reference, make_bundle, model_file, random_rows

MODEL = model_file()
PROMPTS = ["Once upon a time, in a land far away, there lived", "The",
           "It is a truth universally acknowledged, that a single man"]
STEPS = 12
SCHEME = {"name": "hf", "family": "hf", "residual_window": 8,
          **dict.fromkeys(("key", "value"), {"quantizer": "hqq", "bits": 4, "group_size": 64, "axis": "channel"})}


class TransformersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(2)
        source = {"pretrained_model_name_or_path": MODEL.parent, "gguf_file": MODEL.name}
        cls.model = transformers.AutoModelForCausalLM.from_pretrained(**source)
        tokenizer = transformers.AutoTokenizer.from_pretrained(**source)
        cls.inputs = tokenizer(PROMPTS, return_tensors="pt", padding=True, padding_side="left")
        assert 0 < cls.inputs["attention_mask"].sum() < cls.inputs["attention_mask"].numel()
        cls.path = make_bundle(cls.model.config.vocab_size, cls.model.config.hidden_size, SCHEME)
        cls.bundle = dgap.Bundle(cls.path)

    def cache(self):
        return transformers.QuantizedCache("hqq", self.model.config, nbits=4, residual_length=8)

    def generate(self, *processors, cache=None, **options):
        name = "cache" if "cache" in inspect.signature(self.model.generate).parameters else "past_key_values"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            return self.model.generate(**self.inputs, **{name: cache or self.cache()}, max_new_tokens=STEPS,
                                       min_new_tokens=None, do_sample=False, logits_processor=list(processors),
                                       return_dict_in_generate=True, output_scores=True, output_logits=True, **options)

    def loop(self, precision):
        """The same by hand: ids, and the scores of every step, restored through the C interface."""
        reference = Reference(self.path, precision)
        ids, mask, cache, scores = self.inputs["input_ids"], self.inputs["attention_mask"], self.cache(), []
        hidden = []
        hook = self.model.get_output_embeddings().register_forward_pre_hook(lambda _, seen: hidden.append(seen[0][:, -1]))
        for step in range(STEPS):
            positions = (mask.cumsum(-1) - 1).clamp(min=0)
            new = slice(None) if step == 0 else slice(-1, None)
            with torch.no_grad():
                logits = self.model(input_ids=ids[:, new], attention_mask=mask, position_ids=positions[:, new],
                                    past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1].float()
            texts = [row[keep.bool()].tolist() for row, keep in zip(ids, mask)]
            restored, _ = reference.restore(logits.numpy(), texts, np.ascontiguousarray(hidden[-1].numpy()))
            scores.append(restored)
            ids = torch.cat([ids, torch.from_numpy(restored).argmax(-1, keepdim=True)], 1)
            mask = torch.cat([mask, torch.ones(len(ids), 1, dtype=mask.dtype)], 1)
        hook.remove()
        return ids, scores

    def test_generate_is_the_loop_by_hand(self):
        plain = self.generate()
        changed = set()
        for precision in ("mlp", "context", "hidden"):
            with warnings.catch_warnings():
                warnings.simplefilter("error", dgap.MismatchWarning)
                processor = LogitsProcessor(self.bundle, precision, model=self.model, cache=self.cache(),
                                            attention_mask=self.inputs["attention_mask"], strict=True)
            made = self.generate(processor)
            processor.close()
            ids, scores = self.loop(precision)
            ended = (ids[:, self.inputs["input_ids"].shape[1]:] == self.model.config.eos_token_id).any().item()
            self.assertFalse(ended, "a row ended: choose other prompts")
            torch.testing.assert_close(made.sequences, ids, rtol=0, atol=0)
            for step in range(STEPS):
                np.testing.assert_array_equal(made.scores[step].numpy(), scores[step], f"{precision}, step {step}")
                self.assertEqual(made.logits[step].shape, made.scores[step].shape)
            self.assertFalse(all(torch.equal(a, b) for a, b in zip(made.logits, made.scores)), "raw logits stay raw")
            self.assertEqual(len(processor.results), len(PROMPTS))
            changed.add(not torch.equal(made.sequences, plain.sequences))
        self.assertIn(True, changed)

    def test_padding_is_no_text(self):
        """With the mask, without one (pad tokens), and every row alone: the same text, the same correction."""
        rows = torch.from_numpy(random_rows(3, self.model.config.vocab_size))
        best = rows.argsort(descending=True)[:, :6]  # text of likely tokens, so that all of it matters
        ids = best.gather(1, torch.randint(0, 6, (3, 40), generator=torch.Generator().manual_seed(1)))
        mask = torch.ones_like(ids)
        for row, padding in enumerate((0, 17, 30)):
            ids[row, :padding], mask[row, :padding] = self.model.generation_config.pad_token_id, 0
        texts = [row[keep.bool()].tolist() for row, keep in zip(ids, mask)]
        expected, _ = Reference(self.path, "context").restore(rows.numpy(), texts)
        masked = LogitsProcessor(self.bundle, "context", attention_mask=mask)
        by_pad = LogitsProcessor(self.bundle, "context", model=self.model)
        for processor in (masked, by_pad):
            np.testing.assert_array_equal(processor(ids, rows).numpy(), expected)
        beams = LogitsProcessor(self.bundle, "context", attention_mask=mask)
        twice = beams(ids.repeat_interleave(2, 0), rows.repeat_interleave(2, 0))
        np.testing.assert_array_equal(twice.numpy(), np.repeat(expected, 2, 0))
        with self.assertRaisesRegex(dgap.InvalidArgumentError, "3 rows for 2 rows"):
            masked(ids[:2], rows[:2])

    def test_beams(self):
        processor = LogitsProcessor(self.bundle, "context", attention_mask=self.inputs["attention_mask"])
        made = self.generate(processor, cache=transformers.DynamicCache(config=self.model.config), num_beams=2)
        self.assertEqual(len(made.sequences), len(PROMPTS))
        self.assertEqual(len(processor.results), 2 * len(PROMPTS))

    def test_caches_are_described(self):
        self.assertEqual(describe_cache(self.cache()), {key: SCHEME[key] for key in SCHEME if key != "name"})
        self.assertEqual(describe_cache(transformers.DynamicCache())["family"], "exact")
        quanto = describe_cache({"backend": "quanto", "nbits": 2, "q_group_size": 32, "axis_key": -1})
        self.assertEqual(quanto["key"], {"quantizer": "quanto", "bits": 2, "group_size": 32, "axis": "channel"})
        self.assertEqual(quanto["value"]["axis"], "token")

    def test_what_does_not_match_is_said(self):
        exact = transformers.DynamicCache(config=self.model.config)
        with self.assertWarnsRegex(dgap.MismatchWarning, "calibrated for another cache: family is 'hf'"):
            LogitsProcessor(self.bundle, "mlp", model=self.model, cache=exact)
        other = dgap.Bundle(make_bundle(1000))
        with self.assertRaisesRegex(dgap.MismatchError, f"these are {self.model.config.vocab_size} wide"):
            LogitsProcessor(other, "mlp", model=self.model)
        with self.assertRaisesRegex(dgap.UnsupportedError, "hidden states: pass model="):
            LogitsProcessor(self.bundle, "hidden")
        config = transformers.GenerationConfig(repetition_penalty=1.3, no_repeat_ngram_size=0)
        with self.assertWarnsRegex(dgap.MismatchWarning, "^repetition_penalty edit the logits before dgap"):
            LogitsProcessor(self.bundle, "mlp", generation_config=config)
        quantized = transformers.GenerationConfig(cache_implementation="quantized", cache_config={"backend": "hqq", "nbits": 2})
        with self.assertWarnsRegex(dgap.MismatchWarning, "key.bits is 4 in the bundle and 2 here"):
            LogitsProcessor(self.bundle, "mlp", generation_config=quantized)
        processor = LogitsProcessor(self.bundle, "mlp")
        check_first([processor], processor, strict=True)
        with self.assertRaisesRegex(dgap.MismatchError, "TemperatureLogitsWarper"):
            check_first([transformers.TemperatureLogitsWarper(0.7), processor], processor, strict=True)

    def test_hidden_states_of_another_pass_are_refused(self):
        processor = LogitsProcessor(self.bundle, "hidden", model=self.model)
        with self.assertRaisesRegex(dgap.InvalidArgumentError, "one forward pass per step"):
            processor(self.inputs["input_ids"], torch.zeros(3, self.model.config.vocab_size))
        with torch.no_grad():  # logits of every position: the last one's state counts
            logits = self.model(self.inputs["input_ids"][:1]).logits[:, -1]
            states = self.model.base_model(self.inputs["input_ids"][:1]).last_hidden_state[:, -1]
        expected, _ = Reference(self.path, "hidden").restore(
            logits.numpy(), [self.inputs["input_ids"][0].tolist()], states.numpy())
        np.testing.assert_array_equal(processor(self.inputs["input_ids"][:1], logits).numpy(), expected)
        processor.close()

    def test_torch_tensors_without_copies(self):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            wide = torch.from_numpy(random_rows(4, self.model.config.vocab_size + 5)).to(dtype)
            view = wide[1::2, :-5]
            expected, reference = Reference(self.path, "always").restore(view.float().numpy())
            before, results = wide.clone(), self.bundle.restorer("always").restore(view)
            np.testing.assert_array_equal(results.risk, reference["risk"])
            self.assertTrue(torch.equal(view, torch.from_numpy(expected).to(dtype)))
            self.assertTrue(torch.equal(wide[::2], before[::2]) and torch.equal(wide[:, -5:], before[:, -5:]))
        with self.assertRaisesRegex(dgap.ArrayTypeError, "gives no array"):
            self.bundle.restorer("always").restore(torch.zeros(self.model.config.vocab_size, device="meta"))


if __name__ == "__main__":
    unittest.main()

"""transformers: a LogitsProcessor for generate().

    processor = dgap.transformers.LogitsProcessor(bundle, "hf-quanto-4", model=model, cache=cache)
    model.generate(**inputs, past_key_values=cache, logits_processor=[processor])

generate() puts its own penalties and biases before every processor that it is given; they are
reported where the generation configuration has them. A step copies the rows once (to the CPU where
they are elsewhere), so that output_logits stay raw.
"""
import numpy as np
import torch
import transformers

from . import checks
from ._dgap import Bundle
from .errors import InvalidArgumentError, UnsupportedError
from .sequences import Sequences

#: Options of a generation configuration whose processors run first, and the values that mean "none".
_EARLIER = {**dict.fromkeys(("sequence_bias", "bad_words_ids", "min_new_tokens", "forced_bos_token_id",
                             "forced_eos_token_id", "exponential_decay_length_penalty", "suppress_tokens",
                             "begin_suppress_tokens"), (None,)),
            **dict.fromkeys(("guidance_scale", "repetition_penalty", "encoder_repetition_penalty"), (None, 1)),
            **dict.fromkeys(("no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "min_length"), (None, 0)),
            "remove_invalid_values": (None, False)}


def describe_cache(cache):
    """The part of a scheme that a cache object, or the cache_config of generate(), says; None: not known."""
    if isinstance(cache, dict):
        settings = {"nbits": 4, "q_group_size": 64, "residual_length": 128, **cache}
        backend = cache.get("backend", "quanto")
    elif isinstance(cache, transformers.QuantizedCache):
        settings, backend = vars(cache.layers[0]), type(cache.layers[0]).__name__.lower()
    elif type(cache) is transformers.DynamicCache:
        return {"family": "exact"}
    else:
        return None
    kind = next((name for name in ("quanto", "hqq") if name in backend), backend)

    def tensor(axis):
        quantizer = {"quantizer": kind}
        if "nbits" in settings:
            neighbours = (axis == 0) == (kind == "quanto")  # groups of neighbouring channels (docs/quantizers.md)
            quantizer.update(bits=settings["nbits"], group_size=settings["q_group_size"],
                             axis="token" if neighbours else "channel")
        return quantizer

    description = {"family": "hf", "key": tensor(settings.get("axis_key", 0)),
                   "value": tensor(settings.get("axis_value", 0))}
    if "residual_length" in settings:
        description["residual_window"] = settings["residual_length"]
    return description


class LogitsProcessor(transformers.LogitsProcessor):
    """Restores the rows of every step. One per generate() at a time; `results` are those of the last step."""

    def __init__(self, bundle: Bundle, precision: str, model=None, cache=None, generation_config=None, attention_mask=None,
                 strict=False):
        """model: for the checks, and needed where the precision takes hidden states. cache: what generate()
        gets as past_key_values, or as cache_config. attention_mask [rows, prompt]: its zeros are padding
        and no part of the text; without one, leading pad tokens of the model's are."""
        self._bundle, self._strict, self._mask = bundle, strict, attention_mask
        self._restorer, self._sequences = bundle.restorer(precision), Sequences(bundle)
        self._hidden, self._hook, self.results = None, None, None
        self._pad = None
        config = generation_config or getattr(model, "generation_config", None)
        if config is not None:
            self._pad = config.pad_token_id
            checks.check_order([name for name, none in _EARLIER.items() if getattr(config, name, None) not in none], strict)
            if cache is None and getattr(config, "cache_implementation", None) == "quantized":
                cache = config.cache_config or {}
        text = model.config.get_text_config() if model is not None else None
        checks.check(bundle, precision, logits_width=getattr(text, "vocab_size", None),
                     hidden_size=getattr(text, "hidden_size", None),
                     architectures=None if model is None else [type(model).__name__],
                     cache=None if cache is None else describe_cache(cache), strict=strict)
        if self._restorer.takes_hidden:
            if model is None:
                raise UnsupportedError(f"the precision {precision} takes the model's hidden states: pass model=")
            self._hook = model.get_output_embeddings().register_forward_pre_hook(self._see_hidden)

    def close(self):
        """Takes the hook for hidden states off the model."""
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def __call__(self, input_ids, scores):
        rows = torch.empty_like(scores, device="cpu").copy_(scores)
        contexts = self._sequences.follow(self._texts(input_ids)) if self._restorer.takes_context else None
        self.results = self._restorer.restore(rows, contexts, self._states(len(rows)))
        return rows.to(scores.device)

    def _see_hidden(self, _, arguments):
        self._hidden = arguments[0][:, -1].detach().cpu()

    def _states(self, rows):
        if self._hook is None:
            return None
        if self._hidden is None or len(self._hidden) != rows:
            raise InvalidArgumentError("the hidden states of this step are not those of its rows: this precision serves one "
                                       "forward pass per step (no assisted decoding, and no closed processor)")
        return self._hidden

    def _texts(self, input_ids):
        """Every row's ids without the padding on its left."""
        ids = input_ids.detach().cpu().numpy()
        if self._mask is not None:
            if len(self._mask) == 0 or len(ids) % len(self._mask):
                raise InvalidArgumentError(f"attention_mask has {len(self._mask)} rows for {len(ids)} rows of logits")
            mask = np.asarray(self._mask.cpu() if hasattr(self._mask, "cpu") else self._mask, bool)
            starts = np.repeat(mask.argmax(axis=1), len(ids) // len(mask))
        elif self._pad is not None:
            starts = (ids != self._pad).argmax(axis=1)
        else:
            starts = np.zeros(len(ids), int)
        return [row[start:] for row, start in zip(ids, starts)]


def check_first(processors, processor, strict=False):
    """Reports the processors of a list that run before this one."""
    names = [type(other).__name__ for other in list(processors)[:list(processors).index(processor)]]
    checks.check_order(names, strict)

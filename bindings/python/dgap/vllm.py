"""vLLM: one logits processor for both of its interfaces (V1, and Model Runner V2).

The package's entry point loads it; it does nothing until a bundle is configured, by
--additional-config '{"dgap": {"bundle": "bundle/", "precision": "vllm-fp8"}}' or by DGAP_BUNDLE and
DGAP_PRECISION, and then restores the requests whose SamplingParams have extra_args={"dgap": True}
(all of them with "all_requests": true). Their rows are copied to the host, and those that were
corrected back: a synchronisation of the device per step.

vLLM applies biases and masks before custom processors (Model Runner V2: penalties too); a request
that has them is reported.
"""
import os

import numpy as np
from vllm.v1.sample.logits_processor import LogitsProcessor as V1LogitsProcessor
from vllm.v1.sample.logits_processor import process_dict_updates

try:
    from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcessor as V2LogitsProcessor
except ImportError:  # a vLLM with V1 alone: its engine loads every entry point and must still start
    V2LogitsProcessor = object

from . import checks
from ._dgap import Bundle, Context, Verdict
from .errors import InvalidArgumentError, UnsupportedError

_MASKS = {"logit_bias": None, "allowed_token_ids": None, "bad_words": None, "min_tokens": 0, "structured_outputs": None}
_PENALTIES = {"presence_penalty": 0.0, "frequency_penalty": 0.0, "repetition_penalty": 1.0}
_EXACT = ("auto", "float16", "bfloat16")
_FP8 = {"fp8": "fp8_e4m3", "fp8_e4m3": "fp8_e4m3", "fp8_inc": "fp8_e4m3", "fp8_e5m2": "fp8_e5m2"}
_TURBOQUANT = {"k8v4": (8, 4), "4bit_nc": (4, 4), "k3v4_nc": (3, 4), "3bit_nc": (3, 3)}


def describe_cache(cache_dtype):
    """The part of a scheme that --kv-cache-dtype says."""
    if cache_dtype in _EXACT:
        return {"family": "exact"}
    if cache_dtype.removeprefix("turboquant_") in _TURBOQUANT:
        key, value = _TURBOQUANT[cache_dtype.removeprefix("turboquant_")]
        return {"family": "vllm", "key": {"bits": key, "quantizer": "fp8_e4m3" if key == 8 else "turboquant_mse"},
                "value": {"bits": value, "quantizer": "asymmetric"}}
    kind = {"quantizer": _FP8.get(cache_dtype, cache_dtype)}
    return {"family": "vllm", "key": kind, "value": kind}


def _settings(vllm_config):
    additional = getattr(vllm_config, "additional_config", None)
    settings = dict(additional.get("dgap") or {}) if isinstance(additional, dict) else {}
    settings.setdefault("bundle", os.environ.get("DGAP_BUNDLE"))
    settings.setdefault("precision", os.environ.get("DGAP_PRECISION"))
    unknown = set(settings) - {"bundle", "precision", "all_requests", "strict"}
    if unknown:
        raise InvalidArgumentError(f"additional_config's dgap has {sorted(unknown)}; known are bundle, precision, "
                                   "all_requests, strict")
    if settings["bundle"] and not settings["precision"]:
        raise InvalidArgumentError("dgap has a bundle and no precision: set precision (or DGAP_PRECISION)")
    return settings


class _Request:
    """A request that is restored, and its text where the precision takes it."""

    def __init__(self, context, prompt=None, output=None):
        self.context, self.prompt, self.output = context, prompt, output

    def text(self):
        """V1: prompt and output so far, which vLLM's lists hold; None where they do not."""
        if self.prompt is None or any(token < 0 for token in self.output[-2:]):  # embeddings; a token still on the device
            return None
        known = self.context.length - len(self.prompt)
        if 0 <= known <= len(self.output):
            self.context.accept(self.output[known:])
        else:
            self.context.begin([*self.prompt, *self.output])
        return self.context

    def text_before(self, position, ids_between):
        """V2: the committed ids before this position; ids_between(a, b) gives them."""
        known = self.context.length
        if known > position:
            self.context.roll_back(known - position)
        else:
            self.context.accept(ids_between(known, position))
        return self.context


class LogitsProcessor(V1LogitsProcessor, V2LogitsProcessor):
    """For V1 (vllm_config, device, is_pin_memory) and for Model Runner V2 (vllm_config, req_states)."""

    def __init__(self, vllm_config, device_or_states, is_pin_memory=None):
        settings = _settings(vllm_config)
        self._states = device_or_states if is_pin_memory is None else None
        self._requests = {}  # by row (V1) or slot (V2)
        self._all, strict = settings.get("all_requests", False), settings.get("strict", False)
        self._report, self._bundle = checks.Once(), None
        if not settings["bundle"]:
            return
        self._bundle = Bundle(settings["bundle"])
        model = vllm_config.model_config
        checks.check(self._bundle, settings["precision"], logits_width=model.get_vocab_size(),
                     hidden_size=model.get_hidden_size(), architectures=model.architectures,
                     cache=describe_cache(vllm_config.cache_config.cache_dtype), strict=strict)
        self._restorer = self._bundle.restorer(settings["precision"])
        if self._restorer.takes_hidden:
            raise UnsupportedError(f"the precision {settings['precision']} takes hidden states, which vLLM's logits "
                                   "processors do not see: serve one that does not")

    @classmethod
    def validate_params(cls, sampling_params):
        asked = (sampling_params.extra_args or {}).get("dgap")
        if asked not in (None, True, False):
            raise ValueError(f"extra_args' dgap is {asked!r}: true or false")

    def is_argmax_invariant(self):
        return False

    # V1: rows are requests.

    def update_state(self, batch_update):
        process_dict_updates(self._requests, batch_update, self._request)

    # Model Runner V2: rows are found by slot.

    def add_request(self, req_idx, sampling_params):
        request = self._request(sampling_params, None, None)
        self._requests.pop(req_idx, None)
        if request is not None:
            self._requests[req_idx] = request
        return request is not None

    def apply(self, logits, ctx=None):
        if self._requests:
            if ctx is None:
                self._apply_v1(logits)
            elif any(slot in self._requests for slot in ctx.idx_mapping_np.tolist()):
                self._apply_v2(logits, ctx)
        return logits

    def _request(self, params, prompt, output):
        asked = (params.extra_args or {}).get("dgap")
        if self._bundle is None:
            if asked:
                self._report("a request asks for dgap, and no bundle is configured: set additional_config's dgap, or "
                             "DGAP_BUNDLE and DGAP_PRECISION")
            return None
        if not (self._all if asked is None else asked):
            return None
        earlier = {**_MASKS, **(_PENALTIES if self._states is not None else {})}
        edits = [name for name, none in earlier.items() if (getattr(params, name, none) or none) != none]
        if edits:
            self._report(f"{', '.join(edits)} of a request edit its logits before dgap, which was calibrated on raw logits")
        return _Request(Context(self._bundle) if self._restorer.takes_context else None, prompt, output)

    def _apply_v1(self, logits):
        rows, contexts = [], []
        for row, request in sorted(self._requests.items()):
            text = request.text() if request.context is not None else None
            if request.context is not None and text is None:
                self._report("a request's ids are not at hand (prompt embeddings, or tokens still on the device): its rows "
                             "are left as they are")
                continue
            rows.append(row)
            contexts.append(text)
        self._restore(logits, rows, lambda picked: self._restorer.restore(
            picked, contexts if self._restorer.takes_context else None).verdict)

    def _apply_v2(self, logits, ctx):
        slots = ctx.expanded_idx_mapping.tolist()
        rows = [row for row, slot in enumerate(slots) if slot in self._requests]
        if self._restorer.takes_context:
            self._restore(logits, rows, lambda picked: self._restore_drafts(picked, rows, slots, ctx))
        else:
            self._restore(logits, rows, lambda picked: self._restorer.restore(picked).verdict)

    def _restore_drafts(self, picked, rows, slots, ctx):
        """Row by row: a request has one per draft token, each after those before it."""
        positions, offsets, inputs = ctx.pos.tolist(), ctx.expanded_local_pos.tolist(), ctx.input_ids.tolist()
        fed = {(slots[row], offsets[row]): inputs[row] for row in rows}
        verdicts = []
        for i, row in enumerate(rows):
            slot, offset = slots[row], offsets[row]
            context = self._requests[slot].text_before(
                positions[row] - offset, lambda a, b: self._states.all_token_ids.gpu[slot, a:b].tolist())
            context.accept([fed[slot, j] for j in range(offset + 1)])
            verdicts.append(int(self._restorer.restore(picked[i], context).verdict))
            context.roll_back(offset + 1)
        return np.array(verdicts)

    @staticmethod
    def _restore(logits, rows, restore):
        """Copies rows to the host, restores them, and copies those back that were corrected."""
        if not rows:
            return
        picked = logits[rows].cpu()
        corrected = np.flatnonzero(restore(picked) == Verdict.RESTORE).tolist()
        if corrected:
            logits[[rows[i] for i in corrected]] = picked[corrected].to(logits.device)

"""llama-cpp-python: a logits processor for Llama's completions.

    llm = llama_cpp.Llama(path, type_k=llama_cpp.GGML_TYPE_Q8_0, type_v=llama_cpp.GGML_TYPE_Q8_0, flash_attn=True)
    processor = dgap.llama_cpp.LogitsProcessor(bundle, "llamacpp-q8_0", llm)
    llm.create_completion(prompt, logits_processor=[processor])

llama-cpp-python runs it first in the sampler chain, on the candidates where they lie: no copy. C++
programs have bindings/llama_cpp/dgap_sampler.h.
"""
from . import checks
from ._dgap import Bundle
from .errors import UnsupportedError
from .sequences import Sequence

#: ggml_type, by number, of the types that a cache may have (ggml.h).
_TYPES = {1: "exact", 2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 8: "q8_0", 20: "iq4_nl"}


def describe_cache(type_k, type_v):
    """The part of a scheme that cache types (ggml_type; None: f16) say."""
    key, value = (_TYPES.get(1 if kind is None else kind, f"ggml type {kind}") for kind in (type_k, type_v))
    if key == value == "exact":
        return {"family": "exact"}
    return {"family": "llamacpp", "key": {"quantizer": key}, "value": {"quantizer": value}}


class LogitsProcessor:
    """Restores the row of every step. One sequence at a time; `results` are those of the last step."""

    def __init__(self, bundle: Bundle, precision: str, llama=None, check_file=False, strict=False):
        """llama: the Llama that it is for, for the checks. check_file: also compare the SHA-256 of its file."""
        self._restorer, self._sequence, self.results = bundle.restorer(precision), Sequence(bundle), None
        if self._restorer.takes_hidden:
            raise UnsupportedError(f"the precision {precision} takes hidden states, which llama.cpp's samplers do not see: "
                                   "serve one that does not")
        if llama is None:
            return
        parameters = llama.context_params
        checks.check(bundle, precision, logits_width=llama.n_vocab(), hidden_size=llama.n_embd(),
                     architectures=[llama.metadata["general.architecture"]] if llama.metadata else None,
                     model_file=llama.model_path if check_file else None,
                     cache=describe_cache(parameters.type_k, parameters.type_v), strict=strict)

    def __call__(self, input_ids, scores):
        context = self._sequence.follow(input_ids) if self._restorer.takes_context else None
        self.results = self._restorer.restore(scores, context)
        return scores

"""Bundles apply to the model and the cache that they were calibrated for: what does not match.

An adapter says what it knows of the running model and cache; whatever it leaves out is not checked.
A vocabulary that does not fit is always a MismatchError. Anything else is a MismatchWarning, or,
with strict=True, a MismatchError too.
"""
import hashlib
import warnings

from ._dgap import Bundle
from .errors import MismatchError, MismatchWarning

#: GGUF calls Mistral's architecture "llama".
_SAME_ARCHITECTURE = {"mistral": "llama"}


def _architecture(name):
    plain = name.lower().removesuffix("forcausallm")
    return _SAME_ARCHITECTURE.get(plain, plain)


def _leaves(description, prefix=""):
    for key, value in description.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _value_at(scheme, path):
    for key in path.split("."):
        scheme = scheme.get(key) if isinstance(scheme, dict) else None
    return scheme


def scheme_differences(scheme, cache):
    """One sentence per key of `cache` (a part of a scheme, docs/schemes.md) that `scheme` has otherwise."""
    return [f"{path} is {_value_at(scheme, path)!r} in the bundle and {value!r} here"
            for path, value in _leaves(cache) if _value_at(scheme, path) != value]


def _cache_differences(manifest, precision, cache):
    precisions = manifest["precisions"]
    differences = scheme_differences(precisions[precision]["scheme"], cache)
    if not differences:
        return []
    fitting = [name for name, entry in precisions.items() if not scheme_differences(entry["scheme"], cache)]
    remedy = f"; the bundle has {', '.join(fitting)} for this cache" if fitting else (
        "; it has no precision for this cache: calibrate one")
    return [f"the precision {precision} was calibrated for another cache: {', '.join(differences)}{remedy}"]


def _model_differences(model, hidden_size, architectures, model_file):
    found = []
    if hidden_size is not None and hidden_size != model["hidden_size"]:
        found.append(f"hidden_size is {model['hidden_size']} in the bundle and {hidden_size} here")
    known, here = ({_architecture(name) for name in names} for names in (model["architectures"], architectures or ()))
    if here and not known & here:
        found.append(f"architectures are {model['architectures']} in the bundle and {list(architectures)} here")
    if model_file is not None:
        with open(model_file, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != model["model_sha256"]:
            found.append(f"the model file's SHA-256 is {model['model_sha256']} in the bundle and {digest} here")
    return [f"the bundle was made for {model['name']}, another model: {', '.join(found)}"] if found else []


def check(bundle: Bundle, precision: str, *, logits_width=None, hidden_size=None, architectures=None, model_file=None,
          cache=None, strict=False) -> list:
    """Compares the bundle with the running model and cache; the sentences of what does not match.

    logits_width: of a row of logits; hidden_size and architectures: of the model's configuration;
    model_file: a file whose SHA-256 the bundle has (GGUF); cache: a part of a scheme, as a dict.
    """
    manifest = bundle.manifest
    model = manifest["base_model"]
    if precision not in manifest["precisions"]:
        raise MismatchError(f"the bundle has no precision {precision!r}; it has {', '.join(bundle.precisions)}")
    if logits_width is not None and not model["vocab_size"] <= logits_width <= model["logits_width"]:
        raise MismatchError(
            f"the bundle was made for {model['name']} with a vocabulary of {model['vocab_size']} and logits "
            f"{model['logits_width']} wide; these are {logits_width} wide: the vocabulary is another one")
    found = _model_differences(model, hidden_size, architectures, model_file)
    if cache is not None:
        found += _cache_differences(manifest, precision, cache)
    for sentence in found:
        report(sentence, strict)
    return found


def check_order(earlier, strict=False) -> None:
    """dgap is first in a sampler, on raw logits: reports what of `earlier` (names) edits them before."""
    if earlier:
        report(f"{', '.join(earlier)} edit the logits before dgap, which was calibrated on raw logits: "
               "verdicts and corrections are off where they do", strict)


def report(sentence: str, strict=False) -> None:
    """A MismatchWarning, or, strict, a MismatchError."""
    if strict:
        raise MismatchError(sentence)
    warnings.warn(sentence, MismatchWarning, stacklevel=4)


class Once:
    """Reports each sentence once in its life, for what is only seen while decoding."""

    def __init__(self, strict=False):
        self._said, self._strict = set(), strict

    def __call__(self, sentence):
        if sentence not in self._said:
            self._said.add(sentence)
            report(sentence, self._strict)

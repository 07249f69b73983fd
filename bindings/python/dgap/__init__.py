"""Repairs next-token logits of models that are decoded over low-bit KV caches (DGAP, arXiv:2607.16248).

    bundle = dgap.Bundle("bundle/")
    restorer = bundle.restorer("K1V1-R32")     # one per thread
    results = restorer.restore(logits)         # numpy, torch on the CPU, DLPack: in place, no copy
    results.verdict == dgap.Verdict.RESTORE    # numpy, one per row

Order in a sampler: first, on raw logits, before penalties, temperature and truncation.
Adapters: dgap.transformers, dgap.llama_cpp, dgap.vllm. docs/serving.md has a section on each.
"""
from ._dgap import Bundle, Context, Controller, Restorer, Results, Verdict, runtime_version
from .errors import (ArrayTypeError, BundleError, Error, InternalError, InvalidArgumentError, MismatchError,
                     MismatchWarning, OutOfMemoryError, UnsupportedError)

__version__ = runtime_version()
__all__ = ["ArrayTypeError", "Bundle", "BundleError", "Context", "Controller", "Error", "InternalError",
           "InvalidArgumentError", "MismatchError", "MismatchWarning", "OutOfMemoryError", "Restorer", "Results",
           "UnsupportedError", "Verdict", "runtime_version"]

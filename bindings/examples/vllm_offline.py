#!/usr/bin/env python3
"""vLLM over an FP8 cache, with requests that are repaired and requests that are not.

    vllm_offline.py MODEL BUNDLE PRECISION PROMPT

The package's entry point has brought the processor into vLLM; the bundle is named in the engine's
configuration, and each request asks for it. vllm serve takes the same as --additional-config, and
"vllm_xargs": {"dgap": true} in a request.
"""
import sys

from vllm import LLM, SamplingParams

model, bundle, precision, prompt = sys.argv[1:]
engine = LLM(model, kv_cache_dtype="fp8", additional_config={"dgap": {"bundle": bundle, "precision": precision}})
for asked in (False, True):
    parameters = SamplingParams(temperature=0.0, max_tokens=24, extra_args={"dgap": asked})
    print("repaired:" if asked else "as it is:", engine.generate([prompt], parameters)[0].outputs[0].text)

#!/usr/bin/env python3
"""llama-cpp-python over a quantised cache, repaired at every step.

    llama_cpp_completion.py MODEL.gguf BUNDLE PRECISION PROMPT

Needs a bundle for this model and a precision for this cache, llamacpp-q8_0.
"""
import sys

import dgap
import dgap.llama_cpp
import llama_cpp

model_path, bundle_path, precision, prompt = sys.argv[1:]
llm = llama_cpp.Llama(model_path, n_ctx=2048, type_k=llama_cpp.GGML_TYPE_Q8_0, type_v=llama_cpp.GGML_TYPE_Q8_0,
                      flash_attn=True, verbose=False)
processor = dgap.llama_cpp.LogitsProcessor(dgap.Bundle(bundle_path), precision, llm, check_file=True)
said = llm.create_completion(prompt, max_tokens=24, temperature=0.0,
                             logits_processor=llama_cpp.LogitsProcessorList([processor]))
print(prompt + said["choices"][0]["text"])
print("last step:", dgap.Verdict(int(processor.results.verdict)).name)
llm.close()

#!/usr/bin/env python3
"""A model of transformers over a 4-bit cache, repaired at every step.

    transformers_generate.py MODEL.gguf|FOLDER BUNDLE PRECISION PROMPT...

The prompts are one batch, padded on the left. Needs a bundle for this model and a precision for this
cache, hf-hqq-4 (pip install hqq).
"""
import pathlib
import sys

import dgap
import dgap.transformers
import transformers

model_path, bundle_path, precision, *prompts = sys.argv[1:]
path = pathlib.Path(model_path)
source = {"gguf_file": path.name, "pretrained_model_name_or_path": path.parent} if path.is_file() else {
    "pretrained_model_name_or_path": path}
model = transformers.AutoModelForCausalLM.from_pretrained(**source)
tokenizer = transformers.AutoTokenizer.from_pretrained(**source)
inputs = tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left")

cache = transformers.QuantizedCache("hqq", model.config, nbits=4)
processor = dgap.transformers.LogitsProcessor(dgap.Bundle(bundle_path), precision, model=model, cache=cache,
                                              attention_mask=inputs["attention_mask"])
made = model.generate(**inputs, past_key_values=cache, max_new_tokens=24, do_sample=False, logits_processor=[processor])
for text in tokenizer.batch_decode(made, skip_special_tokens=True):
    print(text)
print("last step:", [dgap.Verdict(int(verdict)).name for verdict in processor.results.verdict])

#!/usr/bin/env python3
"""ONNX Runtime GenAI: logits are taken out, repaired and put back before each token is chosen.

    onnxruntime_genai_generate.py MODEL_FOLDER BUNDLE PRECISION PROMPT

get_logits() gives a copy, which is corrected where it lies, and set_logits() copies it back; the
search's penalties, temperature and truncation run afterwards, in generate_next_token().
"""
import sys

import dgap
import dgap.checks
import numpy as np
import onnxruntime_genai as genai
from dgap.sequences import Sequences


def repaired_tokens(generator, bundle, precision):
    """Runs the generator until it is done; the verdicts of each step, one per sequence."""
    restorer, sequences = bundle.restorer(precision), Sequences(bundle)
    checked = False
    while not generator.is_done():
        logits = np.ascontiguousarray(generator.get_logits(), np.float32)
        rows = logits.reshape(-1, logits.shape[-1])
        if not checked:
            dgap.checks.check(bundle, precision, logits_width=rows.shape[1])
            checked = True
        contexts = None
        if restorer.takes_context:
            contexts = sequences.follow([np.asarray(generator.get_sequence(row)) for row in range(len(rows))])
        results = restorer.restore(rows, contexts)
        generator.set_logits(logits)
        generator.generate_next_token()
        yield results.verdict


def main():
    model_folder, bundle_path, precision, prompt = sys.argv[1:]
    model = genai.Model(model_folder)
    tokenizer = genai.Tokenizer(model)
    parameters = genai.GeneratorParams(model)
    parameters.set_search_options(max_length=256, do_sample=False)
    generator = genai.Generator(model, parameters)
    generator.append_tokens(tokenizer.encode(prompt))
    verdicts = np.concatenate(list(repaired_tokens(generator, dgap.Bundle(bundle_path), precision)))
    print(tokenizer.decode(generator.get_sequence(0)))
    print(f"{(verdicts == dgap.Verdict.RESTORE).sum()} of {len(verdicts)} steps corrected")


if __name__ == "__main__":
    main()

"""A llama model written by the gguf package, in the row order of its converters, read back.

Usage: conformance_weights.py PROBE
"""
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np

LAYERS, HEADS, KV_HEADS, HEAD_DIM, HIDDEN, INTERMEDIATE, VOCABULARY = 2, 4, 2, 16, 64, 96, 40


def permute(weights, heads):
    """Hugging Face's row order to llama.cpp's, as its converter does it."""
    return (weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:])
            .swapaxes(1, 2).reshape(weights.shape))


def write(path, kind, tensors, tied):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INTERMEDIATE)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(VOCABULARY)
    expected = []
    for name, values in tensors:
        if name == "output.weight" and tied:
            continue
        heads = {"attn_q": HEADS, "attn_k": KV_HEADS}.get(name.split(".")[-2], 0)
        if values.ndim == 1:
            writer.add_tensor(name, values)
            expected.append(values)
            continue
        stored = gguf.quants.quantize(permute(values, heads) if heads else values, kind)
        writer.add_tensor(name, stored, raw_dtype=kind)
        expected.append(gguf.quants.dequantize(gguf.quants.quantize(values, kind), kind))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return np.concatenate([np.asarray(e, np.float32).reshape(-1) for e in expected])


def model(rng):
    def matrix(rows, columns):
        return rng.standard_normal((rows, columns)).astype(np.float32)

    tensors = [("token_embd.weight", matrix(VOCABULARY, HIDDEN))]
    for i in range(LAYERS):
        tensors += [(f"blk.{i}.attn_norm.weight", matrix(1, HIDDEN)[0]),
                    (f"blk.{i}.ffn_norm.weight", matrix(1, HIDDEN)[0]),
                    (f"blk.{i}.attn_q.weight", matrix(HEADS * HEAD_DIM, HIDDEN)),
                    (f"blk.{i}.attn_k.weight", matrix(KV_HEADS * HEAD_DIM, HIDDEN)),
                    (f"blk.{i}.attn_v.weight", matrix(KV_HEADS * HEAD_DIM, HIDDEN)),
                    (f"blk.{i}.attn_output.weight", matrix(HIDDEN, HEADS * HEAD_DIM)),
                    (f"blk.{i}.ffn_gate.weight", matrix(INTERMEDIATE, HIDDEN)),
                    (f"blk.{i}.ffn_up.weight", matrix(INTERMEDIATE, HIDDEN)),
                    (f"blk.{i}.ffn_down.weight", matrix(HIDDEN, INTERMEDIATE))]
    return tensors + [("output_norm.weight", matrix(1, HIDDEN)[0]),
                      ("output.weight", matrix(VOCABULARY, HIDDEN))]


def main():
    probe = sys.argv[1]
    rng = np.random.default_rng(5)
    with tempfile.TemporaryDirectory() as folder:
        for name in ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]:
            for tied in (False, True):
                path, out = str(Path(folder, "model.gguf")), Path(folder, "values")
                expected = write(path, gguf.GGMLQuantizationType[name], model(rng), tied)
                subprocess.check_call([probe, path, out])
                ours = np.fromfile(out, np.float32)
                assert np.array_equal(ours.view(np.uint32), expected.view(np.uint32)), (name, tied)
            print(f"{name}: equal")


main()

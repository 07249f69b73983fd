#!/usr/bin/env python3
"""A model of random weights as a Hugging Face folder, to measure shapes without their checkpoints.

    synthetic_model.py FOLDER [--shape llama-3.2-1b] [--context 131072]

bf16 safetensors, normal weights of deviation hidden^-0.5 (down and output projections smaller by the square root of
twice the layers, as models are initialised), and a byte-level tokenizer of 256 tokens; the other rows of the vocabulary
are padding. Needs numpy.
"""
import argparse
import json
import pathlib
import struct

import numpy as np

SHAPES = {
    "llama-3.2-1b": dict(layers=16, hidden=2048, heads=32, kv_heads=8, head_dim=64, intermediate=8192, vocab=128256,
                         tied=True, theta=500000.0),
    "smollm2-135m": dict(layers=30, hidden=576, heads=9, kv_heads=3, head_dim=64, intermediate=1536, vocab=49152,
                         tied=True, theta=100000.0),
}


def tensors(s):
    """(name, shape, deviation; 0 for norms, which are one), in the order of the file."""
    plain, last = s["hidden"] ** -0.5, (2 * s["layers"] * s["hidden"]) ** -0.5
    q, kv = s["heads"] * s["head_dim"], s["kv_heads"] * s["head_dim"]
    yield "model.embed_tokens.weight", (s["vocab"], s["hidden"]), plain
    for i in range(s["layers"]):
        prefix = f"model.layers.{i}."
        yield prefix + "input_layernorm.weight", (s["hidden"],), 0
        yield prefix + "self_attn.q_proj.weight", (q, s["hidden"]), plain
        yield prefix + "self_attn.k_proj.weight", (kv, s["hidden"]), plain
        yield prefix + "self_attn.v_proj.weight", (kv, s["hidden"]), plain
        yield prefix + "self_attn.o_proj.weight", (s["hidden"], q), last
        yield prefix + "post_attention_layernorm.weight", (s["hidden"],), 0
        yield prefix + "mlp.gate_proj.weight", (s["intermediate"], s["hidden"]), plain
        yield prefix + "mlp.up_proj.weight", (s["intermediate"], s["hidden"]), plain
        yield prefix + "mlp.down_proj.weight", (s["hidden"], s["intermediate"]), last
    yield "model.norm.weight", (s["hidden"],), 0
    if not s["tied"]:
        yield "lm_head.weight", (s["vocab"], s["hidden"]), plain


def bfloat16(values):
    return (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype("<u2")


def write_weights(path, shape, random):
    header, end = {}, 0
    for name, size, _ in tensors(shape):
        begin, end = end, end + 2 * int(np.prod(size))
        header[name] = {"dtype": "BF16", "shape": size, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, size, deviation in tensors(shape):
            rows = 1 if len(size) == 1 else size[0]
            for first in range(0, rows, 4096):  # some rows at a time: the numbers are f32
                part = (min(4096, rows - first), size[-1])
                values = np.ones(part) if deviation == 0 else random.standard_normal(part, np.float32) * deviation
                file.write(bfloat16(values).tobytes())


def config(s, context):
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": s["vocab"],
            "hidden_size": s["hidden"], "intermediate_size": s["intermediate"], "num_hidden_layers": s["layers"],
            "num_attention_heads": s["heads"], "num_key_value_heads": s["kv_heads"], "head_dim": s["head_dim"],
            "max_position_embeddings": context, "rms_norm_eps": 1e-5, "rope_theta": s["theta"], "hidden_act": "silu",
            "tie_word_embeddings": s["tied"], "torch_dtype": "bfloat16"}


def byte_alphabet():
    """GPT-2's character for every byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    codes = {**{byte: byte for byte in printable}, **{byte: 256 + i for i, byte in enumerate(others)}}
    return [chr(codes[byte]) for byte in range(256)]


def tokenizer():
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            "post_processor": None,
            "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                      "vocab": {character: i for i, character in enumerate(byte_alphabet())}, "merges": []}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--shape", choices=SHAPES, default="llama-3.2-1b")
    parser.add_argument("--context", type=int, default=131072)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    shape = SHAPES[args.shape]
    (args.folder / "config.json").write_text(json.dumps(config(shape, args.context), indent=1))
    (args.folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
    write_weights(args.folder / "model.safetensors", shape, np.random.default_rng(1))


if __name__ == "__main__":
    main()

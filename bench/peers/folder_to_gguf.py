#!/usr/bin/env python3
"""A Llama model in a Hugging Face folder (one bf16 safetensors file) as a GGUF file for llama.cpp, without vocabulary.

    folder_to_gguf.py FOLDER FILE.gguf

Rows of the query and key projections are reordered as llama.cpp pairs channels. Needs numpy and gguf.
"""
import json
import pathlib
import struct
import sys

import gguf
import numpy as np

NAMES = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
OUTER = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
         "lm_head.weight": "output.weight"}


def tensors(path):
    """(name, bf16 bits), mapped."""
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            yield name, np.memmap(path, "<u2", "r", 8 + size + begin, tuple(entry["shape"]))


def interleave(rows, heads):
    """From halves of a head one after the other to pairs of channels side by side."""
    return rows.reshape(heads, 2, -1, rows.shape[-1]).swapaxes(1, 2).reshape(rows.shape)


def write(writer, config):
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("no_vocab")


def main():
    folder, target = pathlib.Path(sys.argv[1]), sys.argv[2]
    config = json.loads((folder / "config.json").read_text())
    writer = gguf.GGUFWriter(target, "llama", use_temp_file=False)
    write(writer, config)
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    for name, bits in tensors(folder / "model.safetensors"):
        if name in OUTER:
            target_name = OUTER[name]
        else:
            _, _, layer, part = name.removesuffix(".weight").split(".", 3)
            kind = NAMES[part]
            target_name = f"blk.{layer}.{kind}.weight"
            if kind in heads:
                bits = interleave(bits, heads[kind])
        if bits.ndim == 1:  # norms are f32 in GGUF
            writer.add_tensor(target_name, (bits.astype("<u4") << 16).view("<f4"))
        else:
            writer.add_tensor(target_name, np.ascontiguousarray(bits).view(np.uint8),
                              raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()

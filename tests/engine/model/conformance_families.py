#!/usr/bin/env python3
"""Logits of every family and kind of RoPE against transformers, in f32 with the exact cache in f32.

    conformance_families.py PROBE

Tiny random models, saved by transformers (single or sharded safetensors; F32, F16 or BF16) and, where llama.cpp
has the architecture and the scaling, written once more as GGUF by the gguf package in the order of llama.cpp's
converters: logits from both files are the same. Weights are scaled so that attention is far from uniform.
"""
import pathlib
import subprocess
import sys
import tempfile
import warnings

import gguf
import numpy
import torch
import transformers

POSITIONS = 384
TOLERANCE = 1e-4  # of the largest logit: some hundred roundings of 2^-24 on the way, theirs as well
MARGIN = 2e-4     # where the top two differ by more (of the largest), both must agree on the first

SHAPE = dict(vocab_size=203, hidden_size=96, intermediate_size=160, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=512, rms_norm_eps=1e-5, tie_word_embeddings=False)
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=128)


def plain(theta=10000.0):
    return dict(rope_type="default", rope_theta=theta)


def cases():
    llama, mistral, qwen2 = transformers.LlamaConfig, transformers.MistralConfig, transformers.Qwen2Config
    yield "llama", llama, dict(rope_parameters=plain()), {}
    yield "llama mha tied bf16", llama, dict(rope_parameters=plain(500000.0), num_key_value_heads=4,
                                             tie_word_embeddings=True), dict(dtype=torch.bfloat16)
    yield "llama head_dim sharded", llama, dict(rope_parameters=plain(), head_dim=32), dict(shard="60KB")
    yield "llama biases f16", llama, dict(rope_parameters=plain(), attention_bias=True), dict(dtype=torch.float16)
    yield "llama3 scaling", llama, dict(rope_parameters=LLAMA3), {}
    yield "linear", llama, dict(rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=4.0)), {}
    yield "dynamic within", llama, dict(rope_parameters=dict(rope_type="dynamic", rope_theta=10000.0, factor=2.0)), {}
    yield "dynamic beyond", llama, dict(max_position_embeddings=200, rope_parameters=dict(
        rope_type="dynamic", rope_theta=10000.0, factor=4.0)), dict(stepwise=True)
    yield "yarn", llama, dict(rope_parameters=YARN), {}
    yield "yarn attention_factor", llama, dict(rope_parameters=dict(YARN, attention_factor=1.25, beta_fast=16.0,
                                                                    beta_slow=2.0)), {}
    yield "yarn mscale", llama, dict(rope_parameters=dict(YARN, mscale=0.7, mscale_all_dim=0.4, truncate=False)), {}
    yield "mistral window", mistral, dict(rope_parameters=plain(), head_dim=32, sliding_window=50), {}
    yield "mistral no window sharded bf16", mistral, dict(rope_parameters=plain(1e6), sliding_window=None), dict(
        shard="60KB", dtype=torch.bfloat16)
    yield "qwen2 tied", qwen2, dict(rope_parameters=plain(1e6), tie_word_embeddings=True), {}
    yield "qwen2 untied sharded bf16", qwen2, dict(rope_parameters=plain(1e6)), dict(shard="60KB",
                                                                                    dtype=torch.bfloat16)
    yield "qwen2 windows in some layers", qwen2, dict(rope_parameters=plain(), use_sliding_window=True,
                                                      sliding_window=40, max_window_layers=1), {}
    yield "qwen2 yarn", qwen2, dict(rope_parameters=YARN), {}


def make(config_class, settings):
    config = config_class(**{**SHAPE, **settings})
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            noise = torch.randn(tensor.shape, generator=generator)
            if "norm" in name:
                tensor.copy_(1 + 0.1 * noise)
            elif name.endswith("bias") or "embed" in name:
                tensor.copy_(noise if name.endswith("bias") else 0.5 * noise)
            else:
                tensor.copy_(1.5 * noise / tensor.shape[1] ** 0.5)
    return model.eval()


def reference(folder, tokens, stepwise):
    """Of the model as saved, in f32. Stepwise: one token at a time, since dynamic scaling depends on the length."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    ids = torch.from_numpy(tokens.astype(numpy.int64))[None]
    with torch.no_grad():
        if not stepwise:
            return model(ids).logits[0].numpy()
        cache, rows = transformers.DynamicCache(), []
        for i in range(ids.shape[1]):
            out = model(ids[:, i:i + 1], past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            rows.append(out.logits[0, 0].numpy())
        return numpy.stack(rows)


def permute(weights, heads):
    """Hugging Face's row order to llama.cpp's, as its converter does it."""
    return (weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:])
            .swapaxes(1, 2).reshape(weights.shape))


def llama3_divisors(rope, head_dim):
    """rope_freqs.weight, as llama.cpp's converter computes it."""
    divisors = []
    for i in range(0, head_dim, 2):
        wavelength = 2 * numpy.pi * rope["rope_theta"] ** (i / head_dim)
        original, low, high = (rope[k] for k in ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor"))
        if wavelength < original / high:
            divisors.append(1.0)
        elif wavelength > original / low:
            divisors.append(rope["factor"])
        else:
            smooth = (original / wavelength - low) / (high - low)
            divisors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return numpy.array(divisors, dtype=numpy.float32)


def write_gguf(path, model):
    """False where GGUF has no such thing."""
    config, rope = model.config, dict(model.config.rope_parameters)
    kind = "qwen2" if config.model_type == "qwen2" else "llama"
    if rope["rope_type"] == "dynamic" or "mscale" in rope or "attention_factor" in rope:
        return False
    if kind == "qwen2" and config.use_sliding_window:
        return False
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer = gguf.GGUFWriter(path, kind)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(rope["rope_theta"])
    if getattr(config, "sliding_window", None):
        writer.add_sliding_window(config.sliding_window)
    if rope["rope_type"] in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if rope["rope_type"] == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_divisors(rope, head_dim))
    names = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
             "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
             "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
    for name, tensor in model.state_dict().items():
        values = tensor.to(torch.float32).numpy()
        if name.startswith("model.layers."):
            _, _, layer, rest = name.split(".", 3)
            theirs, ending = rest.rsplit(".", 1)
            heads = {"self_attn.q_proj": config.num_attention_heads, "self_attn.k_proj": config.num_key_value_heads}
            if kind == "llama" and theirs in heads:
                values = permute(values, heads[theirs])
            writer.add_tensor(f"blk.{layer}.{names[theirs]}.{ending}", numpy.ascontiguousarray(values))
        elif name == "lm_head.weight":
            if not config.tie_word_embeddings:
                writer.add_tensor("output.weight", values)
        else:
            writer.add_tensor({"model.embed_tokens.weight": "token_embd.weight",
                               "model.norm.weight": "output_norm.weight"}[name], values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return True


def ours(probe, model, folder, tokens):
    ids, out = pathlib.Path(folder, "tokens"), pathlib.Path(folder, "logits")
    tokens.tofile(ids)
    done = subprocess.run([probe, model, "f32", ids, out], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return numpy.fromfile(out, dtype=numpy.float32).reshape(len(tokens), -1)


def main():
    torch.set_num_threads(2)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    warnings.simplefilter("ignore", FutureWarning)
    random = numpy.random.default_rng(7)
    # Words of random ids that recur, so that attention has work to do.
    words = random.integers(0, SHAPE["vocab_size"], size=(40, 3))
    tokens = words[random.integers(0, 40, size=POSITIONS)].reshape(-1)[:POSITIONS].astype(numpy.int32)
    bad = []
    for name, config_class, settings, save in cases():
        with tempfile.TemporaryDirectory() as folder:
            saved = pathlib.Path(folder, "saved")
            model = make(config_class, settings).to(save.get("dtype", torch.float32))
            model.save_pretrained(saved, max_shard_size=save.get("shard", "5GB"))
            shards = len(list(saved.glob("*.safetensors")))
            assert (shards > 1) == ("shard" in save), shards
            theirs = reference(saved, tokens, save.get("stepwise", False))
            mine = ours(sys.argv[1], saved, folder, tokens)
            difference = numpy.abs(mine - theirs).max() / max(1.0, numpy.abs(theirs).max())
            top = numpy.sort(theirs, axis=1)[:, -2:]
            clear = top[:, 1] - top[:, 0] > MARGIN * max(1.0, numpy.abs(theirs).max())
            agree = (mine.argmax(1) == theirs.argmax(1))[clear]
            same = "-"
            path = pathlib.Path(folder, "model.gguf")
            if write_gguf(str(path), model):
                same = numpy.abs(ours(sys.argv[1], path, folder, tokens) - mine).max()
            ok = difference <= TOLERANCE and agree.all() and (same == "-" or same <= 1e-5 * max(1.0, numpy.abs(mine).max()))
            print(f"{'ok ' if ok else 'BAD'} {name}: {shards} file(s), max |difference| {difference:.2g} of logits up to "
                  f"{numpy.abs(theirs).max():.3g}; first token agrees in {agree.sum()} of {agree.size}; GGUF {same}",
                  flush=True)
            if not ok:
                bad.append(name)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

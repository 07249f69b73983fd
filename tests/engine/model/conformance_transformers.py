#!/usr/bin/env python3
"""Logits of the engine against transformers, in f32 with the exact cache in f32.

    conformance_transformers.py PROBE [MODEL]

Builds a LlamaForCausalLM from the GGUF file's own metadata and tensors, dequantised by the gguf
package, and compares 512 positions. Skips (exit code 77) where there is no model.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

POSITIONS = 512
TOLERANCE = 2e-3
MARGIN = 4e-3  # where the top two differ by more, both must agree on the first


def find_model(arguments):
    here = pathlib.Path(__file__).resolve().parents[3]
    named = arguments[2:] + [os.environ.get("DGAP_TEST_MODEL", "")]
    candidates = [pathlib.Path(name) for name in named if name] + sorted((here / "models").glob("**/*.gguf"))
    return next((path for path in candidates if path.is_file()), None)


def reference_logits(path, tokens):
    import gguf
    import numpy
    import torch
    import transformers

    reader = gguf.GGUFReader(path)
    def field(key):
        return reader.get_field(key).contents()
    heads, kv_heads = field("llama.attention.head_count"), field("llama.attention.head_count_kv")
    tensors = {t.name: gguf.dequantize(t.data, t.tensor_type).reshape(t.shape[::-1]) for t in reader.tensors}
    config = transformers.LlamaConfig(
        vocab_size=tensors["token_embd.weight"].shape[0], hidden_size=field("llama.embedding_length"),
        intermediate_size=field("llama.feed_forward_length"), num_hidden_layers=field("llama.block_count"),
        num_attention_heads=heads, num_key_value_heads=kv_heads,
        max_position_embeddings=field("llama.context_length"), rope_theta=field("llama.rope.freq_base"),
        rms_norm_eps=field("llama.attention.layer_norm_rms_epsilon"),
        tie_word_embeddings="output.weight" not in tensors)

    def hugging_face_rows(matrix, head_count):  # the file interleaves the halves that RoPE pairs
        rows, columns = matrix.shape
        return matrix.reshape(head_count, rows // head_count // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)

    state = {"model.embed_tokens.weight": tensors["token_embd.weight"], "model.norm.weight": tensors["output_norm.weight"]}
    state["lm_head.weight"] = tensors.get("output.weight", tensors["token_embd.weight"])
    names = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
             "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
             "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
    for layer in range(config.num_hidden_layers):
        for ours, theirs in names.items():
            matrix = tensors[f"blk.{layer}.{ours}.weight"]
            if ours in ("attn_q", "attn_k"):
                matrix = hugging_face_rows(matrix, heads if ours == "attn_q" else kv_heads)
            state[f"model.layers.{layer}.{theirs}.weight"] = matrix
    torch.set_num_threads(2)
    model = transformers.LlamaForCausalLM(config).to(torch.float32).eval()
    missing, unexpected = model.load_state_dict(
        {name: torch.from_numpy(numpy.array(value, dtype=numpy.float32)) for name, value in state.items()}, strict=False)
    assert not unexpected and all("rotary" in name for name in missing), (missing, unexpected)
    with torch.no_grad():
        return model(torch.from_numpy(tokens.astype(numpy.int64))[None]).logits[0].numpy()


def main():
    model = find_model(sys.argv)
    if model is None:
        print("no model: set DGAP_TEST_MODEL")
        return 77
    import numpy
    vocabulary = 49152
    # A text of its own making: words of random ids that recur, so that attention has work to do.
    random = numpy.random.default_rng(7)
    words = random.integers(1000, vocabulary, size=(60, 3))
    tokens = words[random.integers(0, 60, size=POSITIONS)].reshape(-1)[:POSITIONS].astype(numpy.int32)
    with tempfile.TemporaryDirectory() as folder:
        ids, out = pathlib.Path(folder, "tokens"), pathlib.Path(folder, "logits")
        tokens.tofile(ids)
        print(subprocess.run([sys.argv[1], model, "f32", ids, out], check=True, capture_output=True, text=True).stdout)
        ours = numpy.fromfile(out, dtype=numpy.float32).reshape(POSITIONS, -1)
    theirs = reference_logits(model, tokens)
    difference = numpy.abs(ours - theirs).max()
    top = numpy.sort(theirs, axis=1)[:, -2:]
    clear = top[:, 1] - top[:, 0] > MARGIN
    agree = (ours.argmax(1) == theirs.argmax(1))[clear]
    print(f"max |difference| {difference:.3g} over {ours.size} logits; first token agrees in {agree.sum()} of {agree.size}")
    return 0 if difference <= TOLERANCE and agree.all() else 1


if __name__ == "__main__":
    sys.exit(main())

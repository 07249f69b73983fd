"""What the PyTorch peers share: the model, its threads and the ids to decode."""
import pathlib

import torch
from transformers import AutoModelForCausalLM


def add_arguments(parser, context, steps):
    parser.add_argument("--model", required=True)
    parser.add_argument("--tokens", required=True)
    parser.add_argument("--context", type=int, default=context)
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--threads", type=int, default=2)


def open_model(args):
    """The model of a GGUF file or a Hugging Face folder in bf16, and the first context + steps ids of a text file."""
    torch.set_num_threads(args.threads)
    path = pathlib.Path(args.model)
    folder, gguf_file = (path, None) if path.is_dir() else (path.parent, path.name)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=gguf_file, dtype=torch.bfloat16).eval()
    ids = torch.tensor([int(t) for t in open(args.tokens).read().split()])[: args.context + args.steps]
    return model, ids

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
    """A GGUF file's model in bf16, and the first context + steps ids of a text file."""
    torch.set_num_threads(args.threads)
    path = pathlib.Path(args.model)
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.bfloat16).eval()
    ids = torch.tensor([int(t) for t in open(args.tokens).read().split()])[: args.context + args.steps]
    return model, ids

#!/usr/bin/env python3
"""Training of a corrector against PyTorch on the CPU: the same traces, batches, epochs, network, loss and optimiser.

    corrector_vs_torch.py --ours BUILD/bench/corrector_speed --config CONFIG --precision P [--threads N] [--compile]

CONFIG is that of a run whose traces and windows.json are there, with the objective `extended`, an mlp and full
windows. PyTorch gets the standardised inputs ready-made in memory, in f32; ours computes them anew for every batch.
Prints one JSON object with both times (best of two runs; compilation not counted) and final validation losses.
"""
import argparse
import json
import math
import pathlib
import subprocess
import tempfile
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

HIDDEN, RATE, DECAY, RANK, REG = (64, 32), 2e-3, 0.01, 1e-3, 1e-4  # the configuration's defaults


def load(folder, window):
    read = lambda name, kind, *shape: torch.from_numpy(np.fromfile(folder / name, kind).reshape(-1, *shape))
    data = {name: read(name, "<f4", window) for name in ("z", "target", "ranked_p")}
    data["phi"] = read("phi", "<f4", 20)
    data["own"] = read("own", "<f4", window, (folder / "own").stat().st_size // 4 // data["z"].numel())
    data["ranked"] = read("ranked", "<i4", window).long()
    data["tail"] = read("tail", "<f8", 3)
    return data


def network(inputs):
    widths = (inputs, *HIDDEN, 1)
    layers = []
    for i, (a, b) in enumerate(zip(widths, widths[1:])):
        layers += ([nn.GELU("tanh")] if i else []) + [nn.Linear(a, b)]
    for layer in layers[::2]:
        bound = math.sqrt(3 / layer.in_features)
        nn.init.uniform_(layer.weight, -bound, bound)
        nn.init.zeros_(layer.bias)
    nn.init.zeros_(layers[-1].weight)
    return nn.Sequential(*layers)


class Corrector(nn.Module):
    def __init__(self, own):
        super().__init__()
        self.shape, self.mass = network(20 + own), network(20)

    def forward(self, b):
        """Loss of the batch, and its divergence alone (means)."""
        k = b["z"].shape[1]
        delta = self.shape(torch.cat([b["phi"][:, None].expand(-1, k, -1), b["own"]], -1))[..., 0]
        z = b["z"] + (delta + self.mass(b["phi"]))
        tail_p, tail_z, entropy = b["tail"].unbind(1)
        p = torch.cat([b["target"].double(), tail_p[:, None]], 1)
        log_q = F.log_softmax(torch.cat([z.double(), tail_z[:, None]], 1), -1)
        kl = (entropy - (p * log_q).sum(1)).mean()
        y = z.gather(1, b["ranked"])
        pairs = (b["ranked_p"][:, :, None] - b["ranked_p"][:, None, :]).clamp_min(0)
        ranking = (pairs * F.softplus(y[:, None, :] - y[:, :, None])).sum((1, 2)).mean()
        return kl + RANK * ranking + REG * (delta**2).sum(1).mean(), kl

    def divergence(self, b):
        k = b["z"].shape[1]
        delta = self.shape(torch.cat([b["phi"][:, None].expand(-1, k, -1), b["own"]], -1))[..., 0]
        z = b["z"] + (delta + self.mass(b["phi"]))
        tail_p, tail_z, entropy = b["tail"].unbind(1)
        p = torch.cat([b["target"].double(), tail_p[:, None]], 1)
        return (entropy - (p * F.log_softmax(torch.cat([z.double(), tail_z[:, None]], 1), -1)).sum(1)).sum()


def train(data, validation, epochs, batch, compiled):
    torch.manual_seed(1)
    model = Corrector(data["own"].shape[2])
    loss_of, divergence = model, model.divergence
    if compiled:
        loss_of, divergence = torch.compile(model, dynamic=False), torch.compile(model.divergence, dynamic=False)
    weights = [p for n, p in model.named_parameters() if n.endswith("weight")]
    biases = [p for n, p in model.named_parameters() if n.endswith("bias")]
    optimiser = torch.optim.AdamW([{"params": weights, "weight_decay": DECAY}, {"params": biases, "weight_decay": 0}],
                                  lr=RATE, fused=True)
    steps = len(data["z"])
    updates = epochs * -(-steps // batch)
    warm = max(1, updates // 20)
    take = lambda d, i: {name: x[i] for name, x in d.items()}

    def epoch(update, learn=True):
        for chosen in torch.randperm(steps).split(batch):
            rate = update / warm if update < warm else 0.5 * (1 + math.cos(math.pi * (update - warm) / (updates - warm)))
            for group in optimiser.param_groups:
                group["lr"] = RATE * rate if learn else 0.0
            loss, _ = loss_of(take(data, chosen))
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            if learn:
                optimiser.step()
            update += 1
        with torch.no_grad():
            total = sum(divergence(take(validation, i)) for i in torch.arange(len(validation["z"])).split(batch))
        return update, total.item() / len(validation["z"])

    if compiled:
        epoch(0, learn=False)  # compiles for both sizes of batch
    begin, update = time.perf_counter(), 0
    for _ in range(epochs):
        update, loss = epoch(update)
    return time.perf_counter() - begin, loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ours", required=True)
    parser.add_argument("--config", required=True)
    parser.add_argument("--precision", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as name:
        answer = subprocess.run([args.ours, args.config, args.precision, str(args.threads), name], check=True,
                                capture_output=True, text=True).stdout
        ours = json.loads(answer)
        data, validation = (load(pathlib.Path(name) / split, ours["window"]) for split in ("train", "validation"))
        seconds, loss = train(data, validation, ours["epochs"], ours["batch"], args.compile)
    print(json.dumps({"ours": ours, "torch": {"version": torch.__version__, "compile": args.compile,
                                              "seconds": round(seconds, 3), "final_validation_loss": round(loss, 6)},
                      "ratio": round(seconds / ours["seconds"], 2)}))


if __name__ == "__main__":
    main()

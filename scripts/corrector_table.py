"""Markdown table of the figures that scripts/compare-correctors kept: corrector_table.py FOLDER"""
import json
import pathlib
import sys

folder = pathlib.Path(sys.argv[1])


def loss_spread(corrector):
    """Validation losses of the seeds: largest less smallest, in per cent of the untrained one."""
    figures = corrector["figures"]
    losses = figures["seed_losses"]
    if len(losses) < 2:
        return ""
    return f"{100 * (max(losses) - min(losses)) / figures['initial_validation_loss']:.2f} %"


for name in json.loads(next(iter(sorted(folder.glob("*.json")))).read_text())["precisions"]:
    print(f"\n{name}\n")
    print("| corrector | bundle | KL | top-1 | drift | perplexity | share of the gap | as served | seeds |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    before = None
    for file in sorted(folder.glob("*.json"), key=lambda f: f.stat().st_mtime):
        figures = json.loads(file.read_text())["precisions"][name]
        corrector = json.loads((folder / file.stem / f"{name}.json").read_text())
        size = (folder / file.stem / f"{name}.safetensors").stat().st_size
        row = lambda f: (f"{f['kl']:.4f}", f"{f['top1_agreement']:.3f}", f"{f['drift']:.4f}", f"{f['perplexity']:.1f}")
        quantised, always, oracle = figures["quantized"], figures["restored_always"], figures["oracle_all"]
        if before is None:
            before = row(quantised)
            print("| (none) | |", " | ".join(before), "| | | |")
            print("| (ceiling) | |", " | ".join(row(oracle)), "| 100 % | | |")
        closed = (quantised["kl"] - always["kl"]) / (quantised["kl"] - oracle["kl"])
        served = (quantised["kl"] - figures["restored"]["kl"]) / (quantised["kl"] - oracle["kl"])
        print(f"| {file.stem} | {size / 1024:,.0f} KiB |", " | ".join(row(always)),
              f"| {100 * closed:.1f} % | {100 * served:.1f} % | {loss_spread(corrector)} |")

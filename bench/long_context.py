#!/usr/bin/env python3
"""Time and memory of a unit (exact prefill, forks, teacher-forced steps with four schemes) against context.

    long_context.py --model FOLDER [--contexts 4096 8192 16384 32768 65536] [--steps 256] [--svg docs/long-contexts.svg]

Fits seconds = a * n + b * n^2 to the prefills and c + d * n to the decodes: products with the weights grow with the
tokens, attention with the pairs of tokens. Needs numpy, the `bench` preset, and a model whose context is long enough
(bench/synthetic_model.py). Prints one JSON object.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

import numpy as np

SCHEMES = ["K2V2", "uniform-K1V1", "K1V1", "K4V4"]
WIDTH, HEIGHT, LEFT, BOTTOM = 560, 320, 60, 40


def fit(x, columns, y):
    """Least squares of relative errors, so that short contexts count as much as long ones."""
    terms = np.stack([column(x) for column in columns], 1) / y[:, None]
    return np.linalg.lstsq(terms, np.ones(len(y)), rcond=None)[0]


def measure(args, ids, context):
    command = [f"{args.build}/bench/collector_speed", args.model, ids, context, args.steps, args.block, *SCHEMES]
    return json.loads(subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout)


def svg(n, prefill, decode, model):
    """Both axes logarithmic; dots are measured, lines the fits."""
    lines = np.geomspace(n.min(), n.max(), 60)
    top, low = max(prefill.max(), decode.max()) * 1.5, min(prefill.min(), decode.min()) / 1.5
    x = lambda v: LEFT + (WIDTH - LEFT - 20) * np.log(v / n.min()) / np.log(n.max() / n.min())
    y = lambda v: HEIGHT - BOTTOM - (HEIGHT - BOTTOM - 20) * np.log(v / low) / np.log(top / low)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
           'font-size="12">', f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for v in n:
        out.append(f'<text x="{x(v):.1f}" y="{HEIGHT - 20}" text-anchor="middle">{v // 1024}K</text>')
    for v in 10.0 ** np.arange(np.ceil(np.log10(low)), np.log10(top)):
        out.append(f'<path d="M{LEFT} {y(v):.1f}H{WIDTH - 20}" stroke="#ddd"/>'
                   f'<text x="{LEFT - 6}" y="{y(v) + 4:.1f}" text-anchor="end">{v:g} s</text>')
    for name, colour, values, curve in (("prefill", "#1f77b4", prefill, model["prefill"]),
                                        ("steps", "#d62728", decode, model["decode"])):
        path = " ".join(f"{x(v):.1f},{y(curve(v)):.1f}" for v in lines)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}"/>')
        out += [f'<circle cx="{x(v):.1f}" cy="{y(t):.1f}" r="4" fill="{colour}"/>' for v, t in zip(n, values)]
        out.append(f'<text x="{LEFT + 12}" y="{y(values[0]) - 10:.1f}" fill="{colour}">{name}</text>')
    out.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 4}" text-anchor="middle">tokens of context</text></svg>')
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--contexts", type=int, nargs="+", default=[4096, 8192, 16384, 32768, 65536])
    parser.add_argument("--steps", type=int, default=256)
    parser.add_argument("--block", type=int, default=128)
    parser.add_argument("--build", default="build/bench")
    parser.add_argument("--svg", type=pathlib.Path)
    args = parser.parse_args()
    rows = []
    with tempfile.NamedTemporaryFile("w", suffix=".ids") as file:
        ids = np.random.default_rng(1).integers(0, 256, max(args.contexts) + args.steps)
        file.write(" ".join(map(str, ids)))
        file.flush()
        for context in args.contexts:
            rows.append(measure(args, file.name, context))
            print(json.dumps(rows[-1]), flush=True)
    n = np.array(args.contexts, float)
    prefill, decode = (np.array([row[key] for row in rows]) for key in ("prefill_and_fork_seconds", "decode_seconds"))
    a, b = fit(n, [lambda x: x, lambda x: x * x], prefill)
    c, d = fit(n, [np.ones_like, lambda x: x], decode)
    model = {"prefill": lambda x: a * x + b * x * x, "decode": lambda x: c + d * x}
    print(json.dumps({"prefill_seconds": f"{a:.3e} n + {b:.3e} n^2", "decode_seconds": f"{c:.3e} + {d:.3e} n",
                      "largest_error": {"prefill": float(np.abs(model["prefill"](n) / prefill - 1).max()),
                                        "decode": float(np.abs(model["decode"](n) / decode - 1).max())}}))
    if args.svg:
        args.svg.write_text(svg(n.astype(int), prefill, decode, model))


if __name__ == "__main__":
    main()

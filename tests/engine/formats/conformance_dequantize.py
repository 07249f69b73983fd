"""Dequantised values against the gguf package, bit for bit, for every type, on random blocks.

Usage: conformance_dequantize.py PROBE
"""
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np

TYPES = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K",
         "Q4_K", "Q5_K", "Q6_K", "IQ4_NL"]
# Bytes of a block at which its half-precision scales lie; every other byte may be anything.
SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
          "Q2_K": [80, 82], "Q3_K": [108], "IQ4_NL": [0], "Q4_K": [0, 2],
          "Q5_K": [0, 2], "Q6_K": [208]}


def random_blocks(name, rng, count):
    block, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
    if block == 1:
        return rng.standard_normal(count).astype(np.float32).view(np.uint8)[:count * size].copy()
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for at in SCALES[name]:
        # Finite halves of all magnitudes, subnormal ones among them.
        bits = rng.integers(0, 0x7C00, count).astype(np.uint16) | (rng.integers(0, 2, count) << 15).astype(np.uint16)
        blocks[:, at:at + 2] = bits.view(np.uint8).reshape(count, 2)
    return blocks.reshape(-1)


def main():
    probe = sys.argv[1]
    rng = np.random.default_rng(11)
    with tempfile.TemporaryDirectory() as folder:
        for name in TYPES:
            kind = gguf.GGMLQuantizationType[name]
            data = random_blocks(name, rng, 4096)
            source, target = Path(folder, "blocks"), Path(folder, "values")
            source.write_bytes(data.tobytes())
            subprocess.check_call([probe, str(int(kind)), source, target])
            ours = np.fromfile(target, np.float32)
            with np.errstate(over="ignore", invalid="ignore"):
                theirs = gguf.quants.dequantize(data, kind).reshape(-1).astype(np.float32)
            assert ours.size == theirs.size, (name, ours.size, theirs.size)
            # NaN has many bit patterns; numbers have one.
            same = (ours.view(np.uint32) == theirs.view(np.uint32)) | (np.isnan(ours) & np.isnan(theirs))
            assert same.all(), (name, int((~same).sum()), ours[~same][:4], theirs[~same][:4])
            print(f"{name}: {ours.size} values equal")


main()

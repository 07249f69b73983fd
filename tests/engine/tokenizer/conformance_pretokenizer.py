"""Pieces against Hugging Face's pre-tokenizers, for every pattern and characters of every kind.

Usage: conformance_pretokenizer.py PROBE

Characters are those of Unicode 3.2 whose category has not changed since: the two sides are built with
different later versions.
"""
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path

import numpy as np
from tokenizers import Regex, pre_tokenizers as pre


def tiktoken_like(numbers):
    pattern = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|" + numbers +
               r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    return pre.Sequence([pre.Split(Regex(pattern), "isolated", False),
                         pre.ByteLevel(add_prefix_space=False, use_regex=False)])


GPT2 = pre.ByteLevel(add_prefix_space=False)
REFERENCES = {"gpt-2": GPT2, "smollm": pre.Sequence([pre.Digits(individual_digits=True), GPT2]),
              "llama-bpe": tiktoken_like(r"\p{N}{1,3}"), "qwen2": tiktoken_like(r"\p{N}")}


def characters():
    old = unicodedata.ucd_3_2_0
    for code in range(1, 0x110000):
        c = chr(code)
        category = unicodedata.category(c)
        if category in ("Cs", "Cn", "Co") or category != old.category(c):
            continue
        if category == "Lo" and code > 0x3400 and code % 16:
            continue  # ideographs and Hangul are many and alike
        yield c


def main():
    probe = sys.argv[1]
    text = "".join(f"a{c}b {c} 1{c}2  {c}{c}\n{c}\n!{c}'{c}a\x01" for c in characters())
    text += "I'll WE'LL don't DON'T it\u017f'\u017f x=12345, a->b  \n\n  c\r\n\r\n 1984  1984. "
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "text"), Path(folder, "pieces")
        source.write_bytes(text.encode())
        for tag, reference in REFERENCES.items():
            subprocess.check_call([probe, tag, source, target])
            ours = np.fromfile(target, np.int32)
            # One character of a piece stands for one byte.
            theirs = np.array([len(piece) for piece, _ in reference.pre_tokenize_str(text)], np.int32)
            ends, expected = np.cumsum(ours), np.cumsum(theirs)
            wrong = np.setxor1d(ends, expected)
            assert not len(wrong), (tag, len(wrong), text.encode()[wrong[0] - 20:wrong[0] + 20])
            print(f"{tag}: {len(ours)} pieces equal")


main()

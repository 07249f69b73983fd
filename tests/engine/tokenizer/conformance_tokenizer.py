"""Ids against Hugging Face's tokenizers, built from the same GGUF metadata.

Usage: conformance_tokenizer.py PROBE

Random texts with a tiny model's tokenizer; whole books with a real one, where DGAP_TEST_MODEL names a
SmolLM2 GGUF file and DGAP_TEST_BOOKS text files or folders of them, separated as in PATH.
"""
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers


def hugging_face_tokenizer(path):
    fields = gguf.GGUFReader(path).fields

    def value(key):
        return fields["tokenizer.ggml." + key].contents()

    assert value("pre") == "smollm"
    vocabulary = {token: i for i, token in enumerate(value("tokens"))}
    merges = [tuple(line.split(" ")) for line in value("merges")]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False)])
    return tokenizer


def random_text(rng, length):
    words = ["the", " and", "other", " of", "\n", "  ", "1984", " 7", "'s", "!?", "\u00e9", " \u4e2d\u6587",
             "\U0001f642", "e\u0301", "\t", "\r\n", "\u00a0", "\u00bd", "inging", " there"]
    return "".join(rng.choice(words) if rng.random() < 0.9 else chr(rng.randrange(1, 0xD7FF))
                   for _ in range(length))


def compare(probe, model, output, files, tokenizer):
    print(subprocess.run([probe, model, output, *files], check=True, capture_output=True, text=True).stdout.strip())
    numbers = np.fromfile(output, np.int32)
    at = tokens = 0
    for file in files:
        count = int(numbers[at])
        ours = numbers[at + 1:at + 1 + count]
        at += 1 + count
        theirs = np.array(tokenizer.encode(Path(file).read_bytes().decode()).ids, np.int32)
        shared = min(len(ours), len(theirs))
        differ = np.flatnonzero(ours[:shared] != theirs[:shared])
        assert len(ours) == len(theirs) and not len(differ), (file, len(ours), len(theirs), differ[:1])
        tokens += count
    print(f"{len(files)} texts, {tokens} ids equal")


def main():
    probe = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        output = str(Path(folder, "ids"))
        subprocess.check_call([probe, "tiny", output], stdout=subprocess.DEVNULL)
        rng = random.Random(4)
        files = []
        for i in range(40):
            files.append(str(Path(folder, f"{i}.txt")))
            Path(files[-1]).write_bytes(random_text(rng, rng.randrange(1, 3000)).encode())
        compare(probe, output + ".gguf", output, files, hugging_face_tokenizer(output + ".gguf"))

        model, books = os.environ.get("DGAP_TEST_MODEL"), os.environ.get("DGAP_TEST_BOOKS")
        if not model or not books:
            print("no books compared: set DGAP_TEST_MODEL and DGAP_TEST_BOOKS")
            return
        paths = [Path(p) for p in books.split(os.pathsep)]
        files = sorted(str(f) for p in paths for f in (p.rglob("*.txt") if p.is_dir() else [p]))
        compare(probe, model, output, files, hugging_face_tokenizer(model))


main()

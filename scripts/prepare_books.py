#!/usr/bin/env python3
"""Turns the six Austen novels of the R package janeaustenr into a PG-19-shaped folder.

    prepare_books.py <R data folder> <output folder>

The package's lazy-load database (Rdata.rdb with its index Rdata.rdx) holds each novel as a vector
of hard-wrapped lines; wrapped lines are joined into paragraphs. Splits are by book. metadata.csv,
written last, has PG-19's columns: id, short title, publication year, url (a placeholder).
"""
import bz2
import csv
import gzip
import lzma
import pathlib
import re
import struct
import sys
import zlib

import rdata

BOOKS = [  # variable, Project Gutenberg's number, title, year, split
    ("emma", 158, "Emma", 1815, "train"),
    ("mansfieldpark", 141, "Mansfield Park", 1814, "train"),
    ("prideprejudice", 1342, "Pride and Prejudice", 1813, "train"),
    ("sensesensibility", 161, "Sense and Sensibility", 1811, "train"),
    ("northangerabbey", 121, "Northanger Abbey", 1817, "validation"),
    ("persuasion", 105, "Persuasion", 1817, "test"),
]


def load(data):
    return rdata.conversion.convert(rdata.parser.parse_data(data))


def decompress(block):
    """One entry of an .rdb file: 4 bytes of size, then zlib data, or a type letter and other data."""
    size = struct.unpack(">I", block[:4])[0]
    kind = block[4:5]
    if kind == b"2":
        data = bz2.decompress(block[5:])
    elif kind == b"Z":
        data = lzma.decompress(block[5:], format=lzma.FORMAT_RAW, filters=[{"id": lzma.FILTER_LZMA2, "preset": 6}])
    else:
        data = zlib.decompress(block[4:])
    if len(data) != size:
        raise SystemExit(f"Rdata.rdb: an entry holds {len(data)} bytes, its header says {size}")
    return data


def paragraphs(lines):
    text = "\n".join(str(line) for line in lines)
    joined = (" ".join(part.split()) for part in re.split(r"\n\s*\n", text))
    return "\n\n".join(part for part in joined if part) + "\n"


def main():
    source, target = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    index = load(gzip.decompress((source / "Rdata.rdx").read_bytes()))["variables"]
    database = (source / "Rdata.rdb").read_bytes()
    for variable, number, _, _, split in BOOKS:
        offset, length = (int(x) for x in index[variable])
        text = paragraphs(load(decompress(database[offset:offset + length])))
        folder = target / split
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.txt").write_text(text, encoding="utf-8")
        print(f"{split}/{number}.txt: {len(text.split())} words", file=sys.stderr)
    with open(target / "metadata.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        for _, number, title, year, _ in BOOKS:
            writer.writerow([number, title, year, f"ebook:{number}"])


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Installs dgap into a folder of its own, builds the consumer against it and runs it.

check.py BUILD_FOLDER SOURCE_FOLDER WORK_FOLDER CMAKE GENERATOR MAKE_BUNDLE

Also looks at what the shared library exports, needs and weighs, at the headers under other compilers and
standards, at what docs/runtime.md calls stable, and at the pkg-config file.
"""
import os
import pathlib
import re
import shutil
import sys

from commands import check_needed, run

build, source, work, cmake, generator, make_bundle = sys.argv[1:]
work, source = pathlib.Path(work), pathlib.Path(source)

def check_library(library):
    exported = [line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines()]
    foreign = [name for name in exported if not name.startswith("dgap_")]
    assert exported and not foreign, f"{library} exports {foreign or 'nothing'}"
    header = (source / "runtime/include/dgap/runtime.h").read_text()
    declared = set(re.findall(r"DGAP_API [^;(]*?(dgap_\w+)\(", header))
    assert set(exported) == declared, f"exported, not declared or the other way: {set(exported) ^ declared}"
    check_needed(library)
    abi = re.search(r"set\(DGAP_RUNTIME_ABI (\d+)\)", (source / "runtime/CMakeLists.txt").read_text())[1]
    soname = re.search(r"SONAME\s+(\S+)", run("objdump", "-p", library))[1]
    assert soname == f"libdgap_runtime.so.{abi}", f"the SONAME is {soname}; the ABI's major version is {abi}"
    return exported


def check_page(exported, bundle):
    """docs/runtime.md names every symbol, every enumerator's value and every file of a bundle, and no others."""
    page = (source / "docs/runtime.md").read_text()
    section = lambda title: page.split(f"### {title}\n")[1].split("\n#")[0]
    named = re.findall(r"`(dgap_\w+)`", section("Symbols"))
    assert sorted(named) == sorted(exported), f"docs/runtime.md, Symbols: {set(named) ^ set(exported) or 'a name twice'}"
    header = re.sub(r"/\*.*?\*/", "", (source / "runtime/include/dgap/runtime.h").read_text(), flags=re.S)
    values = re.findall(r"(DGAP_\w+) = (\d+)", header)
    told = re.findall(r"`(DGAP_\w+)` (\d+)", section("Values"))
    assert values and sorted(values) == sorted(told), f"docs/runtime.md, Values: {set(values) ^ set(told)}"
    asserted = re.findall(r"IS\((DGAP_\w+), (\d+)\)", (source / "tests/runtime/consumer/stable.c").read_text())
    assert sorted(values) == sorted(asserted), f"stable.c: {set(values) ^ set(asserted)}"
    files = set(re.findall(r"`([\w.]+)`", section("Files of a bundle").split(";")[0]))
    assert files == set(os.listdir(bundle)), f"docs/runtime.md, Files: {files ^ set(os.listdir(bundle))}"


def check_size(library):
    """The stripped library weighs no more than docs/runtime.md says."""
    stripped = work / "stripped.so"
    run("strip", "-o", stripped, library)
    size = stripped.stat().st_size
    said = re.search(r"stripped, it has at most\s+(\d+) KB", (source / "docs/runtime.md").read_text())
    print(f"stripped: {size} bytes")
    assert size <= 1000 * int(said[1]), f"{size} bytes; docs/runtime.md says at most {said[1]} KB"


def check_headers(include):
    """runtime.h is C11 and later, and any C++; runtime.hpp is C++20; both for all compilers that are here."""
    checks = [("runtime.h", "c", ("c11", "c17")), ("runtime.h", "c++", ("c++11", "c++17", "c++20")),
              ("runtime.hpp", "c++", ("c++20",))]
    for compiler in filter(shutil.which, ("g++", "clang++")):
        for header, language, standards in checks:
            for standard in standards:
                run(compiler, "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion",
                    "-Werror", "-fsyntax-only", f"-I{include}", "-", input=f"#include <dgap/{header}>\n")


def build_consumers(prefix):
    """Projects in C and C++, and in C alone; returns the programs."""
    for name, project in (("both", ""), ("c_only", "c_only")):
        run(cmake, "-S", source / "tests/runtime/consumer" / project, "-B", work / name, "-G", generator,
            f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release")
        run(cmake, "--build", work / name)
    return [work / "both" / name for name in ("consumer_c", "consumer_cpp", "consumer_static")] + \
           [work / "c_only" / name for name in ("shared", "static")]


shutil.rmtree(work, ignore_errors=True)
prefix = work / "moved"
run(cmake, "--install", build, "--prefix", work / "prefix", "--component", "runtime")
(work / "prefix").rename(prefix)  # an installed tree can be moved
library = next(prefix.rglob("libdgap_runtime.so"))
exported = check_library(library)
check_size(library)
check_headers(prefix / "include")

programs = build_consumers(prefix)
run(make_bundle, work / "bundle", "997", "16", "3")
check_page(exported, work / "bundle")
for precision in ("always", "mlp"):
    said = {run(program, work / "bundle", precision) for program in programs}
    assert len(said) == 1, said
    print(precision, said.pop(), end="")

if shutil.which("pkg-config"):
    environment = {**os.environ, "PKG_CONFIG_PATH": str(library.parent / "pkgconfig")}
    flags = run("pkg-config", "--cflags", "--libs", "dgap", env=environment).split()
    folders = [os.path.realpath(flag[2:]) for flag in flags if flag.startswith("-I")]
    assert os.path.realpath(prefix / "include") in folders and "-ldgap_runtime" in flags, flags
    run("cc", source / "tests/runtime/consumer/consumer.c", *flags, f"-Wl,-rpath,{library.parent}", "-o", work / "c")
    run(work / "c", work / "bundle", "always")
print("installed library, package and headers work")

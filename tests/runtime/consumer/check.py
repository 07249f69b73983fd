#!/usr/bin/env python3
"""Installs dgap into a folder of its own, builds the consumer against it and runs it.

check.py BUILD_FOLDER SOURCE_FOLDER WORK_FOLDER CMAKE GENERATOR MAKE_BUNDLE

Also looks at what the shared library exports and needs, and at the pkg-config file.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

build, source, work, cmake, generator, make_bundle = sys.argv[1:]
work = pathlib.Path(work)
SYSTEM = re.compile(r"^(linux-vdso|lib(stdc\+\+|gcc_s|c|m|pthread|dl)|ld-linux[-\w]*|/lib.*/ld-linux[-\w.]*)\.so")


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def check_library(library):
    exported = [line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines()]
    foreign = [name for name in exported if not name.startswith("dgap_")]
    assert exported and not foreign, f"{library} exports {foreign or 'nothing'}"
    header = (source / "runtime/include/dgap/runtime.h").read_text()
    declared = set(re.findall(r"DGAP_API [^;(]*?(dgap_\w+)\(", header))
    assert set(exported) == declared, f"exported, not declared or the other way: {set(exported) ^ declared}"
    dynamic = run("objdump", "-p", library)
    needed = re.findall(r"NEEDED\s+(\S+)", dynamic)
    assert all(SYSTEM.match(name) for name in needed), f"{library} needs {needed}"
    assert re.search(r"SONAME\s+libdgap_runtime\.so\.0$", dynamic, re.M), "SONAME is not libdgap_runtime.so.0"


source = pathlib.Path(source)
shutil.rmtree(work, ignore_errors=True)
prefix = work / "prefix"
run(cmake, "--install", build, "--prefix", prefix, "--component", "runtime")
library = next(prefix.rglob("libdgap_runtime.so"))
check_library(library)

run(cmake, "-S", source / "tests/runtime/consumer", "-B", work / "build", "-G", generator,
    f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release")
run(cmake, "--build", work / "build")
run(make_bundle, work / "bundle", "997", "16", "3")
for precision in ("always", "mlp"):
    said = {run(work / "build" / program, work / "bundle", precision)
            for program in ("consumer_c", "consumer_cpp", "consumer_static")}
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

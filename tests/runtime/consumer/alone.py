#!/usr/bin/env python3
"""The preset runtime-only needs a C++ compiler and the JSON header: configures with every other package of the
tree hidden, looks at each file that its sources include, builds, and links a C program against what it installs.

alone.py SOURCE_FOLDER WORK_FOLDER CMAKE MAKE_BUNDLE [OPTION_OF_CMAKE...]
"""
import json
import pathlib
import re
import shlex
import shutil
import sys

from commands import check_needed, run

# Headers of the system that the sources may use beside the standard library's.
SYSTEM_HEADERS = "fcntl.h unistd.h sys/stat.h sys/mman.h sys/types.h stdio.h signal.h"


def hidden_packages(source):
    """Packages that any CMake file of the tree looks for, but for the one that the runtime may use."""
    files = [source / "CMakeLists.txt", *source.glob("cmake/*.cmake")]
    for folder in ("base schemas runtime statistics engine corpus collector calibrator trainer evaluator app "
                   "tests bench").split():
        files += (source / folder).rglob("CMakeLists.txt")
    found = {name for file in files for name in re.findall(r"^\s*find_package\((\S+?)[\s)]", file.read_text(), re.M)}
    assert {"HDF5", "TBB", "nlohmann_json"} <= found, found
    return found - {"nlohmann_json"}


def included(command, folder):
    """Files that compiling would read."""
    words = shlex.split(command)
    words = words[:words.index("-o")] + ["-M"] + words[words.index("-c") + 1:]
    return {pathlib.Path(word).resolve() for word in shlex.split(run(*words, cwd=folder).replace("\\\n", " "))[1:]}


def check_includes(source, build):
    commands = json.loads((build / "compile_commands.json").read_text())
    compiler = shlex.split(commands[0]["command"])[0]
    every = build / "every_header.cpp"
    every.write_text("".join(f"#include <{name}>\n" for name in ["bits/stdc++.h", *SYSTEM_HEADERS.split()]))
    allowed = included(f"{compiler} -std=c++20 -o x -c {every}", build)
    intrinsics = pathlib.Path(run(compiler, "-print-file-name=include").strip()).resolve()
    standard = next(file.parent for file in allowed if file.name == "vector")
    folders = {source / "base", source / "schemas/bundle", source / "runtime", build, intrinsics, standard}
    for command in commands:
        for file in included(command["command"], command["directory"]):
            fine = file in allowed or "nlohmann" in file.parts or folders & set(file.parents)
            assert fine, f"{command['file']} includes {file}"
    return len(commands)


def main():
    source, work, cmake, make_bundle, *options = sys.argv[1:]
    source, work = pathlib.Path(source).resolve(), pathlib.Path(work).resolve()
    shutil.rmtree(work, ignore_errors=True)
    build, prefix, bundle = work / "build", work / "prefix", work / "bundle"
    hidden = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in sorted(hidden_packages(source))]
    run(cmake, "--preset", "runtime-only", "-B", build, "-DCMAKE_BUILD_TYPE=Debug", *options, *hidden, cwd=source)
    print(check_includes(source, build), "sources include the standard library and nlohmann/json.hpp alone")
    run(cmake, "--build", build)
    run(cmake, "--install", build, "--prefix", prefix)
    check_needed(next(prefix.rglob("libdgap_runtime.so")))
    run(cmake, "-S", source / "tests/runtime/consumer/c_only", "-B", work / "c", "-G", "Ninja",
        f"-DCMAKE_PREFIX_PATH={prefix}")
    run(cmake, "--build", work / "c")
    run(make_bundle, bundle, "997", "16", "3")
    print(run(work / "c" / "static", bundle, "mlp"), end="")


if __name__ == "__main__":
    main()

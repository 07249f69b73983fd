#!/usr/bin/env python3
"""build_wheel.py SOURCE WORK SITE: the wheel of the package, as pip makes it, unpacked into SITE.

Offline: build requirements are those of this interpreter. Also checks what the wheel holds.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

source, work, site = map(pathlib.Path, sys.argv[1:])
wheels = work / "wheels"
for folder in (wheels, site):
    shutil.rmtree(folder, ignore_errors=True)
environment = {name: value for name, value in os.environ.items() if name != "CMAKE_CXX_COMPILER_LAUNCHER" or value}
subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-build-isolation",
                "--no-deps", "-w", wheels, f"--config-settings=build-dir={work / 'wheel'}",
                "--config-settings=cmake.define.DGAP_WARNINGS_AS_ERRORS=ON", source], check=True, env=environment)
wheel, = wheels.iterdir()
with zipfile.ZipFile(wheel) as archive:
    names = archive.namelist()
    archive.extractall(site)
package = {name for name in names if name.startswith("dgap/")}
expected = {f"dgap/{path.name}" for path in (source / "bindings/python/dgap").iterdir() if path.is_file()}
built = sorted(package - expected)
assert expected <= package, f"missing in the wheel: {sorted(expected - package)}"
assert len(built) == 2 and built[0].endswith(".so") and built[1] == "dgap/_dgap.pyi", built
assert all(name.startswith("dgap") for name in names), names
print(f"{wheel.name}: {wheel.stat().st_size / 1024:.0f} KiB, {len(names)} files")

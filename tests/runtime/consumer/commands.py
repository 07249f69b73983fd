"""What the checks of the installed runtime share."""
import re
import subprocess
import sys

# The C and C++ standard libraries and the loader.
SYSTEM = re.compile(r"^(linux-vdso|lib(stdc\+\+|gcc_s|c|m|pthread|dl)|ld-linux[-\w]*|/lib.*/ld-linux[-\w.]*)\.so")


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def check_needed(library):
    """Nothing but the standard libraries is linked, by the library itself or by what it links."""
    needed = re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", library))
    loaded = [line.split()[0] for line in run("ldd", library).splitlines()]
    foreign = [name for name in needed + loaded if not SYSTEM.match(name)]
    assert needed and not foreign, f"{library} needs {foreign or 'nothing'}"

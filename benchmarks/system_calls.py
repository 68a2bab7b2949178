"""System calls, files and addresses of `passes run` in an environment that it does not use in another one.

`python benchmarks/system_calls.py TESTED NEW`, with the folders of two virtual environments, prints the difference that
strace sees: a release of onnxruntime may come with another habit.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

MODEL = Path(__file__).parent.parent / "golden_models" / "mlp_dropout.onnx"
CALL = re.compile(r"\d+ +(\w+)\((.*)")
OPENED = re.compile(r'"([^"]*)", (O_\w+)')
ADDRESS = re.compile(r"\{sa_family=[^}]*\}")


def traced(environment: Path) -> dict[str, set[str]]:
    """The names of system calls, the files that are opened outside the environment, and the addresses of sockets."""
    found: dict[str, set[str]] = {"system call": set(), "file": set(), "address": set()}
    with TemporaryDirectory() as name:
        folder = Path(name).resolve()
        own = {variable: folder / variable for variable in ("HOME", "TMPDIR", "XDG_CACHE_HOME")}
        for place in own.values():
            place.mkdir()
        command = [environment / "bin" / "passes", "run", MODEL, "-o", folder / "out.onnx"]
        subprocess.run(
            ["strace", "-f", "-qq", "-s", "4096", "-o", folder / "trace", *command],
            env=os.environ | {variable: str(place) for variable, place in own.items()},
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=300,
        )
        for line in (folder / "trace").read_text(encoding="utf-8", errors="replace").splitlines():
            if (match := CALL.match(line)) is None:
                continue
            call, arguments = match.groups()
            found["system call"].add(call)
            if call in {"bind", "connect", "sendto"}:
                found["address"].update(ADDRESS.findall(arguments))
            if (opened := OPENED.search(arguments)) and not opened[1].startswith(str(environment)):
                path = re.sub(r"passwright-\d+-\w+", "passwright-N", opened[1].replace(str(folder), "."))
                path = re.sub(r"/TMPDIR/\w{8}$", "/TMPDIR/N", path)  # by which tempfile tries the folder
                found["file"].add(f"{re.sub(r'[0-9]+', 'N', path)} ({opened[2]})")
    return found


def release(environment: Path) -> str:
    """The release of onnxruntime in an environment."""
    code = "from importlib.metadata import version; print(version('onnxruntime'))"
    python = environment / "bin" / "python"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, timeout=300).stdout.strip()


def main() -> None:
    """Compare the two environments of the command line."""
    if shutil.which("strace") is None:
        print("system calls are not compared: there is no strace")
        return
    tested, new = (Path(argument).resolve() for argument in sys.argv[1:])
    before, after = traced(tested), traced(new)
    print(f"onnxruntime {release(new)} against {release(tested)}:")
    for kind, names in after.items():
        for name in sorted(names - before[kind]):
            print(f"  another {kind}: {name}")


if __name__ == "__main__":
    main()

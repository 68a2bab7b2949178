#!/usr/bin/env python3
"""Make the golden models in a venv of their own: `python golden_models/make.py [NAME...]`."""

import argparse
import os
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements.txt"


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="models to make (default: all)")
    parser.add_argument("--list", action="store_true", help="list the models and make none")
    parser.add_argument("--families", choices=("tiny", "large"), help="those of transformers instead")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to put them (default: their place here)")
    parser.add_argument("--venv", type=Path, default=HERE / ".venv", metavar="DIR", help="made if it is not there")
    return parser.parse_args(argv)


def prepare_venv(folder: Path, requirements: Path = REQUIREMENTS) -> Path:
    """Return the python of a venv in `folder` that holds the pinned requirements, which may refer to REQUIREMENTS."""
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        print(f"making a venv in {folder}", flush=True)
        venv.create(folder, with_pip=True)
    installed = folder / "golden-requirements.txt"
    wanted = "".join(file.read_text() for file in dict.fromkeys((REQUIREMENTS, requirements)))
    if not installed.exists() or installed.read_text() != wanted:
        print(f"installing {requirements.name}", flush=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "-r", requirements], check=True)
        installed.write_text(wanted)
    return python


def environment(folder: Path) -> dict[str, str]:
    """Reproducible, offline, and with Keras on torch, keeping its settings out of the home folder."""
    fixed = {"PYTHONHASHSEED": "0", "HF_HUB_OFFLINE": "1", "ORT_DISABLE_TELEMETRY": "1", "KERAS_BACKEND": "torch"}
    return {**os.environ, **fixed, "KERAS_HOME": str(folder / "keras")}


def forwarded(asked: argparse.Namespace) -> list[str]:
    """The arguments of build.py."""
    families = ["--families", asked.families] if asked.families else []
    out = ["--out", str(asked.out.absolute())] if asked.out else []
    return [*(["--list"] if asked.list else []), *families, *out, *asked.names]


def main() -> int:
    asked = parse()
    folder = asked.venv.absolute()
    try:
        python = prepare_venv(folder)
    except subprocess.CalledProcessError as error:
        print(f"{folder}: pip failed with exit code {error.returncode}", file=sys.stderr)
        return 1
    command = [python, "-m", f"{HERE.name}.build", *forwarded(asked)]
    return subprocess.run(command, cwd=HERE.parent, env=environment(folder)).returncode


if __name__ == "__main__":
    sys.exit(main())

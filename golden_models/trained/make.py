#!/usr/bin/env python3
"""Make the trained models in a venv of their own: `python golden_models/trained/make.py --out DIR [NAME...]`."""

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT))

from golden_models.make import environment, prepare_venv  # noqa: E402 - found by the line above


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="models to make (default: all)")
    parser.add_argument("--list", action="store_true", help="list the models and make none")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to put them")
    parser.add_argument("--venv", type=Path, default=HERE / ".venv", metavar="DIR", help="made if it is not there")
    asked = parser.parse_args()
    if not (asked.out or asked.list):
        parser.error("--out DIR is missing")
    folder = asked.venv.absolute()
    try:
        python = prepare_venv(folder, HERE / "requirements.txt")
    except subprocess.CalledProcessError as error:
        print(f"{folder}: pip failed with exit code {error.returncode}", file=sys.stderr)
        return 1
    options = ["--list"] if asked.list else ["--out", str(asked.out.absolute()), *asked.names]
    command = [python, "-m", "golden_models.trained.build", *options]
    return subprocess.run(command, cwd=ROOT, env=environment(folder)).returncode


if __name__ == "__main__":
    sys.exit(main())

"""The Dockerfile: linted, and its images built where there is a Docker engine."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILE = ROOT / "examples" / "container" / "Dockerfile"


def test_the_dockerfile_passes_its_linter() -> None:
    linter = shutil.which("hadolint", path=sysconfig.get_path("scripts"))
    assert linter is not None
    found = subprocess.run([linter, "--no-color", FILE], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "")


def test_the_images_are_built() -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "info"], capture_output=True, check=False).returncode:
        pytest.skip("there is no Docker engine")
    options = ["--build-arg", "MODEL=golden_models/crnn.onnx"]
    for target in ("passes", "model"):
        command = [docker, "build", "--quiet", "-f", FILE, "--target", target, *options, ROOT]
        image = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        arguments = ["--version"] if target == "passes" else []
        shown = subprocess.run([docker, "run", "--rm", image, *arguments], capture_output=True, text=True, check=True)
        assert ("passwright" if target == "passes" else "[") in shown.stdout

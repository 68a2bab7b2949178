"""Virtual environments for tests of installed packages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from packaging.version import Version

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Environment:
    """A fresh virtual environment that sees the packages of this one, so that only tested packages are installed."""

    folder: Path

    @classmethod
    def create(cls, folder: Path) -> Environment:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=300)
        env = cls(folder)
        outer = dict.fromkeys(path for path in sys.path if Path(path).name in {"site-packages", "dist-packages"})
        (env.site / "outer.pth").write_text("".join(f"{path}\n" for path in outer))
        if Version(version("setuptools")) < Version("77"):  # the build backend of passwright
            env.run_python("-m", "pip", "install", "--no-deps", "setuptools>=77")
        return env

    @property
    def site(self) -> Path:
        return Path(sysconfig.get_path("purelib", vars={"base": str(self.folder), "platbase": str(self.folder)}))

    @property
    def bin(self) -> Path:
        return Path(sysconfig.get_path("scripts", vars={"base": str(self.folder)}))

    def run(self, *command: str | Path, cwd: Path | None = None) -> str:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        env = {**kept, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "COLUMNS": "200"}
        done = subprocess.run(
            list(map(str, command)),
            cwd=cwd or self.folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def run_python(self, *arguments: str | Path, cwd: Path | None = None) -> str:
        return self.run(self.bin / "python", "-Wignore", *arguments, cwd=cwd)

    def run_passes(self, *arguments: str | Path, cwd: Path | None = None) -> str:
        return self.run(self.bin / "passes", *arguments, cwd=cwd)

    def install(self, folder: Path) -> None:
        """Install the package in `folder` without warnings of setuptools, which are framed in stars."""
        output = self.run_python(
            "-m", "pip", "install", "-v", "--no-compile", "--no-deps", "--no-index", "--no-build-isolation", folder
        )
        assert "*****" not in output, output


def copy_sources(folder: Path) -> Path:
    """Copy the sources of the package, so that building leaves nothing in the checkout."""
    for name in ("app", "core", "passes", "passwright", "testing"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    return folder


def ruff_path() -> str:
    found = shutil.which("ruff", path=os.pathsep.join((sysconfig.get_path("scripts"), os.environ["PATH"])))
    assert found is not None
    return found


def files_below(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts}

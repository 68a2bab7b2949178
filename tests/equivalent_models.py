"""Pairs of models that were compared and found equal, so that `make test` compares the new pairs and the changed ones.

`make test-all` compares all. `python tests/equivalent_models.py tests/passes` runs these tests and records the pairs.
"""

import sys
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
from passwright.testing import rewriting

RECORD = Path(__file__).with_name("equivalent_models.txt")
COMPARED_SHARE = 8  # of so many pairs, one is never recorded: `make test` has rewrites of each kind to compare
found = set[str]()
compare = rewriting.require_equivalent  # of all pairs


@cache
def recorded() -> set[str]:
    """The digests of the pairs; a line of the file has those with the same first byte."""
    lines = map(str.split, RECORD.read_text(encoding="utf-8").splitlines())
    return {first + rest for first, *others in lines for rest in others}


def require_equivalent(before: onnx.ModelProto, after: onnx.ModelProto, **options: Any) -> None:
    """Compare two models, unless they are recorded. Raises VerificationError if they differ."""
    digest = blake2b(f"{onnxruntime.__version__} {sorted(options.items())}".encode(), digest_size=5)
    for model in (before, after):
        digest.update(blake2b(model.SerializeToString()).digest())
    if (key := digest.hexdigest()) not in recorded():
        compare(before, after, **options)
        found.add(key)


def record(tests: list[str]) -> int:
    """Run tests, which are in one process, and add the pairs that are equal to the record."""
    ended = pytest.main(["-q", *tests])
    pairs = recorded() | {key for key in found if int(key, 16) % COMPARED_SHARE}
    lines = {key[:2]: sorted(k[2:] for k in pairs if k[:2] == key[:2]) for key in sorted(pairs)}
    RECORD.write_text("".join(f"{first} {' '.join(rest)}\n" for first, rest in lines.items()), encoding="utf-8")
    return ended


if __name__ == "__main__":
    import equivalent_models

    sys.exit(equivalent_models.record(sys.argv[1:]))

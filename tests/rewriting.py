"""Functions for rule and pass tests in ONNX text, from `passwright.testing`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Self

import onnx
import pytest
from msgspec.structs import replace
from passwright.core import from_onnx, to_onnx
from passwright.core.io.split_models import Loadable
from passwright.core.verify.oracle import Oracle
from passwright.core.verify.verification_spec import VerificationSpec
from passwright.testing import rewriting
from passwright.testing.rewriting import (
    OPSET,
    apply_passes,
    becomes,
    canonical_nodes,
    initializers,
    load,
    op_types,
    require_equivalent,
    run,
    stays,
)

rewriting.COMBINED_PART, rewriting.MAX_REGION_SETS = (0, 12), 2  # thousands of small models are compared here

__all__ = [
    "OPSET",
    "LocalOracle",
    "apply_passes",
    "becomes",
    "canonical_nodes",
    "cases",
    "initializers",
    "load",
    "op_types",
    "oracle_of",
    "require_equivalent",
    "run",
    "stays",
    "to_onnx",
]


def cases(names: str | tuple[str, ...], rows: Mapping[str, Any]) -> pytest.MarkDecorator:
    """Parametrize a test by rows of arguments, or single arguments, under the names of the cases."""
    return pytest.mark.parametrize(names, list(rows.values()), ids=list(rows))


def oracle_of(
    model: onnx.ModelProto,
    original: Loadable | None = None,
    *,
    seed: int = 0,
    boundaries: Collection[float] = (),
    **changes: Any,
) -> Oracle:
    """The oracle for a model, perhaps in a file, with changes to the fields of its verification spec."""
    spec = replace(VerificationSpec.of(from_onnx(model, inline=True)), **changes)
    return Oracle(original or model.SerializeToString(), spec, seed, boundaries)


class LocalOracle(Oracle):
    """An oracle of this process, which tests can change."""

    is_open = True

    def __init__(self, *arguments: Any, label: str, report: object) -> None:
        super().__init__(*arguments)
        self.label, self.report = label, report

    def wait(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

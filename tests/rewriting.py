"""Functions for rule and pass tests in ONNX text, from `passwright.testing`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, Self

import onnx
import pytest
from msgspec.structs import replace
from passwright.core import from_onnx, to_onnx
from passwright.core.io.split_models import Loadable
from passwright.core.ort.backends import OnnxRuntime
from passwright.core.ort.sessions import SessionConfig
from passwright.core.verify.comparison_options import USUAL, ComparisonOptions
from passwright.core.verify.oracle import Oracle
from passwright.core.verify.seeded_session import Backend
from passwright.core.verify.verdict import Verdict
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
ARROW = re.compile(r" => (?!\()")  # not the one before the outputs of a graph

__all__ = [
    "ARROW",
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
    "table",
    "to_onnx",
]


def cases(names: str | tuple[str, ...], rows: Mapping[str, Any]) -> pytest.MarkDecorator:
    """Parametrize a test by rows of arguments, or single arguments, under the names of the cases."""
    return pytest.mark.parametrize(names, list(rows.values()), ids=list(rows))


def table(text: str) -> dict[str, Any]:
    """Rows of a text, `id: column => column`, by id; lines that are indented by more than four spaces continue a row.

    Settings of a row, `id [opset=11; in_if]: ...`, are a dict behind its columns.
    """
    lines = filter(None, map(str.strip, re.sub(r"\n {5,}", " ", text).split("\n")))
    rows = [re.fullmatch(r"(.+?)(?: \[(.+?)\])?: (.+)", line) for line in lines]
    named = {row[1]: _columns(row[3], row[2]) for row in rows}
    assert len(named) == len(rows), "two rows have the same id"
    return named


def _columns(text: str, settings: str | None) -> Any:
    columns: list[Any] = ARROW.split(text)
    if settings:
        columns.append(dict(map(_setting, settings.split("; "))))
    return columns[0] if len(columns) == 1 else tuple(columns)


def _setting(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    return name, {"": True, "False": False}.get(value, int(value) if value.isdigit() else value)


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

    def __init__(self, *arguments: Any, label: str = "", report: object = None) -> None:
        super().__init__(*arguments)
        self.label, self.report = label, report

    def wait(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release nothing."""

    def compare(
        self,
        model: Loadable,
        options: ComparisonOptions = USUAL,
        *,
        backend: Backend | None = None,
        config: SessionConfig | None = None,
    ) -> Verdict:
        """Compare as an oracle in a process of its own: in a session of another `config` if given."""
        return super().compare(
            model, options, backend=backend if config is None else partial(OnnxRuntime, config=config)
        )

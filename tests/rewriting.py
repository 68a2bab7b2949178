"""Functions for rule and pass tests in ONNX text, from `passwright.testing`."""

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, Self

import onnx
import pytest
from equivalent_models import require_equivalent
from msgspec.structs import replace
from passwright.core import from_onnx, to_onnx
from passwright.core.io.split_models import Loadable
from passwright.core.ort.backends import LoadedModel
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
    run,
    stays,
)
from tiers import Slow

rewriting.COMBINED_PART, rewriting.MAX_REGION_SETS = (0, 12), 2  # thousands of small models are compared here
rewriting.require_equivalent = require_equivalent  # of `becomes`
ARROW = re.compile(r" => (?!\()")  # not the one before the outputs of a graph

__all__ = [
    "ARROW",
    "OPSET",
    "LocalOracle",
    "apply_passes",
    "becomes",
    "canonical_nodes",
    "cases",
    "check_all",
    "each",
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


def each(names: str | tuple[str, ...], rows: Mapping[str, Any] | Iterable[Any]) -> Callable[[Any], Any]:
    """Let one test check all rows of arguments, for rows that take about what pytest takes for a test: 2 ms.

    Other arguments of the test are fixtures or parametrized, and are the same for all rows.
    """

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        given = [names] if isinstance(names, str) else names
        named = rows if isinstance(rows, Mapping) else {f"{n}: {row!r}": row for n, row in enumerate(rows)}

        signature = inspect.signature(test)

        def check_rows(pytestconfig: pytest.Config, **others: Any) -> None:
            if "pytestconfig" in signature.parameters:  # of rows of rows
                others["pytestconfig"] = pytestconfig

            def check_row(row: Any) -> None:
                test(**dict(zip(given, (row,) if isinstance(names, str) else row, strict=True)), **others)

            check_all(named, check_row, pytestconfig)

        check_rows.__name__, check_rows.__doc__, check_rows.__module__ = test.__name__, test.__doc__, test.__module__
        vars(check_rows).update(vars(test))
        others = [p for p in signature.parameters.values() if p.name not in {*given, "pytestconfig"}]
        config = inspect.Parameter("pytestconfig", inspect.Parameter.KEYWORD_ONLY)
        vars(check_rows)["__signature__"] = signature.replace(parameters=[*others, config])
        return check_rows

    return decorate


def check_all(rows: Mapping[str, Any], check: Callable[[Any], None], config: pytest.Config) -> None:
    """Check each row, those that are `Slow` only with the slow tests. Raises all failures, with the names of rows."""
    failures, has_slow = list[Exception](), not config.getoption("markexpr")
    for name, row in rows.items():
        if isinstance(row, Slow) and not has_slow:
            continue
        try:
            check(row.row if isinstance(row, Slow) else row)
        except Exception as e:  # noqa: BLE001 - raised below
            e.add_note(f"in the row {name}")
            failures.append(e)
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {len(rows)} rows", failures)


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
            model, options, backend=backend if config is None else partial(LoadedModel, config=config)
        )

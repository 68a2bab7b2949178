"""Records the smallest model of the tests in which each rule fires: `python docs/catalogue/harvest.py`.

Runs the tests of rules without their comparison of values, keeps every model that they load or come by, tries each rule
on them from the smallest on, and takes the first in which it fires and that means the same before and after.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Collection, Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import onnx
import pytest
from passwright.core import Ledger, Model, Pass, PassesError, Rule, RulePass, from_onnx, to_onnx
from passwright.core.rewriting.ledger import Stop
from passwright.core.rewriting.pattern import OpPattern
from passwright.passes.pipelines import BUILT_IN, OPTIONAL

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(Path(__file__).parent)]

import rewriting  # noqa: E402  # the tests' own modules stand in no package
from plain import in_text, operators, plainer, weights  # noqa: E402
from record import Example, write  # noqa: E402

MOST_ELEMENTS = 2048
"""Models with more weights are no examples."""
MOST_STEPS = 8
"""As many of the models between two changes are kept."""


def main() -> int:
    """Harvest, record, and tell what has no example."""
    models = sorted(harvested(), key=size)
    wanted = [r for p in (*BUILT_IN, *OPTIONAL) for r in (p.rules if isinstance(p, RulePass) else (p,))]
    kept = {what.name: found for what in wanted if (found := first(what, models)) is not None}
    write(kept)
    missing = [what.name for what in wanted if what.name not in kept]
    sys.stdout.write(f"{len(models)} models, {len(kept)} examples; none for: {', '.join(missing) or '-'}\n")
    return int(bool(missing))


def harvested() -> list[onnx.ModelProto]:
    """The models that the tests of rules load, and what becomes of them between two changes; each once."""
    found: dict[bytes, onnx.ModelProto] = {}
    quiet = io.StringIO()
    with recording(found), redirect_stdout(quiet), redirect_stderr(quiet):
        pytest.main(["-q", str(ROOT / "tests" / "passes"), str(ROOT / "tests" / "test_rules.py")])
    return list(found.values())


@contextmanager
def recording(found: dict[bytes, onnx.ModelProto]) -> Generator[None]:
    """Keep the models that the tests rewrite, by their bytes."""
    load, rewritten = rewriting.load, rewriting.rewritten

    def kept(model: onnx.ModelProto) -> onnx.ModelProto:
        if sum(a.size for a in weights(model)) <= MOST_ELEMENTS:
            found.setdefault(model.SerializeToString(deterministic=True), model)
        return model

    def rewritten_by_steps(model: onnx.ModelProto, *what: Rule | Pass, **options: Any) -> tuple[Model, Ledger]:
        result, ledger = rewritten(model, *what, **options)
        for changes in range(1, min(ledger.made, MOST_STEPS)):
            kept(stopped(model, what, changes))
        return result, ledger

    with pytest.MonkeyPatch.context() as patch:
        for module in (rewriting, sys.modules[rewriting.becomes.__module__]):
            patch.setattr(module, "load", lambda *args, **options: kept(load(*args, **options)))
            patch.setattr(module, "rewritten", rewritten_by_steps)
            patch.setattr(module, "means_the_same", lambda *_, **__: None)
        yield


def stopped(model: onnx.ModelProto, what: Collection[Rule | Pass], changes: int) -> onnx.ModelProto:
    """The model after so many changes."""
    result, ledger = from_onnx(model), Ledger(stop=Stop(after=changes))
    for item in what:
        (RulePass(item.name, (item,)) if isinstance(item, Rule) else item).run(result.graph, ledger)
    return to_onnx(result)


def size(model: onnx.ModelProto) -> tuple[int, int, int]:
    """Operators, elements of weights, bytes."""
    return len(operators(model.graph)), sum(a.size for a in weights(model)), model.ByteSize()


def first(what: Rule | Pass, models: Collection[onnx.ModelProto]) -> Example | None:
    """The first of `models` that `what` changes alone, and rightly."""
    needed = wanted_types(what.pattern) if isinstance(what, Rule) else []
    alone = RulePass(what.name, (what,)) if isinstance(what, Rule) else what
    for model in models:
        present = set(operators(model.graph))
        if any(present.isdisjoint(types) for types in needed) or not is_shown(alone, model):
            continue
        for candidate in plainer(model):
            with suppress(onnx.parser.ParseError):  # texts hold no weights that are not finite
                example = in_text(candidate)
                if is_shown(alone, example.model()):
                    return example
    return None


def is_shown(p: Pass, model: onnx.ModelProto) -> bool:
    """Whether the pass makes a change in the model that onnxruntime finds right."""
    ledger = Ledger(record=True)
    try:
        imported = from_onnx(model)
        p.run(imported.graph, ledger)
        if ledger.made:
            rewriting.means_the_same(model, to_onnx(imported), exact=ledger.is_exact)
    except PassesError:
        return False
    return ledger.made > 0


def wanted_types(pattern: OpPattern) -> list[tuple[str, ...]]:
    """The operators that a pattern asks for, each as the types it may have."""
    return [pattern.types, *(t for i in pattern.inputs if isinstance(i, OpPattern) for t in wanted_types(i))]


if __name__ == "__main__":
    sys.exit(main())

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
from passwright.core import ChangeLog, Model, Pass, PassesError, Rule, RulePass, from_onnx, to_onnx
from passwright.core.rewriting.change_log import BisectLimit
from passwright.passes.pipelines import BUILT_IN, OPTIONAL_PASSES

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(Path(__file__).parent)]

import rewriting  # noqa: E402  # the tests' own modules are in no package
from plain import operators, simplified_models, to_example, weights  # noqa: E402
from record import Example, write_examples  # noqa: E402

MAX_ELEMENTS = 2048
"""Models with more weights are not examples."""
MAX_STEPS = 8
"""As many of the models between two changes are kept."""


def main() -> int:
    """Harvest and record examples, and list the rules and passes without one."""
    models = sorted(collected_models(), key=model_size)
    wanted = [r for p in (*BUILT_IN, *OPTIONAL_PASSES) for r in (p.rules if isinstance(p, RulePass) else (p,))]
    kept = {what.name: found for what in wanted if (found := find_example(what, models)) is not None}
    write_examples(kept)
    missing = [what.name for what in wanted if what.name not in kept]
    sys.stdout.write(f"{len(models)} models, {len(kept)} examples; none for: {', '.join(missing) or '-'}\n")
    return int(bool(missing))


def collected_models() -> list[onnx.ModelProto]:
    """The models that the tests of rules load, and their states between two changes; each once."""
    found: dict[bytes, onnx.ModelProto] = {}
    quiet = io.StringIO()
    with recording_models(found), redirect_stdout(quiet), redirect_stderr(quiet):
        pytest.main(["-q", "-m", "", str(ROOT / "tests" / "passes"), str(ROOT / "tests" / "test_rules.py")])
    return list(found.values())


@contextmanager
def recording_models(found: dict[bytes, onnx.ModelProto]) -> Generator[None]:
    """Keep the models that the tests rewrite, by their bytes."""
    load, apply_passes = rewriting.load, rewriting.apply_passes

    def kept(model: onnx.ModelProto) -> onnx.ModelProto:
        if sum(a.size for a in weights(model)) <= MAX_ELEMENTS:
            found.setdefault(model.SerializeToString(deterministic=True), model)
        return model

    def apply_by_steps(model: onnx.ModelProto, *what: Rule | Pass, **options: Any) -> tuple[Model, ChangeLog]:
        result, change_log = apply_passes(model, *what, **options)
        for changes in range(1, min(change_log.change_count, MAX_STEPS)):
            kept(model_after(model, what, changes))
        return result, change_log

    with pytest.MonkeyPatch.context() as patch:
        for module in (rewriting, sys.modules[rewriting.becomes.__module__]):
            patch.setattr(module, "load", lambda *args, **options: kept(load(*args, **options)))
            patch.setattr(module, "apply_passes", apply_by_steps)
            patch.setattr(module, "require_equivalent", lambda *_, **__: None)
        yield


def model_after(model: onnx.ModelProto, passes: Collection[Rule | Pass], changes: int) -> onnx.ModelProto:
    """The model after so many changes."""
    result, change_log = from_onnx(model), ChangeLog(limit=BisectLimit(after_changes=changes))
    for item in passes:
        (RulePass(item.name, (item,)) if isinstance(item, Rule) else item).run(result.graph, change_log)
    return to_onnx(result)


def model_size(model: onnx.ModelProto) -> tuple[int, int, int]:
    """Operators, elements of weights, bytes."""
    return len(operators(model.graph)), sum(a.size for a in weights(model)), model.ByteSize()


def find_example(target: Rule | Pass, models: Collection[onnx.ModelProto]) -> Example | None:
    """The first of `models` that `target` alone changes, and correctly."""
    patterns = [[p.types for p in pattern.walk()] for pattern in target.patterns] if isinstance(target, Rule) else [[]]
    alone = RulePass(target.name, (target,)) if isinstance(target, Rule) else target
    for model in models:
        present = set(operators(model.graph))
        may_match = any(not any(map(present.isdisjoint, needed)) for needed in patterns)
        if not may_match or not fires_correctly(alone, model):
            continue
        for candidate in simplified_models(model):
            with suppress(onnx.parser.ParseError):  # texts hold no weights that are not finite
                example = to_example(candidate)
                if fires_correctly(alone, example.model()):
                    return example
    return None


def fires_correctly(p: Pass, model: onnx.ModelProto) -> bool:
    """Whether the pass makes a change in the model that onnxruntime finds right."""
    change_log = ChangeLog(record=True)
    try:
        imported = from_onnx(model)
        p.run(imported.graph, change_log)
        if change_log.change_count:
            rewriting.require_equivalent(model, to_onnx(imported), exact=change_log.is_exact)
    except PassesError:
        return False
    return change_log.change_count > 0


if __name__ == "__main__":
    sys.exit(main())

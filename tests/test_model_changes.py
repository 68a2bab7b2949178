"""Changed parts of two models: the constants that differ, tables, and whether extents matter."""

from typing import Any

import numpy as np
from passwright.core.io.files import split_model
from passwright.core.verify.model_changes import InputHints, ModelChanges
from passwright.core.verify.model_constants import ModelConstants
from passwright.core.verify.regions.shared_values import SharedValues
from passwright.core.verify.regions.value_graph import ValueGraph
from rewriting import cases, load

TABLE = np.arange(400, dtype=np.float32).reshape(100, 4)
OTHER = np.where(np.arange(100)[:, None] == 71, TABLE + 1, TABLE)
HEAD = "g (float[N,T] x, int64[N] i) => (y)"


def hints(before: str, after: str, a: dict[str, Any], b: dict[str, Any] | None = None) -> InputHints:
    models = (load(f"{HEAD} {{ {body} }}", 18, w, {"ai.onnx.ml": 3}) for body, w in ((before, a), (after, b or a)))
    graphs = [ValueGraph.of(split_model(m.SerializeToString())) for m in models]
    return ModelChanges.of(graphs[0], graphs[1], SharedValues.of(*graphs)).hints()


def test_differing_rows_and_numbers() -> None:
    found = hints("y = Gather(w, i)", "y = Gather(w, i)", {"w": TABLE}, {"w": OTHER.astype(np.float32)}).constants
    assert set(found.numbers) >= {71.0, 284.0, 285.0, 284.5}
    assert 71 in found.sizes


def test_constants_of_other_names_are_paired_by_shape() -> None:
    found = hints("y = Gather(w, i)", "y = Gather(v, i)", {"w": TABLE}, {"v": OTHER.astype(np.float32)}).constants
    assert 71.0 in found.numbers


def test_of_many_differing_rows_the_ends_count() -> None:
    other = np.where(np.arange(100)[:, None] > 50, TABLE + 1, TABLE).astype(np.float32)
    assert hints("y = Gather(w, i)", "y = Gather(w, i)", {"w": TABLE}, {"w": other}).constants.sizes[:2] == (51, 99)


def test_places_are_those_that_tell_elements_apart() -> None:
    other = np.where(np.arange(4) == 3, TABLE + 1, TABLE).astype(np.float32)
    assert hints("y = Gather(w, i)", "y = Gather(w, i)", {"w": TABLE}, {"w": other}).constants.places == (3,)


def test_a_vocabulary_beside_a_differing_value() -> None:
    body = "y = ai.onnx.ml.LabelEncoder<keys_int64s = [11, 22, 33], values_floats = [1.0, %s, 3.0]>(i)"
    found = hints(body % "2.0", body % "5.0", {})
    assert found.constants == ModelConstants((22.0,))
    assert found.vocabularies


@cases(
    ("before", "after", "depends"),
    {
        "elementwise": ("y = Exp(x)", "y = Abs(x)", False),
        "operator that reads extents": ("y = Shape(x)", "y = Shape(i)", True),
        "window": ("u = Unsqueeze(x, one) y = MaxPool<kernel_shape=[1]>(u)", "y = Unsqueeze(x, one)", True),
        "behind an extent": ("s = Shape(x) y = Neg(s)", "s = Shape(x) y = Abs(s)", True),
        "beside an extent": (
            "s = Shape(x) f = Cast<to=1>(x) y = Exp(f)",
            "s = Shape(x) f = Cast<to=1>(x) y = Abs(f)",
            False,
        ),
    },
)
def test_whether_a_change_depends_on_extents(before: str, after: str, *, depends: bool) -> None:
    assert hints(before, after, {"one": np.array([1])}).extents is depends


def test_only_new_hints_are_left() -> None:
    a = InputHints(ModelConstants((1.0,), (5,)), frozenset({7}), extents=True)
    b = InputHints(ModelConstants((2.0,), (5,)), frozenset({7, 9}), extents=True, vocabularies=True)
    assert b.without(a) == InputHints(ModelConstants((2.0,)), frozenset({9}), vocabularies=True)
    assert a.with_others(b).without(b).without(a) == InputHints()

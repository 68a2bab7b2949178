"""`passes verify --budget`: models that differ from the original on purpose."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import commands
import numpy as np
import onnx
import pytest
from passwright.app.measure.agreement import Agreement, OutputFigures, OutputUses, Score
from passwright.app.measure.criterion import AgreementCriterion, Budget
from passwright.core.io.model_source import model_source
from passwright.core.ort.backends import LoadedModel
from passwright.core.ort.sessions import UNOPTIMIZED, SessionConfig
from rewriting import cases, load

from passwright import verify

OK, BAD, USAGE, WRONG = range(4)
CLASSES = "g (float[N,4] x) => (float[N,3] y) { p = MatMul(x, w) y = Softmax(p) }"
VALUES = "g (float[N,4] x) => (float[N,4] y) { e = Exp(x) y = Mul(e, w) }"
WEIGHTS = {
    CLASSES: {"w": np.arange(12, dtype=np.float32).reshape(4, 3) % 5},
    VALUES: {"w": np.full(4, 1 / 3, np.float32)},
}


pytestmark = pytest.mark.usefixtures("_verifies_in_process")


class Session(LoadedModel):
    """A session of this process, as a RemoteSession is one of another."""

    try_run = LoadedModel.run


@pytest.fixture(autouse=True)
def _runs_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run models here, not in processes of their own."""

    @contextmanager
    def backend(config: SessionConfig = UNOPTIMIZED) -> Iterator[Any]:
        yield partial(Session, config=config)

    for module in ("verify.accuracy_loss", "measure.criterion", "measure.feeds"):
        monkeypatch.setattr(f"passwright.app.{module}.RemoteBackend", backend)


invoke = partial(commands.invoke, env={"COLUMNS": "120"})


def changed(text: str, change: float = 0.0, **replaced: str) -> onnx.ModelProto:
    """A model with other weights, and with parts of its text replaced."""
    other = text
    for old, new in replaced.items():
        other = other.replace(old, new)
    weights = {n: (w + np.float32(change) * w[::-1]).astype(w.dtype) for n, w in WEIGHTS[text].items()}
    return load(other, weights=weights)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in (("classes", CLASSES), ("values", VALUES)):
        onnx.save(changed(text), f"{name}.onnx")
        onnx.save(changed(text, 1e-3), f"{name}_near.onnx")
        onnx.save(changed(text, 0.5), f"{name}_far.onnx")
    return tmp_path


@cases(
    ("line", "code", "shown"),
    {
        "the same classes": (
            "classes.onnx classes_near.onnx --budget 1%", OK,
            "within the budget of 1%: agreement 1, a loss of 0% (95 % interval 0% to 2.9%), on 128 samples drawn"),
        "other classes": (
            "classes.onnx classes_far.onnx --budget 0.5pt --effort quick", WRONG,
            "classes_far.onnx is over the budget of 0.5pt: agreement 0."),
        "little noise": (
            "values.onnx values_near.onnx --budget 1% --metric snr", OK,
            "values_near.onnx is within the budget of 1%: SNR 60.0 dB, noise 0.0001% of the signal, on 128 samples"),
        "much noise": (
            "values.onnx values_far.onnx --budget 1% --metric snr", WRONG,
            "values_far.onnx is over the budget of 1%: SNR 6.0 dB, noise 25% of the signal, on 128 samples"),
        "more noise beside what varies": (
            "values.onnx values_far.onnx --budget 1%", WRONG,
            "values_far.onnx is over the budget of 1%: SNR 2."),
        "classes by request": (
            "values.onnx values_far.onnx --budget 1% --metric top1", WRONG,
            "agreement 1, a loss of 0% (95 % interval 0% to 2.9%), and SNR 6.0 dB (10 is the least)"),
        "nothing": ("values.onnx values.onnx --budget 0%", OK, "within the budget of 0%: no difference, on 128"),
        "given": (
            "values.onnx values_near.onnx --budget 1% --inputs given.npz", OK, "of the signal, on 2 given samples"),
        "labels": (
            "classes.onnx classes_near.onnx --budget 1% --labelled labels.npz", OK,
            "1%: top-1 1, a loss of 0% (95 % interval -32% to 32%), on 8 labelled rows of labels.npz"),
        "wrong labels": (
            "classes.onnx classes_far.onnx --budget 1% --labelled labels.npz", WRONG,
            "over the budget of 1%: top-1 0."),
        "shape": ("values.onnx values_near.onnx --budget 1% --shape x:7,4", OK, "on 128 samples drawn at random"),
    },
)  # fmt: skip
def test_verdicts(files: Path, line: str, code: int, shown: str) -> None:
    x = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    np.savez("given.npz", **{"a/x": x, "b/x": x[:3]})
    np.savez("labels.npz", x=x, labels=np.argmax(x @ WEIGHTS[CLASSES]["w"], -1))
    assert shown in " ".join(invoke("verify", *line.split(), code=code).stdout.split())


@cases(
    ("arguments", "message"),
    {
        "form": (("--budget", "1"), "--budget 1: not of the form 1% (relative) or 0.5pt (absolute)"),
        "bits": (("--budget", "1%", "--exact"), "give only one of --exact and --budget"),
        "labels alone": (("--labelled", "x.npz"), "--labelled needs --budget"),
        "metric alone": (("--budget", "1%", "--metric", "m.py"), "--metric m.py needs a labelled set: give --labelled"),
        "two sets": (
            ("--budget", "1%", "--labelled", "x.npz", "--inputs", "x.npz"),
            "give only one of --inputs and --labelled",
        ),
    },
)
def test_mistakes(files: Path, arguments: tuple[str, ...], message: str) -> None:
    found = invoke("verify", "values.onnx", "values_near.onnx", *arguments, code=USAGE)
    assert message in " ".join(found.stderr.split())


def test_reports(files: Path) -> None:
    outputs = ("--json", "r.json", "--html", "r.html", "--format", "github", "--format", "markdown:r.md")
    given = ("--budget", "1%", "--metric", "snr", *outputs)
    text = invoke("verify", "values.onnx", "values_far.onnx", *given, code=WRONG).stdout
    assert "::error file=values_far.onnx,title=over the budget::over the budget of 1%25: SNR 6.0 dB" in text
    found = json.loads(Path("r.json").read_text())
    assert (found["agrees"], found["verdict"]) == (False, None)
    accuracy = found["accuracy"]
    assert (accuracy["figure"], accuracy["reference"], accuracy["is_within"]) == ("SNR (dB)", None, False)
    assert accuracy["outputs"]["y"]["snr"] == pytest.approx(6.02, abs=0.01)
    for page in ("r.html", "r.md"):
        assert "6.0" in Path(page).read_text()


def test_other_float_types_and_missing_outputs(files: Path) -> None:
    text = VALUES.replace("float[", "float16[")
    half = load(text, weights={"w": WEIGHTS[VALUES]["w"].astype(np.float16)})
    report = verify("values.onnx", half, budget="1%")
    assert report.agrees
    assert report.accuracy is not None
    assert report.accuracy.notes[:2] == (
        "input x is a tensor of float16, not a tensor of float",
        "y: float32[1, 4] became float16[1, 4]",
    )
    more = load(VALUES.replace(") {", ", float[N,4] e) {"), weights=WEIGHTS[VALUES])
    report = verify(more, "values_near.onnx", budget="1%")
    assert (report.agrees, report.has_equal_values) == (False, True)
    assert report.interface_differences == ["output e is missing"]


def test_a_regressor_is_no_classifier(files: Path) -> None:
    """Its first number is always the largest, so that the class says nothing of what varies."""
    text = "g (float[N,4] x) => (float[N,3] y) { p = MatMul(x, w) y = Add(p, b) }"
    weights = {"w": np.full((4, 3), 0.05, np.float32), "b": np.float32([4, 2, 1])}
    onnx.save(load(text, weights=weights), "scores.onnx")
    onnx.save(load(text, weights={**weights, "w": weights["w"] * 0.5}), "halved.onnx")
    found = " ".join(invoke("verify", "scores.onnx", "halved.onnx", "--budget", "1%", code=WRONG).stdout.split())
    assert re.search(r"halved.onnx is over the budget of 1%: SNR [56]\.\d dB, noise 2[5-9]% of the signal", found)
    assert (
        "note: y is compared as numbers, as nothing shows that it contains class scores; if it does, choose the metric "
        "top1" in found
    )
    other = invoke("verify", "scores.onnx", "halved.onnx", "--budget", "1%", "--metric", "top1").stdout
    assert "within the budget of 1%: agreement 1" in " ".join(other.split())


def test_classes_that_do_not_vary(files: Path) -> None:
    onnx.save(load(CLASSES, weights={"w": np.zeros((4, 3), np.float32)}), "zeros.onnx")
    found = invoke("verify", "zeros.onnx", "zeros.onnx", "--budget", "1%").stdout
    assert "note: y: the original returns class 0 in all rows, so agreement means little" in found


def test_hint_for_narrower_constants(files: Path) -> None:
    text = VALUES.replace("y = Mul(e, w)", "c = Cast<to=1>(w) y = Mul(e, c)")
    onnx.save(load(text, weights={"w": WEIGHTS[VALUES]["w"].astype(np.float16)}), "half.onnx")
    hint = "hint: to measure a model that differs on purpose: --budget 1%"
    assert hint in invoke("verify", "values.onnx", "half.onnx", code=WRONG).stdout
    assert "hint" not in invoke("verify", "values.onnx", "values_far.onnx", code=WRONG).stdout


def test_model_that_does_not_run(files: Path) -> None:
    text = "g (float[N,4] x) => (float[P,Q] y) { y = Reshape(x, k) }"
    onnx.save(load(text, weights={"k": np.array([3])}), "bad.onnx")
    found = invoke("verify", "values.onnx", "bad.onnx", "--budget", "1%", code=WRONG).stdout
    assert "bad.onnx is over the budget of 1%: the model does not run: " in " ".join(found.split())


@cases(
    ("body", "shown"),
    {
        "overflow": ("y = Add(x, inf)", "y: 512 of 512 elements are NaN or infinite in only one of the models"),
        "not zero": ("y = Add(x, one)", "y: all elements of the original are 0, those of the other model are not"),
    },
)
def test_noise_without_limit(files: Path, body: str, shown: str) -> None:
    head = "g (float[N,4] x) => (float[N,4] y) {"
    onnx.save(load(f"{head} y = Sub(x, x) }}"), "zeros.onnx")
    onnx.save(load(f"{head} {body} }}", weights={"inf": np.float32(np.inf), "one": np.float32(1)}), "other.onnx")
    text = " ".join(invoke("verify", "zeros.onnx", "other.onnx", "--budget", "1%", code=WRONG).stdout.split())
    assert "other.onnx is over the budget of 1%: unbounded noise, on 128 samples drawn at random" in text
    assert shown in text


def test_figures() -> None:
    figures = OutputFigures()
    figures.add(np.array([3.0, -4.0, np.nan, np.inf]), np.array([3.0, -3.0, np.nan, np.inf]))
    assert (figures.largest_error, figures.mean_error, figures.magnitude) == (1.0, 0.25, 4.0)
    assert (figures.relative_noise, figures.nonfinite, figures.agreement) == (1 / 25, 0, None)
    figures.add(np.array([1.0, 2.0]), np.array([np.inf, 2.0]))
    assert (figures.snr, figures.nonfinite, figures.largest_error) == (-np.inf, 1, 1.0)


LONG = np.arange(2000.0)


@cases(
    ("wanted", "found", "loss", "change"),
    {
        "equal": ([LONG, LONG], [LONG, LONG], 0.0, ""),
        "noise in the middle of a long array": ([[LONG]], [[np.where(LONG == 1000, 2000, LONG)]], 1.5e-3, ""),
        "no noise that text shows": ([np.float64([1, 2])], [np.float64([1, 2 + 1e-12])], 0.0, ""),
        "a shorter sequence": ([np.ones(1), np.ones(3)], [np.ones(1)], 0.75, "a sequence of 2 became one of 1"),
        "a longer sequence": ([np.ones(1)], [np.ones(1), np.ones(1)], 1.0, "a sequence of 1 became one of 2"),
        "other numbers of rows": (np.ones((1, 4)), np.ones((3, 4)), 4.0, "float64[1, 4] became float64[3, 4]"),
        "no rows": (np.ones((0, 4)), np.ones((3, 4)), np.inf, "float64[0, 4] became float64[3, 4]"),
        "maps": ([{0: 0.4, 1: 0.6}, {0: 0.5, 1: 0.5}], [{0: 0.5, 1: 0.5}, {0: 0.5, 1: 0.5}], 0.5, ""),
        "maps of other keys": ([{0: 0.4, 1: 0.6}], [{0: 0.4, 2: 0.6}], 1.0, "a sequence of 1 became one of 0"),
        "an optional": (None, None, 0.0, ""),
    },
)
def test_other_shapes_and_types(wanted: Any, found: Any, loss: float, change: str) -> None:
    agreement = Agreement.of(["y"], OutputUses())
    agreement.add([wanted], [found])
    assert agreement.score().loss == pytest.approx(loss, rel=1e-3)
    assert agreement.outputs["y"].change.startswith(change)
    assert bool(agreement.outputs["y"].change) is bool(change)


def test_large_outputs_are_kept_in_files_and_added_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = (changed(VALUES, by).SerializeToString() for by in (0.0, 1e-3))
    scores = list[Score]()
    for kept, at_once in ((1 << 20, 1 << 20), (0, 3)):
        monkeypatch.setattr("passwright.app.measure.criterion.KEPT_BYTES", kept)
        monkeypatch.setattr("passwright.app.measure.agreement.FLOATS_AT_ONCE", at_once)
        feeds = [{"x": np.float32([[n, 1, 2, 3]])} for n in range(4)]
        criterion = AgreementCriterion(feeds, ["y"], Budget.parse("1%"), OutputUses())
        criterion.measure_original(one)
        scores.append(criterion.score(other))
    assert 0 < scores[0].loss == pytest.approx(scores[1].loss)


def test_samples_that_depend_on_their_batch_are_scored_in_batches_and_alone() -> None:
    """Next to a large sample, the numbers of a small one are both rounded to zero."""
    exact, rounded = (
        load(f"g (float[N,2] x) => (float[N,2] y) {{ {body} }}")
        for body in ("y = Identity(x)", "q, s, z = DynamicQuantizeLinear(x) y = DequantizeLinear(q, s, z)")
    )
    small, large, two = np.float32([[0.5, 1]]), np.float32([[1000, 500]]), np.float32([[1000, 500], [0.5, 1]])
    uses = OutputUses.of(model_source(exact, inline=True).load().graph, "top1")
    for arrays, axes, loss in (
        ([small, large], {"x": 0}, 0.5),
        ([small, large], {}, 0),
        ([small, two], {"x": 0}, 1 / 3),
        ([small], {"x": 0}, 0),
    ):
        criterion = AgreementCriterion([{"x": a} for a in arrays], ["y"], Budget.parse("1%"), uses, axes)
        criterion.measure_original(exact.SerializeToString())
        assert criterion.score(rounded.SerializeToString()).loss == pytest.approx(loss)


@cases(
    ("metric", "pairs", "figure", "loss"),
    {
        "classes": ("top1", [([[1.0, 2.0], [2.0, 1.0]], [[1.0, 2.0], [1.0, 2.0]])], 0.5, 0.5),
        "labels": ("", [([1, 2, 3, 4], [1, 2, 3, 5])], 0.75, 0.25),
        "noise": ("", [([[2.0, 0.0]], [[1.8, 0.0]])], 20.0, 0.01),
        "worst output": ("", [([1.0], [1.0]), ([1.0], [0.0])], 0.0, 1.0),
        "noise and labels": ("", [([1.0], [0.9]), ([1, 2], [1, 3])], 20.0, 0.5),
        "probabilities": ("", [([[0.4, 0.6], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]])], 0.5, 0.5),
        "logarithms": ("", [(np.log([[0.4, 0.6], [0.9, 0.1]]), np.log([[0.3, 0.7], [0.8, 0.2]]))], 1.0, 0.0),
        "numbers that add up to 2": ("", [([[1.4, 0.6], [0.6, 1.4]], [[1.4, 0.6], [0.6, 1.5]])], 15.05, 0.01 / 0.32),
        "few numbers": ("", [([[9.0, 1], [9, 2], [9, 3]], [[9.0, 1], [9, 2], [9, 4]])], 3.01, 0.5),
        "a number that does not vary": ("", [([[9.0, 1], [9, 2]], [[9.9, 1], [9.9, 2]])], 20.0, 0.01),
        "snr": ("snr", [([[9.0, 1], [9, 2], [9, 3]], [[9.0, 1], [9, 2], [9, 4]])], 24.10, 1 / 257),
        "long rows": ("", [([[0.0] * 40, [2.0] * 40], [[0.0] * 39 + [1.0], [2.0] * 40])], 19.03, 1 / 80),
        "classes and numbers": (
            "", [([[0.4, 0.6]], [[0.3, 0.7]]), ([[1.0], [2.0], [3.0]], [[1.0], [2.0], [4.0]])], 1.0, 0.5),
    },
)  # fmt: skip
def test_scores(metric: str, pairs: list[tuple[Any, Any]], figure: float, loss: float) -> None:
    uses = OutputUses(frozenset({"0"} if metric == "top1" else ()), metric=metric)
    agreement = Agreement.of([str(n) for n in range(len(pairs))], uses)
    agreement.add(*([np.asarray(v) for v in values] for values in zip(*pairs, strict=True)))
    score = agreement.score()
    assert (score.figure, score.loss) == (pytest.approx(figure, rel=1e-3), pytest.approx(loss))


@cases(
    ("body", "classes", "may_score"),
    {
        "Softmax": ("p = MatMul(x, w) y = Softmax(p)", "y", ""),
        "logarithms": ("p = MatMul(x, w) l = LogSoftmax(p) y = Identity(l)", "y", ""),
        "a product": ("y = MatMul(x, w)", "", "y"),
        "a sigmoid": ("p = MatMul(x, w) y = Sigmoid(p)", "", "y"),
        "a choice": ("y = MatMul(x, w) c = ArgMax<axis = 1, keepdims = 0>(y)", "y", ""),
        "the best": ("y = MatMul(x, w) k = Constant<value_ints = [1]>() b, c = TopK(y, k)", "y", ""),
        "Softmax of columns": ("p = MatMul(x, w) y = Softmax<axis = 0>(p)", "", "y"),
        "something else": ("y = Sin(x)", "", ""),
    },
)
def test_uses_of_outputs(body: str, classes: str, may_score: str) -> None:
    outputs = "float[N,3] y" + (", int64[N,1] c" if "b, c" in body else ", int64[N] c" if "ArgMax" in body else "")
    columns = 3 if "Sin" in body else 4
    weights = {} if columns == 3 else {"w": np.ones((4, 3), np.float32)}
    model = load(f"g (float[N,{columns}] x) => ({outputs}) {{ {body} }}", weights=weights)
    graph = model_source(model, inline=True).load().graph
    uses = OutputUses.of(graph)
    assert (" ".join(uses.classes), " ".join(uses.may_score)) == (classes, may_score)
    assert OutputUses.of(graph, "tokens").classes == {"y"}
    assert not OutputUses.of(graph, "r2").classes

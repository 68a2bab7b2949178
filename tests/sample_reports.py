"""Invented runs, comparisons and profiles for tests of pages, of any size and with any names."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from msgspec import structs
from passwright.app.compare.comparison_report import ComparisonReport, ComparisonVerdict, OnlineOptimization, Row
from passwright.app.compare.document import describe as describe_comparison
from passwright.app.measure.agreement import Score
from passwright.app.measure.bench import BenchReport, ModelBenchmark
from passwright.app.measure.document import describe as describe_bench
from passwright.app.measure.metrics import Latency, ModelMetrics, RatioInterval
from passwright.app.measure.model_stats import ModelStats
from passwright.app.measure.tuned_settings import Configuration, Recipe
from passwright.app.models.document import describe as describe_batch
from passwright.app.models.rows import Summary
from passwright.app.optimize.document import describe as describe_run
from passwright.app.profile.document import MAX_NODES
from passwright.app.profile.document import describe as describe_profile
from passwright.app.profile.profile_report import NodeTime, Profile, ProfileReport, TypeTime
from passwright.app.quantize.document import describe as describe_quantization
from passwright.app.quantize.report import FloatOp, HighPrecisionWeight, Measured, QuantizationReport, QuantizedOp
from passwright.app.quantize.search import Trial
from passwright.app.report.document import Document, failure_document
from passwright.app.report.graph_layout import GraphLayout, Link, Point
from passwright.app.report.page import page_html
from passwright.app.report.picture import Box, BoxKind, Picture
from passwright.app.report.result_row import ResultRow
from passwright.app.report.visualization import GraphView, NodeView, Rewrite, Visualization
from passwright.app.tune.advice import GAIN, NOT_TRIED, Advice, AdviceReport
from passwright.app.tune.advice import describe as describe_advice
from passwright.app.tune.document import describe as describe_tuning
from passwright.app.tune.objective import Objective
from passwright.app.tune.racing import RaceEntry
from passwright.app.tune.report import TimingNoise, TuneReport
from passwright.app.tune.search import TAKEN, DecisionResult, RaceTrial
from passwright.app.verify.document import describe as describe_verification
from passwright.app.verify.verify import VerificationReport
from passwright.core.errors import FailureKind
from passwright.core.rewriting.change_log import Change
from passwright.core.run.failures import RejectedChange
from passwright.core.run.report import PassRecord, Report, RunHint, Stats
from passwright.core.run.transforms import SkippedPass
from passwright.core.verify.input_sets import InputSet
from passwright.core.verify.verdict import Mismatch, OutputDifference, Verdict


def run_page(run: Report, drawn: Visualization | None = None) -> str:
    """The page of a run."""
    return page_html(describe_run(run, visualization=drawn))


def compare_page(beside: ComparisonReport, run: Report, drawn: Visualization | None) -> str:
    """The page of a comparison."""
    return page_html(describe_comparison(beside, run, drawn))


def profile_page(beside: ProfileReport, run: Report | None, drawn: Visualization | None) -> str:
    """The page of a profile."""
    return page_html(describe_profile(beside, MAX_NODES, run, drawn))


HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "\"quoted\" & 'single' `tick` ${x}",
    "two\nlines\tand a tab",
    "\u202eright to left \u05d0\u05d1\u05d2",
    "emoji \U0001f680 \u2028 end",
    "<!--<script>",
    "{{ 7 * 7 }} {% raw %}",
    "]]>&lt;nul\x00",
]
NAMES = [f"name_{n}" for n in range(len(HOSTILE))]
"""Names without characters that are special anywhere."""
COLUMN_STEP, ROW_STEP = 210.0, 84.0
TYPES = ["Conv", "BatchNormalization", "Relu", "Add", "MatMul", "Transpose", "Reshape", "Softmax", "Mul", "Gelu"]
VERIFIED = Verdict("onnxruntime", exact=True, input_sets=("normal",), differences={})
VERSIONS = {"passwright": "0.1.0", "onnx": "1.20.0", "onnxruntime": "1.23.0"}


def report(source: str = "model.onnx", *, rejected: bool = False) -> Report:
    """A run that made a model smaller."""
    before = {"Conv": 53, "BatchNormalization": 53, "Relu": 49, "Add": 16, "Transpose": 9, "Identity": 4, "Gemm": 1}
    after = {"Conv": 53, "Relu": 49, "Add": 16, "Gemm": 1, "Transpose": 2, "GlobalAveragePool": 1}
    return Report(
        source=source,
        pipeline="basic",
        before=Stats(before, sum(before.values()), 25_557_032, 102_442_450),
        after=Stats(after, sum(after.values()), 25_503_912, 102_146_208),
        passes=[
            PassRecord("fuse-conv", 53, {"fold_batch_norm_into_conv": 53}, 0.031),
            PassRecord("merge-transposes", 7, {"merge_transposes": 7}, 0.002),
        ],
        verification=Verdict(
            "onnxruntime 1.23.0", exact=False, input_sets=("normal",) * 11, nonfinite_input_sets=("nan", "inf"),
            differences={"logits": OutputDifference(error=1.9e-6, allowed=8.1e-5)},
        ),
        rejected=[
            RejectedChange(
                "pad-pool", "pad_into_max_pool", "y", FailureKind.WRONG, "y: off by up to 2.0 (allowed 3.1e-05)",
                ordinal=4, replaced=("pool", "pad"), input_set="normal inputs", repro="wrong/01-pad_into_max_pool-y",
            )
        ] if rejected else [],
        unfit=[SkippedPass("quantized", "the model has no quantized ops")] if rejected else [],
        seconds={"optimize": 0.2, "verify": 0.5},
        versions=VERSIONS,
    )  # fmt: skip


def trace(size: int, names: list[str] | None = None, changes: int | None = None) -> Visualization:
    """A model of `size` nodes in blocks, a third of them rewritten, with a body as the second graph."""
    names = names or []
    count = changes if changes is not None else max(size // 6, 1)
    after = graph_view("main", size, "made", names, body=True)
    return Visualization(
        [rewrite(n, names) for n in range(count)],
        [
            graph_view("main", size + size // 4, "gone", names, body=True),
            graph_view("then_branch of If_7", 8, "gone", names),
        ],
        [after, graph_view("then_branch of If_7", 6, "made", names)],
    )


def graph_view(title: str, size: int, mark: str, names: list[str], *, body: bool = False) -> GraphView:
    """Rows of one to four nodes, each reading the row above, with occasional residuals."""
    nodes: list[NodeView] = []
    centres: list[Point] = []
    links: list[Link] = []
    paths: list[tuple[Point, ...]] = []
    above: list[int] = []
    row = 0
    while len(nodes) < size:
        width = min([1, 1, 2, 1, 4, 3, 1][row % 7], size - len(nodes))
        here = list(range(len(nodes), len(nodes) + width))
        for i, place in enumerate(here):
            x = 480 + (i - (width - 1) / 2) * COLUMN_STEP
            centres.append((x, 30 + row * ROW_STEP))
            nodes.append(_node(place, mark if row % 7 in (2, 3) else "", names, (1,) * (body and row == 6)))
        pairs = (
            [(a, b) for a in above for b in here]
            if min(len(above), width) == 1
            else list(zip(above, here, strict=False))
        )
        if row % 7 == 6 and row > 7:
            pairs.append((here[0] - 11, here[0]))
        for a, b in pairs:
            links.append(Link(a, b, names[0] if names else f"v{a}"))
            paths.append(_path(nodes, centres, a, b))
        above, row = here, row + 1
    return GraphView(title, nodes, links, GraphLayout(960, 30 + row * ROW_STEP, centres, paths))


def _node(place: int, mark: str, names: list[str], bodies: tuple[int, ...]) -> NodeView:
    kind = "input" if place == 0 else "constant" if place % 29 == 5 else "op"
    name = names[place % len(names)] if names else f"/encoder/layer.{place // 12}/{TYPES[place % 10]}_{place}"
    title = name[:24] if kind != "op" else TYPES[place % len(TYPES)]
    lines = ("kernel_shape: [3, 3]", "W 64x64x3x3") if title == "Conv" else ()
    made = mark == "made"
    return NodeView(
        name, kind, "\n".join((title, *lines)), 184.0, 56.0 if lines else 40.0,
        details=("kernel_shape: [3, 3]", "strides: [1, 1]", "reads x float[N,64]", f"gives {name} float[N,64,56,56]"),
        mark=mark if kind == "op" else "",
        rule="fold_batch_norm_into_conv" if made else "",
        origin=(f"/encoder/layer.{place // 12}/{TYPES[place % 10]}_{place}", "bn_1") if made else (),
        rewrites=(place % 5,) if mark and kind == "op" else (),
        bodies=bodies,
    )  # fmt: skip


def _path(nodes: list[NodeView], centres: list[Point], a: int, b: int) -> tuple[Point, ...]:
    (x0, y0), (x1, y1) = centres[a], centres[b]
    start, end = (x0, y0 + nodes[a].height / 2), (x1, y1 - nodes[b].height / 2)
    if y1 - y0 > 1.5 * ROW_STEP:
        return start, (x0 - 1.6 * COLUMN_STEP, (start[1] + end[1]) / 2), end
    return start, end


def rewrite(n: int, names: list[str]) -> Rewrite:
    """Change `n`; three in four are alike except for the place."""
    name = names[n % len(names)] if names else f"/encoder/layer.{n}/conv"
    folded = n % 4 != 3
    gone, come = (["Conv", "BatchNormalization"], ["Conv"]) if folded else (["Transpose", "Transpose"], ["Transpose"])
    change = Change(
        ordinal=n,
        pass_name="fuse-conv" if folded else "merge-transposes",
        by="fold_batch_norm_into_conv" if folded else "merge_transposes",
        place=f"{name}:{n}",
        replaced=tuple(gone[::-1]),
        exact=not folded,
        made=tuple(come),
        nodes_saved=1,
        weight_bytes_saved=1024 if folded else 0,
    )
    return Rewrite(
        change,
        equation="BatchNormalization(Conv(x, w, b)) => Conv(x, w * s, (b - m) * s + B)"
        if folded
        else "Transpose(Transpose(x, p), q) => Transpose(x, p[q])",
        contract="rounding" if folded else "exact",
        before=picture(gone, name if n % 8 == 0 else "x") if n % 50 != 49 else None,
        after=picture(come, name if n % 8 == 0 else "x") if n % 50 != 49 else None,
    )


def picture(ops: list[str], value: str) -> Picture:
    """A chain of ops with weights, between two values."""
    drawn = Picture()
    last = drawn.add(Box(BoxKind.VALUE, (value[:20], "float[N,64,56,56]"), value))
    for op in ops:
        place = drawn.add(Box(BoxKind.OP, (op, "kernel_shape: [3, 3]"), op, marked=True))
        drawn.link(last, place)
        drawn.link(drawn.add(Box(BoxKind.CONSTANT, ("weight", "float[64,64,3,3]"), "weight")), place)
        last = place
    drawn.link(last, drawn.add(Box(BoxKind.VALUE, ("y", "float[N,64,56,56]"))))
    return drawn


def comparison(source: str = "model.onnx") -> ComparisonReport:
    """A comparison with correct, wrong, failed and unmeasured rows."""
    advice = "passes bisect model.onnx --ort all finds the optimizer that does it"
    rows = [
        row("original", 8.4e-3, None, 175),
        row("passwright", 7.9e-3, 0.41, 122),
        row("ORT BASIC", 8.0e-3, 0.2, 122),
        row("ORT EXTENDED", 6.3e-3, 0.22, 107),
        row("ORT ALL", 6.1e-3, 0.3, 107, wrong="y: off by up to 2.0 (allowed 3e-05), on normal inputs", advice=advice),
        row("original", 6.2e-3, None, 175, online=True),
        row("passwright", 5.4e-3, 0.41, 122, online=True, interval=RatioInterval(0.871, 0.852, 0.889)),
        row("onnxsim", 6.15e-3, 1.9, 122, online=True, interval=RatioInterval(0.99, 0.97, 1.02)),
        Row("onnxslim", "0.1.98", online=False, failure="onnxslim raised: list index out of range"),
    ]
    return ComparisonReport(
        source, "basic", rows, baseline=5,
        online_optimizations=[
            OnlineOptimization("original", 175, 107, 0.062, RatioInterval(0.74, 0.71, 0.77), (0.055, 0.069)),
            OnlineOptimization("passwright", 122, 105, 0.021, RatioInterval(0.98, 0.95, 1.01), (-0.002, 0.044)),
        ],
        threads=1, provider="CPUExecutionProvider", batches=[1, 8], sizes={"height": 224},
        verification="compared with onnxruntime 1.23.0 without optimizations on 11 sets of inputs",
        skipped_tools={"onnxoptimizer": "not installed"}, versions=VERSIONS, machine="2 cores, 8 GB",
    )  # fmt: skip


def row(
    made_by: str, median: float, seconds: float | None, nodes: int, *, online: bool = False, wrong: str = "",
    advice: str = "", interval: RatioInterval | None = None,
) -> Row:  # fmt: skip
    """A measured row."""
    foreign = ("com.microsoft.FusedConv",) if "EXTENDED" in made_by or "ALL" in made_by else ()
    latencies = {
        b: Latency(b, 400, b * median, b * median * 0.97, b * median * 1.04, b * median * 1.3, b * median * 1.6)
        for b in (1, 8)
    }
    return Row(
        made_by, "" if made_by != "onnxsim" else "0.8.1", online, seconds=seconds,
        stats=ModelStats({"Conv": 53, "Relu": nodes - 53}, 25_557_032, 102_442_450 - (175 - nodes) * 4000, foreign),
        online_stats=ModelStats({"Conv": 53, "Relu": nodes - 70}, 25_557_032, 0) if online else None,
        verdict=ComparisonVerdict(wrong, 2.0 if wrong else 1.9e-6, 8.1e-5),
        measured=ModelMetrics(
            "", 0.11, 214_000_000, 260_000_000, 48_000_000, {"CPUExecutionProvider": nodes}, latencies
        ),
        ratios={1: interval, 8: interval} if interval is not None else {}, advice=advice,
    )  # fmt: skip


def profile_pair(size: int = 120, names: list[str] | None = None) -> ProfileReport:
    """Two profiles, the second shorter."""
    return ProfileReport(
        "model.onnx", profile("original", size, 1.0, names), profile("optimized", size * 2 // 3, 0.8, names),
        "ALL", "CPUExecutionProvider", 1, {"N": 1}, {}, VERSIONS,
    )  # fmt: skip


def profile(label: str, size: int, scale: float, names: list[str] | None = None) -> Profile:
    """A sequence of nodes, some slow, most fast."""
    nodes: list[NodeTime] = []
    clock = 0.0
    for n in range(size):
        seconds = scale * (9e-5 if n % 5 == 0 else 2.1e-5 if n % 3 else 4e-6)
        name = names[n % len(names)] if names else f"/layer.{n}/{TYPES[n % 10]}"
        origin = (f"conv_{n}", f"bn_{n}") if n % 5 == 0 else ()
        rule = "fold_batch_norm_into_conv" if origin and scale < 1 else ""
        nodes.append(NodeTime(name, TYPES[n % 10], "CPUExecutionProvider", seconds, clock, (name,), origin, rule))
        clock += seconds + 1e-6
    counts, sums = Counter(n.op for n in nodes), Counter[str]()
    for node in nodes:
        sums[node.op] += node.seconds
    types = [TypeTime(op, counts[op], float(counts[op]), sums[op]) for op in counts]
    return Profile(label, 200, clock * 1.04, sum(sums.values()), nodes, types, Path("trace.json"))


def batch_summary(count: int = 3, names: Sequence[str] = ("a", "b", "c")) -> Summary:
    """The rows about models of a batch: verified ones, with rules of these names, and each third one failed."""
    rows = list[ResultRow]()
    for number in range(count):
        name = names[number % len(names)]
        row: ResultRow = {"model": f"{name} {number}.onnx", "do": "run", "exit_code": 0, "error": None}
        if number % 3 == 2:
            rows.append(row | {"outcome": "failed", "exit_code": 1, "error": f"{name} is no model"})
            continue
        sizes: ResultRow = {"nodes_before": 10 + number, "nodes_after": 5, "bytes_before": 1000, "bytes_after": 900}
        by_rule = {"rules": json.dumps({name: 2}), "rewrites": 2, "rejected": json.dumps([[name, name]])}
        rows.append(row | sizes | by_rule | {"outcome": "verified", "seconds": number + 0.5})
    return Summary(rows)


def metrics(median: float) -> ModelMetrics:
    """The metrics of a model with one and eight samples."""
    times = {
        b: Latency(b, 400, b * median, b * median * 0.97, b * median * 1.04, b * median * 1.3, b * median * 1.6)
        for b in (1, 8)
    }
    return ModelMetrics("", 0.11, 214_000_000, 260_000_000, 48_000_000, {"CPUExecutionProvider": 9}, times, 1)


def bench_report(names: Sequence[str]) -> BenchReport:
    """Three models, the last of which was not measured."""
    ratios = {1: RatioInterval(0.87, 0.85, 0.89), 8: RatioInterval(1.01, 0.98, 1.03)}
    models = [
        ModelBenchmark(names[0], 5_000_000, metrics(2e-3), accuracy=0.95),
        ModelBenchmark(names[1], 4_000_000, metrics(1.7e-3), ratios, accuracy=0.9487),
        ModelBenchmark(names[2], 9, ModelMetrics(f"{names[2]} is no model")),
    ]
    return BenchReport(
        models, "all", "CPUExecutionProvider", 1, [1, 8], {"time": 4}, "top-1", 200, names[0], versions=VERSIONS
    )


def quantization(names: Sequence[str]) -> QuantizationReport:
    """A search with all outcomes, whose result has ops and weights of all kinds."""
    near, faster = RatioInterval(0.987, 0.951, 1.043), RatioInterval(0.512, 0.498, 0.534)
    trials = [
        Trial(
            "static", "percentile, Softmax in float", 131, 67, 12_345_678, Score(31.2, 0.1), near, "another is faster"
        ),
        Trial("static", "GPTQ, int8-weights", 198, 0, 123_456_789, Score(0.98765, 0.5), faster, TAKEN),
        Trial("weights4", "HQQ", 12, 186, 987_654, None, None, f"invalid: node {names[0]}"),
        Trial("half-weights", "", 1198, 10, 0, None, RatioInterval(1.4, 1.3, 1.5), "slower than another"),
    ]
    return QuantizationReport(
        names[1], "static", "GPTQ, int8-weights", "x86-vnni", "1%", "SNR (dB)", 40.0,
        {"calibration": 128, "search": 299, "report": 300},
        Measured(5_000_000, metrics(2e-3), Score(42.0, 0.0)),
        Measured(1_400_000, metrics(1.1e-3), Score(31.2, 0.1), {1: faster, 8: near}),
        trials,
        [QuantizedOp(name, "Conv", "quantize_conv", 8, 0.02, 8, 0.003, 1e-4, 5e-5) for name in names],
        [FloatOp(name, "Softmax", names[2]) for name in names],
        [HighPrecisionWeight(names[0], 4_000_000, 16, "8 bits would save nothing")],
        [names[2]], 1, {"search": 1.0}, VERSIONS,
    )  # fmt: skip


def tuning(names: Sequence[str]) -> TuneReport:
    """A search with choices that were taken, taken back, and left."""
    better, near = RatioInterval(0.8, 0.75, 0.86), RatioInterval(0.99, 0.95, 1.04)

    def entry(ratio: RatioInterval, seconds: float, peak: int) -> RaceEntry:
        size = "batch=1"
        return RaceEntry("", ratio, ratio, {size: seconds}, {size: seconds * 1.6}, peak, peak // 2, 2)

    first, last = entry(RatioInterval(1, 1, 1), 2e-3, 90_000_000), entry(better, 1.6e-3, 80_000_000)
    return TuneReport(
        names[0], Objective(), Configuration(), Configuration(Recipe("ort", (names[1],))), first, last,
        [
            DecisionResult("pipeline", "ort", better, is_kept=True),
            DecisionResult(names[1], names[2], near, is_kept=False),
        ],
        [
            RaceTrial("pipeline", "ort", TAKEN, last, 0.8),
            RaceTrial("session", names[2], "slower", entry(near, 2.1e-3, 99_000_000), 1.05),
            RaceTrial("session", names[1], "the time limit was reached"),
        ],
        ["batch=1"], VERIFIED, TimingNoise(3, 1, 1.2), [names[1]], "2 cores, 8 GB", versions=VERSIONS,
        written_to=["tuned.onnx"],
    )  # fmt: skip


def advice(names: Sequence[str]) -> AdviceReport:
    """A technique that pays, and one that was not tried."""
    found = [
        Advice(names[0], GAIN, RatioInterval(0.8, 0.75, 0.86), 40_000_000, command=names[1]),
        Advice("accelerators", NOT_TRIED, reason=names[2], command=names[0]),
    ]
    return AdviceReport(names[0], found, tuning(names), names[1], 60.0, [names[2]])


def documents(names: Sequence[str] = NAMES) -> dict[str, Document]:
    """A document of each kind, with the names in all places where a model, a user or an optimizer sets them."""
    first, second, third = names[0], names[1], names[2]
    run, drawn, beside = report(second, rejected=True), trace(60, list(names)), comparison(second)
    run.rejected = [structs.replace(q, place=first, message=second, replaced=(third,)) for q in run.rejected]
    ops = {f"x::{name}": 90 + n for n, name in enumerate(names)}
    run.before = structs.replace(run.before, ops={**run.before.ops, **ops})
    run.passes[0].rules[first] = 1
    run.notes = [third]
    run.hints = [RunHint("convert-opset", "at opset 20, more ops could be fused (6 Gelu)", "--opset 20")]
    for number, name in enumerate(names[:3], 1):
        beside.rows[number] = structs.replace(beside.rows[number], made_by=name, version=name, advice=name)
    beside.rows[8] = structs.replace(beside.rows[8], failure=first)
    beside.skipped_tools, beside.sizes, beside.machine = {first: second}, {third: 3}, first
    output = {first: OutputDifference(1e-7, 1e-5), second: OutputDifference(0.0, 1e-5, excused=2)}
    verdict = structs.replace(VERIFIED, exact=False, differences=output, notes=(third,), random=(second,))
    wrong = structs.replace(VERIFIED, failure=Mismatch(first, "off by up to 2.0", InputSet("normal"), None))
    return {
        "run": describe_run(run, end=f"written to {first}", visualization=drawn),
        "check": describe_run(run, is_check=True),
        "unverified run": describe_run(replace(report(first), verification=None)),
        "compare": describe_comparison(beside, run, drawn),
        "profile": describe_profile(profile_pair(60, list(names)), MAX_NODES, run, drawn),
        "batch": describe_batch(batch_summary(9, names), "nothing written"),
        "bench": describe_bench(bench_report(names)),
        "quantize": describe_quantization(quantization(names)),
        "tune": describe_tuning(tuning(names)),
        "advise": describe_advice(advice(names)),
        "verify": describe_verification(VerificationReport(first, second, [], verdict)),
        "wrong": describe_verification(VerificationReport(first, second, [], wrong)),
        "interface": describe_verification(VerificationReport(first, second, [third], None)),
        "failure": failure_document("passes run", first, second, 1),
    }

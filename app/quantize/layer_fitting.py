"""Layers of a changed model fitted one after the other to the results of the original, for the inputs they have now.

Each makes up for the errors of those before it, by least squares, which needs neither labels nor gradients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from math import inf
from time import monotonic

import numpy as np
from msgspec import Struct

from ...core.calibration.collection import OPTIMIZED, RUN_TIMEOUT, collection_errors, write_samples
from ...core.calibration.layer_runs import WORKER, LayerRun
from ...core.calibration.statistics import MAX_WINDOWS, Rows
from ...core.io.model import Model
from ...core.io.model_source import ModelSource
from ...core.io.writer import write_for_sessions
from ...core.ir.op import Op
from ...core.ort.backends import session_memory
from ...core.processes.worker_process import WorkerProcess
from ...core.rewriting.builder import RewriteBuilder
from ...core.support.scratch_folder import ScratchFolder
from ...passes.quantization.channel_scales import replace_input
from ...passes.quantization.layer_rounding import MAX_COLUMNS, in_matrices, rows_of
from ...passes.quantization.pruning import bias_place, linear_ops
from ...passes.support.operand_queries import Array, operand, unless_declined
from ..measure.criterion import Feeds

Constants = dict[tuple[str, int], Array]
"""Constants by the result of the op that reads them, and the index of the input."""


RIDGES = (1e-3, 1e-2, 1e-1, 1.0)  # of the mean of the diagonal of Gram matrices


class Layer(Struct, frozen=True):
    """A layer of a changed model, the same one of the original, and the rows that its weights are multiplied with.

    `kept` are the channels of its result that are left, None for all.
    """

    op: Op
    original: Op
    rows: Rows
    kept: Array | None

    @classmethod
    def of(cls, op: Op, original: Op, kept: Array | None) -> Layer | None:
        """Read a layer whose weights nothing else reads; None for another."""
        w, rows = operand(op, 1), unless_declined(rows_of, op)
        is_alone = len(w.consumers) == 1 and w.producer is None and bool(np.isfinite(w.const).all())
        is_plain = op.attr("alpha", 1.0) == 1 and (op.input(2) is None or bias_place(op) is not None)
        fits = rows is not None and rows.columns <= MAX_COLUMNS and is_alone and is_plain
        return cls(op, original, rows, kept) if rows is not None and fits else None

    @property
    def results(self) -> Rows:
        """The rows of the result in the original."""
        first = self.op.type == "Conv" or self.op.attr("transB", 0)
        return Rows(operand(self.original, 1).static_shape[0 if first else 1], kernel=(1,) * len(self.rows.kernel))

    def fitted(self, x: Array, wanted: Array) -> Constants:
        """The weights, and the bias, with which rows of the input give rows of the original's result."""
        op, place, w = self.op, bias_place(self.op), operand(self.op, 1)
        y = (wanted if self.kept is None else wanted[..., self.kept]).reshape(len(wanted), self.rows.groups, -1)
        is_finite = np.isfinite(x).all(axis=(1, 2)) & np.isfinite(y).all(axis=(1, 2))
        x, y = (np.ascontiguousarray(a[is_finite].swapaxes(0, 1), np.float64) for a in (x, y))
        if not is_finite.any():
            return {}
        means = [a.mean(axis=1, keepdims=True) if place else np.zeros((1, 1, 1)) for a in (x, y)]
        x, y, old = x - means[0], y - means[1], in_matrices(op, w.const.astype(np.float64))
        found = old + correction(x, y - x @ old)
        shaped = found.swapaxes(1, 2) if op.type == "Conv" or op.attr("transB", 0) else found
        made: Constants = {(op.outputs[0].name, 1): shaped.reshape(w.static_shape).astype(w.const.dtype)}
        if place is not None:
            bias = (means[1] - means[0] @ found).reshape(-1)
            if place[0] is not op:  # an Add, whose bias the results of the product do not have
                before = bias_place(self.original)
                added = operand(*before).const if before is not None else np.zeros(1)
                bias += added if self.kept is None else added[self.kept]
            made[place[0].outputs[0].name, place[1]] = bias.astype(w.const.dtype)
        return made


def correction(x: Array, residual: Array) -> Array:
    """What to add to weights so that rows x (groups, rows, columns) give the residual, too, as ridge regression has it.

    The ridge is that with which one half of the rows predicts the other best; nothing is added if none does.
    """
    half = x.shape[1] // 2
    held = x[:, half:], residual[:, half:]
    errors: dict[float | None, float] = {None: float(np.square(held[1]).sum())}
    for ridge in RIDGES:
        predicted = held[0] @ _regression(x[:, :half], residual[:, :half], ridge)
        errors[ridge] = float(np.square(held[1] - predicted).sum())
    best = min(errors, key=lambda ridge: errors[ridge])
    return np.zeros((1, 1, 1)) if best is None else _regression(x, residual, best)


def _regression(x: Array, y: Array, ridge: float) -> Array:
    turned = x.swapaxes(1, 2)
    grams = turned @ x
    for g in grams:
        np.einsum("ii->i", g)[:] += ridge * np.trace(g) / len(g) or 1.0
    return np.linalg.solve(grams, turned @ y)


def fitted_layers(
    original: ModelSource,
    changed: ModelSource,
    kept: Mapping[str, Array],
    feeds: Sequence[Feeds],
    until: float = inf,
) -> Constants:
    """The constants of the layers of a changed model; `kept` are the channels that are left of results of layers.

    Layers are known by the names of their results. After `until`, a time of `monotonic`, no further ones are fitted.
    Raises ModelError if a model does not run on a sample.
    """
    before, after = original.load(), changed.load()
    known = {op.outputs[0].name: op for op in linear_ops(before.graph)}
    pairs = {op.outputs[0].name: op for op in linear_ops(after.graph) if op.outputs[0].name in known}
    read = {name: Layer.of(op, known[name], kept.get(name)) for name, op in pairs.items() if op.type != "ConvTranspose"}
    layers = {name: layer for name, layer in read.items() if layer is not None}
    found: Constants = {}
    with ExitStack() as stack:
        folder = stack.enter_context(ScratchFolder())
        samples = write_samples(feeds, folder)
        runs: list[LayerRun] = []
        for number, model in enumerate((before, after)):
            path = folder / f"{number}.onnx"
            write_for_sessions(model, path)
            memory = session_memory(path, OPTIMIZED)
            runs.append(stack.enter_context(WorkerProcess[LayerRun](WORKER, RUN_TIMEOUT, memory=memory)).call())
            with collection_errors():
                runs[-1].load(path, [*layers], samples, OPTIMIZED, holds=model is before)
        windows = -(-MAX_WINDOWS // len(samples))
        with collection_errors():
            while monotonic() <= until and (name := runs[1].next_layer()) is not None:
                runs[0].run_until(name)
                layer = layers[name]
                x = runs[1].rows(operand(layer.op).name, layer.rows, windows)
                made = layer.fitted(x, runs[0].rows(name, layer.results, windows))
                for (reader, index), constant in made.items():
                    runs[1].replace(reader, index, constant)
                runs[1].run_layer()
                found |= made
    return found


def set_constants(model: Model, constants: Constants) -> None:
    """Replace inputs of ops by constants."""
    ops = {op.outputs[0].name: op for op in model.graph.sorted_ops()}
    for (name, index), constant in constants.items():
        op = ops[name]
        like = operand(op, 1 if op.input(index) is None else index)
        replace_input(op, index, RewriteBuilder(model.graph, op).const(constant, like=like))

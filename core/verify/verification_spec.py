"""What an original is to be asked, made out before it is rewritten."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..io.model import Model
from ..io.model_source import Source
from ..ir.effects import leaves_traces, uses_half
from ..transform.specialize import require_symbols
from .dim_expressions import Sizes
from .empty_tensor_support import require_windows
from .given_inputs import checked, ranked_by, read_inputs, sizes_from_shapes
from .input_generation import Draw
from .input_specs import Input, signature
from .oracle import Oracle
from .seeded_session import random_outputs

Inputs = Mapping[str, Any] | str | Path
NONE: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Question:
    """The inputs and outputs of an original, and what is known of the numbers to give it.

    `half`: whether anything is computed in 16-bit floats, which backends do not reproduce to the bit. `stateful`:
    whether a run leaves traces in the weights.
    """

    inputs: list[Input]
    outputs: list[str]
    random: Collection[str]
    half: bool
    stateful: bool
    given: list[Draw]
    fixed: Sizes

    @classmethod
    def of(
        cls,
        model: Model,
        given: Inputs | None,
        shapes: Mapping[str, Sequence[int]],
        dims: Mapping[str, int] = NONE,
    ) -> Question:
        """Of sizes that `shapes` of inputs and those of symbols (`dims`) fix.

        Raises ModelError for given inputs, shapes and symbols that are not those of the model, Unverifiable for a
        convolution that never has anything to sum over.
        """
        require_symbols(model.graph, dims)
        require_windows(model.graph)
        inputs = ranked_by(shapes, signature(model))
        return cls(
            inputs,
            [v.name for v in model.graph.outputs],
            random_outputs(model.graph),
            uses_half(model.graph),
            leaves_traces(model.graph),
            _draws(given, inputs),
            {**sizes_from_shapes(shapes, inputs), **dims},
        )

    def put_to(self, source: Source, seed: int, boundaries: Collection[float] = ()) -> Oracle:
        """The answers of the original, around `boundaries` too.

        Raises Unverifiable, and ModelError for given inputs that do not run.
        """
        return Oracle(
            source.loadable(),
            self.inputs,
            self.outputs,
            given=self.given,
            fixed=self.fixed,
            seed=seed,
            random=self.random,
            boundaries=boundaries,
            fresh=self.stateful,
        )


def _draws(given: Inputs | None, inputs: Sequence[Input]) -> list[Draw]:
    if isinstance(given, Mapping):
        return [checked(Draw("given", {}, dict(given)), inputs)]
    return read_inputs(Path(given), inputs) if given is not None else []

"""Verification specs, which are derived from the original before it is rewritten."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod
from types import MappingProxyType

from msgspec import Struct

from ..errors import MORE_MEMORY, UnverifiableError
from ..io.model import Model
from ..ir.expressions import as_integers
from ..ir.graph import Graph, total_op_count
from ..ir.tensor import STRING, element_bits
from ..operators.effects import is_stateful, uses_16_bit_floats
from ..ort.empty_tensors import require_nonempty_filters
from ..processes.process_limits import memory_for_model
from ..transform.specialize import require_symbols
from .dim_expressions import Sizes
from .effort import Effort
from .given_inputs import GivenSamples, Inputs, read_inputs, sizes_from_shapes, with_given_shapes
from .input_sets import InputSet
from .input_specs import InputSpec, input_specs
from .run_budgets import NO_COSTS, RunCosts
from .seeded_session import random_outputs

COMBINED_PART = (0, 1)  # index of the first combined input set, and distance to the next; see VerificationSpec
NODE_BYTES = 100  # of a node in a file, approximately
VALUE_BUDGET = 512 << 20  # bytes, unless the memory is limited
NO_SIZES: Mapping[str, int] = MappingProxyType({})
NO_SHAPES: Mapping[str, Sequence[int]] = MappingProxyType({})


class VerificationSpec(Struct, frozen=True):
    """The inputs and outputs of an original, with given inputs and fixed sizes.

    Attributes:
        uses_half: whether 16-bit floats are computed, which backends do not reproduce to the bit.
        stateful: whether a run changes the weights in place.
        effort: determines how much is tried, given the `costs` of runs.
        memory: the limit, in bytes, for the process that runs the models; None for most of the machine's memory.
        combined_part: the index of the first combined input set to draw, and the distance to the next; a distance of 0
            stands for none.
        max_region_sets: the most input sets on which changed regions are compared; None for as many as their cost
            allows.
        notes: say which given inputs were skipped.
    """

    inputs: list[InputSpec]
    outputs: list[str]
    random_outputs: Collection[str]
    uses_half: bool
    stateful: bool
    given_inputs: list[InputSet]
    fixed_sizes: Sizes
    costs: RunCosts = NO_COSTS
    effort: Effort = "default"
    memory: int | None = None
    combined_part: tuple[int, int] = COMBINED_PART
    max_region_sets: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def value_budget(self) -> int:
        """The bytes of values to keep, for each kind of value; other values are computed again when they are needed."""
        return VALUE_BUDGET if self.memory is None else self.memory // 8

    @classmethod
    def of(
        cls,
        model: Model,
        given: Inputs | GivenSamples | None = None,
        shapes: Mapping[str, Sequence[int]] = NO_SHAPES,
        dims: Mapping[str, int] = NO_SIZES,
        *,
        effort: Effort = "default",
        memory: int | None = None,
    ) -> VerificationSpec:
        """The spec of `model`, with sizes fixed by `shapes` of inputs and `dims` of symbols.

        Raises ModelError for given inputs, shapes and symbols that do not fit the model, UnverifiableError for a
        convolution whose filter is always empty, and for a value larger than the memory, by default of the size of the
        model.
        """
        require_symbols(model.graph, dims)
        if memory is None:
            size = model.graph.context.weight_bytes + NODE_BYTES * total_op_count(model.graph)
            memory = memory_for_model(size, values=_largest_value(model.graph))
        _require_memory(model.graph, memory)
        require_nonempty_filters(model.graph)
        inputs = with_given_shapes(shapes, input_specs(model))
        given_inputs, notes = read_inputs(given, inputs) if given is not None else ([], ())
        return cls(
            inputs,
            [v.name for v in model.graph.outputs],
            random_outputs(model.graph),
            uses_16_bit_floats(model.graph),
            is_stateful(model.graph),
            given_inputs,
            {**sizes_from_shapes(shapes, inputs), **dims},
            RunCosts.of(model.graph),
            effort,
            memory,
            COMBINED_PART,
            notes=notes,
        )


def _largest_value(graph: Graph) -> int:
    """The bytes of the largest value of the main graph; unknown extents are assumed to be 2. O(V)."""
    values = (v for op in graph.ops() for v in op.outputs if v.type is None and v.known_dtype not in {0, STRING})
    shapes = ((v.known_dtype, v.known_shape or ()) for v in values)
    return max((prod(d if isinstance(d, int) else 2 for d in s) * element_bits(t) // 8 for t, s in shapes), default=0)


def _require_memory(graph: Graph, limit: int) -> None:
    """Raise UnverifiableError for a value of the main graph that never fits into `limit` bytes. O(V)."""
    for op in graph.ops():
        for value in op.outputs:
            extents = as_integers(value.known_shape or ()) if value.type is None else None
            if extents and value.known_dtype not in {0, STRING}:
                size = prod(extents) * element_bits(value.known_dtype) // 8
                if size > limit:
                    raise UnverifiableError(
                        f"{value.name} has {size / 1e9:.3g} GB, more than the {limit / 1e9:.3g} GB for verification; "
                        f"{MORE_MEMORY}"
                    )

"""What one golden model is: a name, a description, and the call of a real exporter."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Recipe:
    """`build` writes the model to the path it is given and returns the exporter with its version and options.

    `values` lists what an input may hold where it is neither 0/1 integers nor normal floats;
    `sizes` fixes symbolic dims that depend on one another, the others are drawn freely.
    A model of a `family` also has `workloads`: sizes of its dynamic dims but the batch, to time it at.
    """

    name: str
    description: str
    build: Callable[[Path], str]
    values: Mapping[str, Sequence[int] | Sequence[str]] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    family: str = ""
    workloads: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

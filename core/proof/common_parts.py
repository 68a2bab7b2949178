"""Values that both fragments of an obligation compute identically, which become its inputs.

What holds for any numbers in place of these values also holds for the computed ones. A large product that is in both
fragments is therefore not evaluated, and a proof for one layer applies to other layers with the same shapes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b

import onnx
from onnx import AttributeProto, helper

from ..serialization.proto_queries import captured_by, copy_without, has_subgraphs, read_names
from .obligation import Fragment, InputType, Obligation
from .obligation_queries import RANDOM_OPS
from .traced_array import leaves_of

CutType = Callable[[str], InputType | None]
"""The type of an input that replaces a value of the original; None if it is not replaced."""


@dataclass(slots=True)
class _Numbers:
    """Numbers of the values in both fragments; equal if computed identically from equal values."""

    known: dict[Hashable, int] = field(default_factory=dict[Hashable, int])

    def of(self, *key: Hashable) -> int:
        return self.known.setdefault(key, len(self.known))

    def values(self, fragment: Fragment) -> dict[str, int]:
        """The number of each value in a fragment."""
        graph = fragment.model.graph
        found = {"": -1} | {i.name: self.of("input", i.name) for i in graph.input}
        for tensor in graph.initializer:
            is_computed = tensor.name in fragment.computed
            found[tensor.name] = self.of("computed", tensor.name) if is_computed else self.of(_content(tensor))
        for place, node in enumerate(graph.node):
            if node.op_type in RANDOM_OPS or has_subgraphs(node):
                key: Hashable = (id(fragment), place)
            else:
                key = (node.op_type, node.domain, tuple(sorted(map(_attribute, node.attribute))), len(node.output))
            inputs = tuple(found[i] if i in found else self.of("own", id(fragment), i) for i in node.input)
            found.update((o, self.of(key, inputs, i)) for i, o in enumerate(node.output) if o)
        return found


def _content(tensor: onnx.TensorProto) -> Hashable:
    data = tensor.raw_data or tensor.SerializeToString(deterministic=True)
    name = "" if tensor.raw_data else tensor.name
    return tensor.data_type, tuple(tensor.dims), name, blake2b(data, digest_size=16).digest()


def _attribute(attribute: AttributeProto) -> bytes:
    return copy_without(attribute, "doc_string").SerializeToString(deterministic=True)


def without_common_parts(obligation: Obligation, cut_type: CutType) -> Obligation:
    """Replace the largest values that both fragments compute identically by inputs, if `cut_type` returns a type."""
    numbers = _Numbers()
    before, after = map(numbers.values, obligation.fragments)
    inputs = {i.name for i in obligation.inputs}
    shared = set(before.values()) & set(after.values())
    cut: dict[int, InputType] = {}
    for name, number in before.items():
        is_made = bool(name) and name not in inputs
        if is_made and number in shared and number not in cut and (given := cut_type(name)) is not None:
            cut[number] = given
    fragments = [_cut(f, n, cut) for f, n in ((obligation.before, before), (obligation.after, after))]
    return with_inputs(obligation, fragments[0], fragments[1], cut.values())


def with_inputs(obligation: Obligation, before: Fragment, after: Fragment, more: Iterable[InputType]) -> Obligation:
    """An obligation for other fragments, with the inputs that they read, from its own and from `more`."""
    read = [set(names_read(f)) for f in (before, after)]
    inputs = {i.name: i for i in (*more, *obligation.inputs)}
    for fragment, names in zip((before, after), read, strict=True):
        del fragment.model.graph.input[:]
        fragment.model.graph.input.extend(_value_info(i) for i in inputs.values() if i.name in names)
    kept = tuple(i for i in inputs.values() if any(i.name in names for names in read))
    return replace(obligation, before=before, after=after, inputs=kept)


def _value_info(given: InputType) -> onnx.ValueInfoProto:
    dims = [d if isinstance(d, int | str) else None for d in given.dims]
    return helper.make_tensor_value_info(given.name, given.dtype, dims)


def names_read(fragment: Fragment) -> Iterator[str]:
    """Yield the names that a fragment's nodes read, and the leaves of its computed constants."""
    graph = fragment.model.graph
    yield from (name for node in graph.node for name in read_names(node))
    yield from (o.name for o in graph.output)
    yield from (name for origin in fragment.computed.values() for name in leaves_of(origin))


def _cut(fragment: Fragment, numbers: Mapping[str, int], cut: Mapping[int, InputType]) -> Fragment:
    """A fragment that reads inputs instead of computing the cut values."""
    graph = fragment.model.graph
    producers = {o: place for place, node in enumerate(graph.node) for o in node.output if o}
    new = {name: cut[n].name for name, n in numbers.items() if n in cut}
    kept: set[int] = set()
    read: set[str] = set()
    queue = deque(o.name for o in graph.output if o.name not in new)
    while queue:
        name = queue.popleft()
        read.add(name)
        place = producers.get(name)
        if place is None or place in kept:
            continue
        kept.add(place)
        node = graph.node[place]
        queue.extend(i for i in node.input if i not in new)
        queue.extend(captured_by(node))
    model = onnx.ModelProto(ir_version=fragment.model.ir_version, opset_import=fragment.model.opset_import)
    model.graph.name = graph.name
    for place in sorted(kept):
        added = model.graph.node.add()
        added.CopyFrom(graph.node[place])
        for i, name in enumerate(added.input):
            added.input[i] = new.get(name, name)
    model.graph.initializer.extend(t for t in graph.initializer if t.name in read)
    for output in graph.output:
        if output.name in new:
            model.graph.node.append(helper.make_node("Identity", [new[output.name]], [output.name]))
        model.graph.output.append(output)
    return replace(fragment, model=model, computed={n: o for n, o in fragment.computed.items() if n in read})

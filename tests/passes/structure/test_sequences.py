"""Sequences that are built and taken apart in one graph."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.structure import sequences
from rewriting import apply_passes, becomes, cases, load, op_types, require_equivalent, stays

RESOLVE_SEQUENCES = rule_pass(sequences, "resolve-sequences")

C = (
    "<int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64 last = {-1}, int64 far = {9},"
    " int64[3] sizes = {1,0,3}, int64[1] four = {4}>"
)
G = f"g (float[2,3] x, float[2,3] z, float[4,3] w, float[N,3] v, int64 k) => (float[n,m] y) {C}"
N = G.replace("(float[n,m] y)", "(int64 y)")
ABC = "s = SequenceConstruct(x, z, x)"


@cases(
    ("before", "after"),
    {
        "a piece": (f"{ABC} a = SequenceAt(s, one) y = Neg(a)", "y = Neg(z)"),
        "the last piece, as an output": (f"{ABC} y = SequenceAt(s, last)", "y = Identity(x)"),
        "two pieces": (f"{ABC} a = SequenceAt(s, zero) b = SequenceAt(s, one) y = Sub(a, b)", "y = Sub(x, z)"),
        "joined": (f"{ABC} y = ConcatFromSequence<axis=1>(s)", "y = Concat<axis=1>(x, z, x)"),
        "from the back": (f"{ABC} y = ConcatFromSequence<axis=-2>(s)", "y = Concat<axis=-2>(x, z, x)"),
        "a single one on a new axis": (
            (
                "s = SequenceConstruct(x) a = ConcatFromSequence<axis=1, new_axis=1>(s)"
                " y = ReduceMax<axes=[1], keepdims=0>(a)"
            ),
            "a = Unsqueeze(x, one) y = ReduceMax<axes=[1], keepdims=0>(a)",
        ),
        "inserted at the end": (
            "s = SequenceConstruct(x) t = SequenceInsert(s, z) y = ConcatFromSequence<axis=0>(t)",
            "y = Concat<axis=0>(x, z)",
        ),
        "inserted before the last": (
            "s = SequenceConstruct(x, x) t = SequenceInsert(s, z, last) y = ConcatFromSequence<axis=0>(t)",
            "y = Concat<axis=0>(x, z, x)",
        ),
        "inserted behind the last": (
            "s = SequenceConstruct(x, x) t = SequenceInsert(s, z, two) y = ConcatFromSequence<axis=0>(t)",
            "y = Concat<axis=0>(x, x, z)",
        ),
        "begun with nothing": (
            (
                "e = SequenceEmpty() s = SequenceInsert(e, x) t = SequenceInsert(s, z, zero)"
                " y = ConcatFromSequence<axis=0>(t)"
            ),
            "y = Concat<axis=0>(z, x)",
        ),
        "erased at the end": (
            f"{ABC} t = SequenceErase(s) y = ConcatFromSequence<axis=0>(t)",
            "y = Concat<axis=0>(x, z)",
        ),
        "erased in the middle": (
            f"{ABC} t = SequenceErase(s, one) y = ConcatFromSequence<axis=0>(t)",
            "y = Concat<axis=0>(x, x)",
        ),
        "the last inserted": (
            (
                "e = SequenceEmpty() s = SequenceInsert(e, v) t = SequenceInsert(s, x, k) u = SequenceInsert(t, z)"
                " y = SequenceAt(u, last)"
            ),
            "y = Identity(z)",
        ),
        "a slice, by sizes": (
            "s = SplitToSequence<axis=0>(w, sizes) y = SequenceAt(s, two)",
            "y = Slice(w, one, one, one)",
        ),
        "a slice, by size, the last": (
            "s = SplitToSequence<axis=1>(w, two) y = SequenceAt(s, last)",
            "y = Slice(w, one, one, one)",
        ),
        "a slice of unknown extent": (
            "s = SplitToSequence(v, two) y = SequenceAt(s, zero)",
            "y = Slice(v, one, one, one)",
        ),
        "one by one": ("s = SplitToSequence(w) y = SequenceAt(s, one)", "y = Slice(w, one, one, one)"),
        "one by one, without the axis": (
            "s = SplitToSequence<keepdims=0>(v) a = SequenceAt(s, last) y = Add(a, x)",
            "a = Gather<axis=0>(v, last) y = Add(a, x)",
        ),
        "split and joined": ("s = SplitToSequence<axis=1>(v) y = ConcatFromSequence<axis=-1>(s)", "y = Identity(v)"),
        "split and joined on a new axis": (
            "s = SplitToSequence<keepdims=0>(w) a = ConcatFromSequence<axis=0, new_axis=1>(s) y = Neg(a)",
            "y = Neg(w)",
        ),
        "the sequence has other readers": (
            f"{ABC} u = SequenceAt(s, k) a = SequenceAt(s, one) y = Sub(u, a)",
            f"{ABC} u = SequenceAt(s, k) y = Sub(u, z)",
        ),
    },
)
def test_becomes(before: str, after: str) -> None:
    becomes(f"{G} {{ {before} }}", f"{G} {{ {after} }}", RESOLVE_SEQUENCES, runs="SequenceAt(s, k)" not in before)


@cases(
    "before",
    {
        "of a built sequence": (f"{ABC} a = SequenceLength(s) y = Add(a, k)"),
        "of nothing": ("s = SequenceEmpty() a = SequenceLength(s) y = Add(a, k)"),
        "of a split tensor": ("s = SplitToSequence(w, sizes) a = SequenceLength(s) y = Add(a, k)"),
        "and by a size": ("s = SplitToSequence<axis=1>(w, two) a = SequenceLength(s) y = Add(a, k)"),
        "and one by one": ("s = SplitToSequence(w) a = SequenceLength(s) y = Add(a, k)"),
        "of an emptied sequence": ("s = SequenceConstruct(x) t = SequenceErase(s) a = SequenceLength(t) y = Add(a, k)"),
    },
)
def test_lengths_are_folded(before: str) -> None:
    becomes(f"{N} {{ {before} }}", f"{N} {{ y = Add(one, k) }}", RESOLVE_SEQUENCES)


@cases(
    ("text", "runs"),
    {
        "out of range": (f"{ABC} y = SequenceAt(s, far)", False),
        "at an unknown place": (f"{ABC} y = SequenceAt(s, k)", False),
        "several on a new axis": (
            f"{ABC} a = ConcatFromSequence<axis=0, new_axis=1>(s) y = ReduceSum<keepdims=0>(a, four)",
            False,
        ),
        "the last of an unknown number": ("s = SplitToSequence(v, two) y = SequenceAt(s, last)", True),
        "split by an unknown size": ("s = SplitToSequence(v, k) y = SequenceAt(s, zero)", False),
        "keepdims beside a size, of which one piece is taken": (
            "s = SplitToSequence<keepdims=0>(v, one) y = SequenceAt(s, zero)",
            False,
        ),
        "keepdims beside a size, joined again": (
            "s = SplitToSequence<keepdims=0>(w, one) y = ConcatFromSequence<axis=0>(s)",
            False,
        ),
        "joined along another axis": ("s = SplitToSequence<axis=0>(w) y = ConcatFromSequence<axis=1>(s)", True),
        "split without the axis, joined with none new": (
            "s = SplitToSequence<keepdims=0>(w) a = ConcatFromSequence<axis=0>(s) y = Add(a, one_f)",
            False,
        ),
        "split with the axis, joined with a new one": (
            "s = SplitToSequence<axis=0>(w) a = ConcatFromSequence<axis=0, new_axis=1>(s) y = Reshape(a, two)",
            False,
        ),
    },
)
def test_stays(text: str, runs: bool) -> None:
    head = G.replace("four = {4}", "four = {4}, float one_f = {1}")
    stays(f"{head} {{ {text} }}", RESOLVE_SEQUENCES, runs=runs)


@cases(
    "text",
    {
        "a sequence from outside": (
            "g (seq(float[2]) q, float[2] x) => (float[n] y) <int64 i = {0}>"
            " { s = SequenceInsert(q, x) y = SequenceAt(s, i) }"
        ),
        "its length": ("g (seq(float[2]) q) => (int64 y) { y = SequenceLength(q) }"),
        "an overridable place": (
            "g (float[2] x, int64 i = {0}) => (float[n] y) { s = SequenceConstruct(x, x) y = SequenceAt(s, i) }"
        ),
        "as an output": ("g (float[2] x) => (seq(float[2]) s) { s = SequenceConstruct(x, x) }"),
    },
)
def test_stays_elsewhere(text: str) -> None:
    stays(text, RESOLVE_SEQUENCES, runs="i = {0})" not in text)


def test_strings() -> None:
    head = "g (string[2] x, string[2] z) => (string[n] y) <int64 i = {1}>"
    becomes(f"{head} {{ s = SequenceConstruct(x, z) y = ConcatFromSequence<axis=0>(s) }}",
            f"{head} {{ y = Concat<axis=0>(x, z) }}", RESOLVE_SEQUENCES)  # fmt: skip


@given(
    steps=st.lists(st.tuples(st.sampled_from(["insert", "erase"]), st.integers(-5, 5)), max_size=6),
    at=st.integers(-3, 3),
)
def test_any_edits(steps: list[tuple[str, int]], at: int) -> None:
    names, pieces, lines = ["x", "z"], ["x", "z"], ["s0 = SequenceConstruct(x, z)"]
    constants: list[str] = []
    for i, (what, where) in enumerate(steps):
        n = len(pieces)
        if what == "erase" and n < 2:
            continue
        place = where % (n + 1) - (n if where < 0 else 0) if what == "insert" else where % n - (n if where < 0 else 0)
        constants.append(f"int64 c{i} = {{{place}}}")
        last = f"s{len(lines) - 1}"
        name = names[i % 2]
        if what == "insert":
            pieces.insert(place, name)
            lines.append(f"s{len(lines)} = SequenceInsert({last}, {name}, c{i})")
        else:
            del pieces[place]
            lines.append(f"s{len(lines)} = SequenceErase({last}, c{i})")
    constants.append(f"int64 at = {{{at % len(pieces)}}}")
    head = f"g (float[2] x, float[2] z) => (float[n] y, float[m] w) <{', '.join(constants)}>"
    last = f"s{len(lines) - 1}"
    text = f"{' '.join(lines)} y = ConcatFromSequence<axis=0>({last}) a = SequenceAt({last}, at) w = Neg(a)"
    model = load(f"{head} {{ {text} }}")
    result, _ = apply_passes(model, RESOLVE_SEQUENCES)
    out = to_onnx(result)
    assert op_types(out) == ["Concat", "Neg"]
    assert list(out.graph.node[0].input) == pieces
    assert list(out.graph.node[1].input) == [pieces[at % len(pieces)]]
    require_equivalent(model, out, exact=True)

"""Sequences that are built and taken apart in one graph."""

from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.structure import sequences
from rewrite_tables import Rewrites
from rewriting import apply_passes, load, op_types, require_equivalent

RESOLVE_SEQUENCES = rule_pass(sequences, "resolve-sequences")

C = (
    "<int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64 last = {-1}, int64 far = {9},"
    " int64[3] sizes = {1,0,3}, int64[1] four = {4}>"
)
G = f"g (float[2,3] x, float[2,3] z, float[4,3] w, float[N,3] v, int64 k) => (float[n,m] y) {C}"
N = G.replace("(float[n,m] y)", "(int64 y)")
ABC = "s = SequenceConstruct(x, z, x)"

rewrites = Rewrites(
    "g (float[2,3] x, float[2,3] z, float[4,3] w, float[N,3] v, int64 k) => (float[] y)", RESOLVE_SEQUENCES
)

test_becomes = rewrites.all_become(f"""
    a piece: {ABC} a = SequenceAt(s, 1) y = Neg(a) => y = Neg(z)
    the last piece, as an output: {ABC} y = SequenceAt(s, -1) => y = Identity(x)
    two pieces: {ABC} a = SequenceAt(s, 0) b = SequenceAt(s, 1) y = Sub(a, b) => y = Sub(x, z)
    joined: {ABC} y = ConcatFromSequence<axis=1>(s) => y = Concat<axis=1>(x, z, x)
    from the back: {ABC} y = ConcatFromSequence<axis=-2>(s) => y = Concat<axis=-2>(x, z, x)
    a single one on a new axis: s = SequenceConstruct(x) a = ConcatFromSequence<axis=1, new_axis=1>(s)
        y = ReduceMax<axes=[1], keepdims=0>(a) => a = Unsqueeze(x, one) y = ReduceMax<axes=[1], keepdims=0>(a)
    inserted at the end: s = SequenceConstruct(x) t = SequenceInsert(s, z) y = ConcatFromSequence<axis=0>(t)
        => y = Concat<axis=0>(x, z)
    inserted before the last: s = SequenceConstruct(x, x) t = SequenceInsert(s, z, -1) y = ConcatFromSequence<axis=0>(t)
        => y = Concat<axis=0>(x, z, x)
    inserted behind the last: s = SequenceConstruct(x, x) t = SequenceInsert(s, z, 2) y = ConcatFromSequence<axis=0>(t)
        => y = Concat<axis=0>(x, x, z)
    begun with nothing [graph=g (float[2,3] x, float[2,3] z, float[4,3] w, float[N,3] v, int64 k) => (float[n,m] y)]:
        e = SequenceEmpty() s = SequenceInsert(e, x) t = SequenceInsert(s, z, 0) y = ConcatFromSequence<axis=0>(t)
        => y = Concat<axis=0>(z, x)
    erased at the end: {ABC} t = SequenceErase(s) y = ConcatFromSequence<axis=0>(t) => y = Concat<axis=0>(x, z)
    erased in the middle: {ABC} t = SequenceErase(s, 1) y = ConcatFromSequence<axis=0>(t) => y = Concat<axis=0>(x, x)
    the last inserted [graph=g (float[2,3] x, float[2,3] z, float[4,3] w, float[N,3] v, int64 k) => (float[n,m] y)]:
        e = SequenceEmpty() s = SequenceInsert(e, v) t = SequenceInsert(s, x, k) u = SequenceInsert(t, z)
        y = SequenceAt(u, -1) => y = Identity(z)
    a slice, by sizes: s = SplitToSequence<axis=0>(w, [1,0,3]) y = SequenceAt(s, 2) => y = Slice(w, one, one, one)
    a slice, by size, the last: s = SplitToSequence<axis=1>(w, 2) y = SequenceAt(s, -1) => y = Slice(w, one, one, one)
    a slice of unknown extent: s = SplitToSequence(v, 2) y = SequenceAt(s, 0) => y = Slice(v, one, one, one)
    one by one: s = SplitToSequence(w) y = SequenceAt(s, 1) => y = Slice(w, one, one, one)
    one by one, without the axis: s = SplitToSequence<keepdims=0>(v) a = SequenceAt(s, -1) y = Add(a, x)
        => a = Gather<axis=0>(v, last) y = Add(a, x)
    split and joined: s = SplitToSequence<axis=1>(v) y = ConcatFromSequence<axis=-1>(s) => y = Identity(v)
    split and joined on a new axis:
        s = SplitToSequence<keepdims=0>(w) a = ConcatFromSequence<axis=0, new_axis=1>(s) y = Neg(a) => y = Neg(w)
    the sequence has other readers [runs=False]: {ABC} u = SequenceAt(s, k) a = SequenceAt(s, 1) y = Sub(u, a)
        => {ABC} u = SequenceAt(s, k) y = Sub(u, z)
    strings [graph=g (string[2] x, string[2] z) => (string[] y)]:
        s = SequenceConstruct(x, z) y = ConcatFromSequence<axis=0>(s) => y = Concat<axis=0>(x, z)
""")

test_lengths_are_folded = rewrites.using(
    graph="g (float[2,3] x, float[2,3] z, float[4,3] w, float[N,3] v, int64 k) => (int64[] y)"
).all_become(f"""
    of a built sequence: {ABC} a = SequenceLength(s) y = Add(a, k) => y = Add(one, k)
    of nothing: s = SequenceEmpty() a = SequenceLength(s) y = Add(a, k) => y = Add(one, k)
    of a split tensor: s = SplitToSequence(w, [1,0,3]) a = SequenceLength(s) y = Add(a, k) => y = Add(one, k)
    and by a size: s = SplitToSequence<axis=1>(w, 2) a = SequenceLength(s) y = Add(a, k) => y = Add(one, k)
    and one by one: s = SplitToSequence(w) a = SequenceLength(s) y = Add(a, k) => y = Add(one, k)
    of an emptied sequence: s = SequenceConstruct(x) t = SequenceErase(s) a = SequenceLength(t) y = Add(a, k)
        => y = Add(one, k)
""")

test_stays = rewrites.using(runs=False).all_stay(f"""
    out of range: {ABC} y = SequenceAt(s, 9)
    at an unknown place: {ABC} y = SequenceAt(s, k)
    several on a new axis [graph=g (float[2,3] x, float[2,3] z, float[4,3] w, float[N,3] v, int64 k) => (float[n,m] y)]:
        {ABC} a = ConcatFromSequence<axis=0, new_axis=1>(s) y = ReduceSum<keepdims=0>(a, [4])
    the last of an unknown number [runs]: s = SplitToSequence(v, 2) y = SequenceAt(s, -1)
    split by an unknown size: s = SplitToSequence(v, k) y = SequenceAt(s, 0)
    keepdims beside a size, of which one piece is taken: s = SplitToSequence<keepdims=0>(v, 1) y = SequenceAt(s, 0)
    keepdims beside a size, joined again: s = SplitToSequence<keepdims=0>(w, 1) y = ConcatFromSequence<axis=0>(s)
    joined along another axis [runs]: s = SplitToSequence<axis=0>(w) y = ConcatFromSequence<axis=1>(s)
    split without the axis, joined with none new [graph=g (float[2,3] x, float[2,3] z, float[4,3] w, float[N,3] v, int64
        k) => (float[n,m] y)]: s = SplitToSequence<keepdims=0>(w) a = ConcatFromSequence<axis=0>(s) y = Add(a, 1.0)
    split with the axis, joined with a new one [graph=g (float[2,3] x, float[2,3] z, float[4,3] w, float[N,3] v, int64
        k) => (float[n,m] y)]:
        s = SplitToSequence<axis=0>(w) a = ConcatFromSequence<axis=0, new_axis=1>(s) y = Reshape(a, 2)
""")

test_stays_elsewhere = rewrites.all_stay("""
    a sequence from outside [graph=g (seq(float[2]) q, float[2] x) => (float[] y)]:
        s = SequenceInsert(q, x) y = SequenceAt(s, 0)
    its length [graph=g (seq(float[2]) q) => (int64[] y)]: y = SequenceLength(q)
    an overridable place [graph=g (float[2] x, int64 i = {0}) => (float[] y); runs=False]:
        s = SequenceConstruct(x, x) y = SequenceAt(s, i)
    as an output [graph=g (float[2] x) => (seq(float[2]) s)]: s = SequenceConstruct(x, x)
""")


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

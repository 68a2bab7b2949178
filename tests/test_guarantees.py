"""Recorded guarantees of the built-in rules, which may only grow."""

from itertools import islice
from pathlib import Path

import pytest
from passwright.app.cli.entry import app
from passwright.app.registry.guarantees import NO_GUARANTEE, guarantee_counts, recorded_proofs
from passwright.core.proof.prover import Prover, prove_rule
from passwright.core.run.report import PassRecord
from passwright.core.verify.proof_guarantees import PROOFS, Guarantee
from prove import built_in_rules, models_of, proof_of
from rewriting import load
from tiers import slow_unless
from typer.testing import CliRunner

MIN_PROVED = 231
"""A ratchet: of all recorded rules, so many are proved. It falls only where models have more kinds of ops."""
MIN_EXACT = 102
"""One less since models of `keep_or_drop_reduced_axes` have an ArgMax of floats, on which no proof is exact."""
RULES = {r.name: r for _, r in built_in_rules()}
PROVED = sorted(name for name, proof in recorded_proofs().items() if proof.is_proved)
SAMPLE = {
    "cancel_depth_and_space", "cancel_transposes", "factor_out_constant", "fuse_gelu", "fuse_gemm",
    "merge_conv_with_affine",
}  # fmt: skip


def test_every_built_in_rule_is_recorded() -> None:
    assert set(recorded_proofs()) == set(RULES)
    assert {p.pass_name for p in recorded_proofs().values()} == {name for name, _ in built_in_rules()}


def test_the_number_of_proved_rules_does_not_fall() -> None:
    proofs = recorded_proofs().values()
    assert sum(p.is_proved for p in proofs) >= MIN_PROVED
    assert sum(p.keeps_bits for p in proofs) >= MIN_EXACT


def test_the_words_of_the_table_are_those_of_verdicts() -> None:
    assert {p.guarantee for p in recorded_proofs().values()} <= set(map(str, Guarantee))
    assert {p.guarantee for p in recorded_proofs().values() if p.is_proved} <= set(map(str, PROOFS))


@pytest.mark.parametrize("name", slow_unless(SAMPLE, PROVED))
def test_what_is_recorded_as_proved_is_proved(name: str) -> None:
    """By the finite field alone; with z3 in addition where the field leaves something open."""
    proof = prove_rule(RULES[name], [*islice(models_of(RULES[name], attempts=10), 3)], Prover())
    if proof.models and proof.guarantee not in PROOFS:
        from passwright.testing.check import default_prover

        proof = proof_of(RULES[name], default_prover())
    assert not proof.models or proof.guarantee in PROOFS, list(proof.lines())


def test_changes_of_a_run_are_counted_by_guarantee() -> None:
    own = next(p for p in recorded_proofs().items() if p[1].is_proved)
    passes = [PassRecord(own[1].pass_name, 3, {own[0]: 3}, 0.0), PassRecord("mine", 2, {own[0]: 2}, 0.0)]
    passes.append(PassRecord("merge-constants", 7, {"merge-constants": 7}, 0.0))  # computes nothing
    counts = guarantee_counts(passes)
    assert counts == {own[1].guarantee: 3, NO_GUARANTEE: 2}


def test_table_of_a_run_gives_the_guarantee_of_each_rule(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    text = "g (float[2,3] x) => (float[2,3] y) { a = Transpose<perm=[1,0]>(x) b = Transpose<perm=[1,0]>(a) y = Neg(b) }"
    model.write_bytes(load(text).SerializeToString())
    lines = CliRunner().invoke(app, ["run", str(model), "--no-verify", "-v"]).output.splitlines()
    rows = [line for line in lines if line.startswith("│") and any(name in line for name in RULES)]
    assert rows
    assert all(Guarantee.EXACT.value in row for row in rows)

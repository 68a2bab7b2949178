"""Records the guarantee of each built-in rule: `python docs/catalogue/prove.py [NAME ...]`.

Each rule is proved on its smallest example and on models generated from its pattern on which it fires. `passes list`,
the catalogue and the report of a run show what is recorded. With names, only those rules are proved anew.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from time import perf_counter

import numpy as np
import onnx
from facts import passes_by_family
from msgspec.structs import asdict, replace
from passwright.app.registry.guarantees import FILE, RecordedProof, recorded_proofs
from passwright.core import Rule, RulePass
from passwright.core.proof.prover import NUMBERS_ONLY, Prover, RuleProof, prove_rule
from passwright.testing.check import default_prover
from passwright.testing.guided_search import guided_search
from record import Example, load_examples

ATTEMPTS = 400
MORE_EXAMPLES = {
    "drop_unit_resize": Example(
        18, "g (float[n,3,2,2] x) => (float[n,3,2,2] y) <int64[2] s = {2,2}> { y = Resize<axes=[2,3]>(x, , , s) }"
    )
}
"""Models for lines of a rule that the search for models seldom reaches."""


def main(names: Iterable[str]) -> int:
    """Prove rules, record the results and print a summary."""
    wanted = set(names)
    known = dict(recorded_proofs()) if wanted else {}
    start = perf_counter()
    prover = default_prover()
    for pass_name, rule in built_in_rules():
        if not wanted or rule.name in wanted:
            began = perf_counter()
            found = known[rule.name] = record(pass_name, proof_of(rule, prover))
            write_proofs(known)
            sys.stdout.write(f"{rule.name}: {found.guarantee}, {perf_counter() - began:.1f} s\n")
            sys.stdout.flush()
    counts = Counter(r.guarantee for r in known.values())
    proved = sum(r.is_proved for r in known.values())
    sys.stdout.write(f"{proved} of {len(known)} proved in {perf_counter() - start:.0f} s: {dict(counts)}\n")
    return 0


def built_in_rules() -> Iterator[tuple[str, Rule]]:
    """The rules of the catalogue, each with its pass."""
    passes = (p for ps in passes_by_family().values() for p in ps)
    return ((p.name, r) for p in passes if isinstance(p, RulePass) for r in p.rules)


def models_of(rule: Rule, attempts: int = ATTEMPTS) -> Iterator[onnx.ModelProto]:
    """Examples of a rule, and generated models on which it fires."""
    given = [e.model() for examples in (load_examples(), MORE_EXAMPLES) if (e := examples.get(rule.name)) is not None]
    yield from given
    cases = guided_search(rule, examples=given).generate(attempts)
    while True:
        with np.errstate(all="ignore"):
            found = next(cases, None)
        if found is None:
            return
        if found.fired and not found.case.no_fire_reason:
            yield found.case.model


def proof_of(rule: Rule, prover: Prover, attempts: int = ATTEMPTS) -> RuleProof:
    """The proof of a rule on its models."""
    return prove_rule(rule, models_of(rule, attempts), prover)


def record(pass_name: str, proof: RuleProof) -> RecordedProof:
    """The recorded part of a proof."""
    lines = list(proof.lines())
    reasons = tuple(reason for reason, _ in proof.reasons.most_common(2))
    holding = len(proof.holding)
    text = f"{proof.summary}; {NUMBERS_ONLY}" if NUMBERS_ONLY in lines else proof.summary
    found = RecordedProof(pass_name, str(proof.guarantee), text, proof.keeps_bits, holding, len(proof.models))
    return replace(found, reached_sites=len(proof.reached_sites & proof.sites), sites=len(proof.sites), reasons=reasons)


def write_proofs(proofs: Mapping[str, RecordedProof]) -> None:
    """Write the table anew: a line for each rule, in the order of names."""
    rows = (f"{json.dumps(name)}: {json.dumps(asdict(proofs[name]))}" for name in sorted(proofs))
    FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

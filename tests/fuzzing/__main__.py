"""The fuzzer as a command: `cd tests; python -m fuzzing --seconds 3600`."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections import Counter
from math import inf
from pathlib import Path

import onnx

from .cases import make_case, seeds
from .harness import TIME_LIMIT, Outcome, run_case, warm_up

SLOW = 40.0  # seconds of a case that is shown


def main() -> int:
    """Run cases until the time is over, print those that broke a promise, and return whether there are any."""
    parser = argparse.ArgumentParser(prog="python -m fuzzing")
    parser.add_argument("--seconds", type=float, default=inf)
    parser.add_argument("--cases", type=float, default=inf, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="the number of the first case")
    parser.add_argument("--calls", action="store_true", help="call optimize() without verification, in this process")
    parser.add_argument("--case", type=int, help="run this case alone, show its output, and keep its files in ./fuzzed")
    parser.add_argument("--nodes", action="store_true", help="mutate the node cases of the ONNX backend suite as well")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # folders are removed, and processes ended
    models = (*seeds(), *(node_models() if options.nodes else ()))
    with tempfile.TemporaryDirectory() as root:
        if options.case is not None:
            return repeat(options.case, models, Path(root))
        if options.calls:
            return call(options, models)
        warm_up()
        end, last = time.monotonic() + options.seconds, options.seed + options.cases
        number, broken, codes = options.seed, 0, Counter[str]()
        while number < last and time.monotonic() < end:
            outcome = run_case(make_case(number, models), Path(root))
            if outcome.broken:  # a fork may hang where a process does not
                outcome = run_case(outcome.case, Path(root), forked=False, limit=5 * TIME_LIMIT)
            codes[str(outcome.code)] += 1
            broken += bool(outcome.broken)
            if outcome.broken or outcome.changes_left_out or outcome.seconds > SLOW:
                show(outcome)
            number += 1
            if number % 100 == 0:
                say(f"# {number - options.seed} cases, {broken} broken, exit codes {dict(codes)}")
    say(f"# {number - options.seed} cases, {broken} broken, exit codes {dict(codes)}")
    return int(broken > 0)


def call(options: argparse.Namespace, models: tuple[onnx.ModelProto, ...]) -> int:
    """Call optimize() on models until the time is over, and return whether there were unexpected exceptions."""
    from .calls import call_failures, spare_the_machine

    spare_the_machine()
    number, broken, end = options.seed, 0, time.monotonic() + options.seconds
    while number < options.seed + options.cases and time.monotonic() < end:
        failures = call_failures(number, models)
        broken += bool(failures)
        for failure in failures:
            say(f"model {number}: {failure}")
        number += 1
    say(f"# {number - options.seed} models, {broken} broken")
    return int(broken > 0)


def node_models() -> tuple[onnx.ModelProto, ...]:
    """The small node cases of the ONNX backend suite, also with some or all inputs frozen."""
    from node_cases import FREEZE_MODES, backend_cases, freeze_inputs

    small = [c for c in backend_cases().values() if c.model.ByteSize() < 4000]
    return tuple(freeze_inputs(c, mode).model for c in small for mode in FREEZE_MODES)


def repeat(number: int, models: tuple[onnx.ModelProto, ...], root: Path) -> int:
    """Run one case as a process of its own, show all of it, and keep its files."""
    case, kept = make_case(number, models), Path("fuzzed")
    kept.mkdir()
    case.write(kept)
    outcome = run_case(case, root, forked=False)
    say(f"{outcome.stdout}{outcome.stderr}exit code {outcome.code}, {outcome.memory >> 20} MiB")
    show(outcome)
    return int(bool(outcome.broken))


def show(outcome: Outcome) -> None:
    """Print a case with its broken promises, and the changes that were left out."""
    say(f"case {outcome.case.number} ({outcome.seconds:.1f} s): passes {' '.join(outcome.case.arguments)}")
    for line in (*outcome.broken, *(f"left out: {c}" for c in outcome.changes_left_out)):
        say(f"    {line}")


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

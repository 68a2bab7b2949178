"""The fuzzer as a command: `cd tests; python -m fuzzing --seconds 3600`."""

import argparse
import signal
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from math import inf
from pathlib import Path

import onnx

from .cases import Case, make_case, seeds
from .harness import TIME_LIMIT, Outcome, run_case, warm_up
from .hostile_cases import LIMITED, crasher_cases, hostile_case
from .hostile_models import CRASHERS
from .kills import Killed, campaign, summary
from .native_calls import CALLS, search

SLOW = 40.0  # seconds of a case that is shown
CALL_LIMIT = 30.0  # seconds of a call


def main() -> int:
    """Run cases until the time is over, print those that broke a promise, and return whether there are any."""
    parser = argparse.ArgumentParser(prog="python -m fuzzing")
    parser.add_argument("--seconds", type=float, default=inf)
    parser.add_argument("--cases", type=float, default=inf, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="the number of the first case")
    parser.add_argument("--calls", action="store_true", help="call optimize() without verification, in this process")
    parser.add_argument("--case", type=int, help="run this case alone, show its output, and keep its files in ./fuzzed")
    parser.add_argument("--hostile", action="store_true", help="hostile models in place of mutated ones")
    parser.add_argument("--crashers", action="store_true", help="the models that crashed or hung native code once")
    parser.add_argument("--kills", type=int, help="kill commands that write so many times, and check what is there")
    parser.add_argument(
        "--native", choices=CALLS, help="call native code of this library, and write what fails to ./native"
    )
    parser.add_argument("--slack", type=float, default=1.0, help="factor of delays that are allowed, on a busy machine")
    parser.add_argument("--nodes", action="store_true", help="mutate the node cases of the ONNX backend suite as well")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a background job ignores, and what it starts
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # folders are removed, and processes ended
    if options.native:
        return search(options.native, options.seed, options.cases, options.seconds, Path("native"))
    models = (*seeds(), *(node_models() if options.nodes else ()))
    make = partial(hostile_case, slack=options.slack) if options.hostile else partial(make_case, models=models)
    if options.crashers:
        crashing = crasher_cases(options.slack)
        make, options.cases = crashing.__getitem__, min(options.cases, len(crashing) - options.seed)
    with tempfile.TemporaryDirectory() as root:
        if options.case is not None:
            return repeat(make(options.case), Path(root))
        if options.calls:
            return call(options, models, Path(root))
        warm_up()
        if options.kills:
            return kill(options, Path(root))
        end, last = time.monotonic() + options.seconds, options.seed + options.cases
        number, broken, codes = options.seed, 0, Counter[str]()
        while number < last and time.monotonic() < end:
            outcome = run_case(make(number), Path(root))
            if (
                outcome.broken
            ):  # a fork may hang where a process does not, and a process imports before it takes signals
                is_forked = outcome.case.ended_by is not None
                outcome = run_case(outcome.case, Path(root), forked=is_forked, limit=5 * TIME_LIMIT)
            codes[str(outcome.code)] += 1
            broken += bool(outcome.broken)
            if outcome.broken or outcome.changes_left_out or outcome.seconds > SLOW:
                show(outcome)
            number += 1
            if number % 100 == 0:
                say(f"# {number - options.seed} cases, {broken} broken, exit codes {dict(codes)}")
    say(f"# {number - options.seed} cases, {broken} broken, exit codes {dict(codes)}")
    return int(broken > 0)


def call(options: argparse.Namespace, models: tuple[onnx.ModelProto, ...], folder: Path) -> int:
    """Call optimize() on models until the time is over, and return whether there were unexpected exceptions.

    Of hostile ones, all that crashed native code once come first.
    """
    from .calls import call_failures, hostile_file, mutated_model, spare_the_machine

    spare_the_machine()
    limit = LIMITED * options.slack if options.hostile else CALL_LIMIT
    failing = sum(report(path.name, call_failures(path, limit)) for path in CRASHERS.glob("*.onnx") if options.hostile)
    number, broken, end = options.seed, 0, time.monotonic() + options.seconds
    while number < options.seed + options.cases and time.monotonic() < end:
        model = hostile_file(number, folder) if options.hostile else mutated_model(number, models)
        broken += model is not None and report(f"model {number}", call_failures(model, limit))
        number += 1
    say(f"# {number - options.seed} models, {broken} broken")
    return int(broken + failing > 0)


def report(name: str, failures: list[str]) -> bool:
    """Print the failures of a model, and return whether there are any."""
    for failure in failures:
        say(f"{name}: {failure}")
    return bool(failures)


def kill(options: argparse.Namespace, root: Path) -> int:
    """Kill commands that write at random moments, and return whether something was lost."""
    outcomes = list[Killed]()
    for outcome in campaign(options.kills, options.seed, root):
        outcomes.append(outcome)
        if outcome.lost:
            say(str(outcome))
        if len(outcomes) % 20 == 0:
            say(f"# {summary(outcomes)}")
    say(f"# {summary(outcomes)}")
    return int(any(o.lost for o in outcomes))


def node_models() -> tuple[onnx.ModelProto, ...]:
    """The small node cases of the ONNX backend suite, also with some or all inputs frozen."""
    from node_cases import FREEZE_MODES, backend_cases, freeze_inputs

    small = [c for c in backend_cases().values() if c.model.ByteSize() < 4000]
    return tuple(freeze_inputs(c, mode).model for c in small for mode in FREEZE_MODES)


def repeat(case: Case, root: Path) -> int:
    """Run one case as a process of its own, show all of it, and keep its files."""
    kept = Path("fuzzed")
    kept.mkdir()
    case.write(kept)
    outcome = run_case(case, root, forked=False)
    say(f"{outcome.stdout}{outcome.stderr}exit code {outcome.code}, {outcome.memory >> 20} MiB")
    show(outcome)
    return int(bool(outcome.broken))


def show(outcome: Outcome) -> None:
    """Print a case with its broken promises, and the changes that were left out."""
    case = outcome.case
    say(f"case {case.number} {case.kind} ({outcome.seconds:.1f} s): passes {' '.join(case.arguments)}")
    for line in (*outcome.broken, *(f"left out: {c}" for c in outcome.changes_left_out)):
        say(f"    {line}")


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

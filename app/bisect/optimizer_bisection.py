"""Which of many things something is due to.

`blame`: which of onnxruntime's optimizers makes it wrong about a model, or unable to load it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from ...core.ort.sessions import LEVELS, Loadable, Setting
from ...core.pass_manager.pass_selection import BadUsage
from ...core.support.binary_search import first_bad
from ...core.verify.oracle import Oracle
from .ort_optimizers import HOLDERS, known, logged, merged
from .probe_process import LIMIT, Child, Failure, write_case


def needed(items: Sequence[str], happens: Callable[[tuple[str, ...]], bool]) -> tuple[str, ...]:
    """Items with which it happens, none of which can be left out; log2(len(items)) probes each, and one more.

    It must be known to happen with all of `items`. The first one found is the first, going through `items`,
    at which it starts to happen.
    """
    found: tuple[str, ...] = ()
    rest = tuple(items)
    while not happens(found):
        last = _first(found, rest, happens)
        found = (*found, rest[last - 1])
        rest = rest[: last - 1]
    for item in found:  # a later one may have made an earlier one superfluous
        fewer = tuple(i for i in found if i != item)
        if len(found) > 1 and happens(fewer):
            found = fewer
    return found


def _first(found: tuple[str, ...], rest: tuple[str, ...], happens: Callable[[tuple[str, ...]], bool]) -> int:
    """How many of `rest` it takes, with `found`, for it to happen."""
    return first_bad(0, len(rest), lambda n: happens((*found, *rest[:n])))


OFF = Setting(repacks=True)


@dataclass(frozen=True, slots=True)
class Culprit:
    """An optimizer and the failure that it causes, the other culprits being disabled.

    `partners` are optimizers without which it does no harm; disabling those would do as well.
    """

    optimizer: str
    failure: str
    draw: str | None
    partners: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Blame:
    """Why onnxruntime fails at `level`: with all `culprits` disabled, and nothing else, it is right.

    With none, `remark` says why nobody can be named. `failure` is the first one seen, with nothing disabled, and `draw`
    the inputs it was seen on; `runs` counts probes: a session each, and one more where a crash is asked about again.
    """

    level: str
    failure: str
    draw: str | None
    culprits: tuple[Culprit, ...]
    remark: str
    runs: int

    @property
    def optimizers(self) -> tuple[str, ...]:
        """What to put into `disabled_optimizers`, in the order in which they run."""
        return tuple(c.optimizer for c in self.culprits)


def blame(
    oracle: Oracle,
    model: Loadable,
    level: str,
    progress: Callable[[str], None] = lambda _: None,
    *,
    limit: float = LIMIT,
) -> Blame | None:
    """The optimizers to disable at `level` for onnxruntime to agree with `oracle` about `model`; None if it agrees.

    Sessions are as users have them, apart from `level`, and in a process of their own; one that takes longer than
    `limit` seconds has failed. Raises BadUsage for a level that does not exist, Unverifiable for answers that cannot be
    given to that process.
    """
    if level not in LEVELS:
        raise BadUsage(f"--ort {level}: there is no such level (there are {', '.join(LEVELS)})")
    with TemporaryDirectory() as folder:
        write_case(oracle, model, Path(folder))
        with Child(Path(folder), limit) as child:
            return _Inquiry(child, level, progress).blame()


@dataclass(slots=True)
class _Inquiry:
    """The probes of one level; none is made twice."""

    child: Child
    level: str
    progress: Callable[[str], None]
    runs: int = 0
    names: list[str] = field(default_factory=list[str])
    known: dict[frozenset[str], Failure | None] = field(default_factory=dict[frozenset[str], Failure | None])

    def blame(self) -> Blame | None:
        failure = self.without(())
        if failure is None:
            return None
        self.names = self._names()
        left = self.without(self.names)
        if left is not None:
            return Blame(self.level, str(failure), failure.draw, (), self._remark(left), self.runs)
        guilty = needed(self.names[::-1], lambda off: self.without(off) is None)
        ordered = sorted(guilty, key=self.names.index)
        culprits = tuple(self._culprit(name, guilty) for name in ordered)
        return Blame(self.level, str(failure), failure.draw, culprits, "", self.runs)

    def without(self, disabled: Iterable[str]) -> Failure | None:
        """How onnxruntime fails with these disabled."""
        key = frozenset(disabled)
        if key not in self.known:
            few, most = sorted(key, key=self.names.index), len(self.names)
            self.progress(f"onnxruntime at {self.level}" + (f" without {len(key)} of {most} optimizers" if key else ""))
            self.known[key] = self._ask(Setting(f"ENABLE_{self.level.upper()}", tuple(few), repacks=True))
        return self.known[key]

    def _ask(self, setting: Setting) -> Failure | None:
        self.runs += 1
        return self.child.ask(setting)

    def _names(self) -> list[str]:
        """All that can be disabled: what is known of, and what onnxruntime says that it runs."""
        self.progress(f"onnxruntime's optimizers at {self.level}")
        self._ask(Setting(f"ENABLE_{self.level.upper()}", repacks=True, logs=True))
        with self.child.log.open(encoding="utf-8", errors="replace") as lines:
            return merged(known(self.level), logged(lines))

    def _culprit(self, name: str, guilty: Collection[str]) -> Culprit:
        failure = self.without(n for n in guilty if n != name)
        assert failure is not None  # no culprit is superfluous
        others = [n for n in self.names if n not in guilty and n not in HOLDERS]
        rest = {name, *(h for h in HOLDERS if h not in guilty)}  # a holder is no optimizer, but its rules need it

        def fails_with(chosen: Collection[str]) -> bool:
            return self.without(n for n in self.names if n not in rest and n not in chosen) is not None

        return Culprit(name, str(failure), failure.draw, needed(others, fails_with))

    def _remark(self, left: Failure) -> str:
        """What to say when it is none of the optimizers that can be disabled."""
        said = f"still wrong with every optimizer we know disabled: {left}"
        if self._ask(OFF) is None:
            return f"{said}; right with optimization off, so it is one that has no name here"
        return f"{said}; it fails with optimization off, too, so no optimizer is to blame"

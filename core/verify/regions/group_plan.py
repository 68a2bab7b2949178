"""Plans for comparing sites in groups, of which the original computes one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .value_graph import ValueGraph


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """Some sites, and the part of the original that computes them after the parts of earlier groups.

    `computed` are the values that this part gives, for these sites and for later groups. `taken` are those of earlier
    parts that this group reads. `released` are values of this and of earlier parts that no later group reads.
    """

    sites: tuple[str, ...]
    computed: tuple[str, ...]
    taken: tuple[str, ...]
    released: tuple[str, ...]


def plan_groups(
    original: ValueGraph, groups: Sequence[Sequence[str]], wanted: Callable[[Sequence[str]], Sequence[str]]
) -> list[GroupPlan]:
    """Plans for groups of sites, in topological order. Each node of the original is part of one group. O(V + E).

    `wanted` has the values of the original that are compared at sites or read by their regions.
    """
    owner: dict[int, int] = {}
    uses: list[set[str]] = []  # by group, the values that it takes from its own or earlier parts
    for number, sites in enumerate(groups):
        names = wanted(sites)
        new = [name for name in names if original.producers[name][0] not in owner]
        made, read = original.ancestors(new, lambda name: original.producers[name][0] in owner)
        uses.append({*names, *(name for name in read if name in original.producers)})
        owner.update(dict.fromkeys(made, number))
    computed: list[dict[str, None]] = [{} for _ in groups]
    last: dict[str, int] = {}  # the last group that reads a value
    for number, names in enumerate(uses):
        last.update(dict.fromkeys(names, number))
        for name in names:
            computed[owner[original.producers[name][0]]][name] = None
    return [
        GroupPlan(
            tuple(sites),
            tuple(sorted(made)),
            tuple(sorted(name for name in names if name not in made)),
            tuple(sorted(name for name in names if last[name] == number)),
        )
        for number, (sites, made, names) in enumerate(zip(groups, computed, uses, strict=True))
    ]


def split_sites(
    sites: Sequence[str],
    sizes: Mapping[str, int],
    wanted: Callable[[Sequence[str]], Sequence[str]],
    max_bytes: int,
    max_sites: int,
) -> Iterator[list[str]]:
    """The sites in groups of up to `max_sites` whose values have up to `max_bytes`; a single one may have more."""
    group: list[str] = []
    held: dict[str, int] = {}
    for site in sites:
        new = {n: sizes.get(n, 0) for n in wanted((site,))}
        if group and (len(group) == max_sites or sum({**held, **new}.values()) > max_bytes):
            yield group
            group, held = [], {}
        group.append(site)
        held.update(new)
    if group:
        yield group

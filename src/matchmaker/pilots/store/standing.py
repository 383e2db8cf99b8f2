"""How far an input is, from one listing of its folder, and what a pilot does next. Pure.

A result counts more than all claims. A parameter's claims are numbered by epochs. Nobody removes
another's claim, so the highest number says how often the parameter was taken over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal

import attrs

from matchmaker.pilots.store.plan import (
    CLAIM,
    TASKS,
    WORK,
    Plan,
    claim_of,
    failure_of,
    sound_name,
)

COPIES: Final = 2
"""How many living claims of one parameter there are at most, when nothing else is left."""
_CLAIMED: Final = re.compile(rf"{CLAIM}([^.]+)(?:\.([0-9]{{0,9}}))?\Z")
"""A claim: its parameter, and its number where that is not 1."""
Kind = Literal["file", "folder", "link", "other"]
_KINDS: Final = {"file": "a file", "folder": "a folder", "link": "a symbolic link",
                 "other": "a pipe, a socket or a device"}  # fmt: skip


@attrs.frozen(slots=True)
class Entry:
    """A file of a listing.

    Attributes:
        name: in its folder.
        modified: when it was written last, in seconds since 1970 by the storage's clock; of a file
            that is no claim it may be 0.
        kind: what it is; links are not followed.
    """

    name: str
    modified: float
    kind: Kind = "file"


def inputs_of(plan: Plan, entries: Iterable[Entry]) -> tuple[list[str], list[str]]:
    """The names of the inputs among what is in ``work/``, and sentences about the rest.

    >>> plan = Plan(command=("./f",), parameters=("1",))
    >>> entries = Entry("a", 0, "folder"), Entry("b", 0, "link"), Entry("d e", 0, "folder")
    >>> names, refused = inputs_of(plan, entries)
    >>> names
    ['a']
    >>> for each in refused:
    ...     print(each)
    work/b is left out: it is a symbolic link; an input is a folder
    work/d e is left out: rename it; an input's name has letters, digits, _ . + - only
    """
    names, refused = [], []
    found = {entry.name: entry for entry in entries}
    if plan.tasks is not None:
        # It has no files of its own, so a bucket knows of it only by the first claim.
        found.setdefault(TASKS, Entry(TASKS, 0.0, "folder"))
    for _, entry in sorted(found.items()):
        at = f"{WORK}/{entry.name} is left out"
        if entry.name.startswith("."):
            continue
        if entry.kind != "folder":
            refused.append(f"{at}: it is {_KINDS[entry.kind]}; an input is a folder")
        elif not sound_name(entry.name):
            refused.append(f"{at}: rename it; an input's name has letters, digits, _ . + - only")
        elif plan.tasks is not None and entry.name != TASKS:
            refused.append(f"{at}: of a list of tasks the one input is {WORK}/{TASKS}")
        else:
            names.append(entry.name)
    return names, refused


@attrs.frozen(slots=True)
class Standing:
    """How far an input is.

    Attributes:
        free: parameters without result, claim or too many failures, in the plan's order.
        done: parameters with a result.
        claims: of each parameter that is neither, its epochs and when each was renewed.
        failures: of each parameter that failed, how often on each node.
        given_up: parameters without a result that failed on too many nodes.
        files: the input's own files.
        odd: why the input cannot be run: sentences about what is no plain file.
    """

    free: tuple[str, ...]
    done: frozenset[str]
    claims: Mapping[str, Mapping[int, float]]
    failures: Mapping[str, Mapping[str, int]]
    given_up: frozenset[str]
    files: tuple[str, ...]
    odd: tuple[str, ...] = ()

    @property
    def all_done(self) -> bool:
        """Whether every parameter has its result."""
        return not (self.free or self.claims or self.given_up)

    def living(self, parameter: str, now: float, ttl: float) -> int:
        """How many claims of a parameter were renewed lately.

        A time far in the future was set by a wrong clock, and would never pass.
        """
        return sum(abs(now - at) <= ttl for at in self.claims.get(parameter, {}).values())

    def next_epoch(self, parameter: str) -> int:
        """The number of the next claim."""
        return max(self.claims.get(parameter, {}), default=0) + 1


def standing(plan: Plan, listing: Iterable[Entry]) -> Standing:
    """Reads a listing.

    >>> plan = Plan(command=("./f",), parameters=("1", "2", "3"))
    >>> names = "votes1.txt", "active1", "active2", "active2.2", "data.gz"
    >>> found = standing(plan, [Entry(name, 9.0) for name in names])
    >>> found.free, sorted(found.done), found.claims, found.files
    (('3',), ['1'], {'2': {1: 9.0, 2: 9.0}}, ('data.gz',))
    """
    done: set[str] = set()
    claims: dict[str, dict[int, float]] = {}
    failures: dict[str, dict[str, int]] = {}
    files: list[str] = []
    odd: list[str] = []
    for entry in listing:
        name = entry.name
        if entry.kind != "file":
            if not name.startswith("."):
                odd.append(f"{name} is {_KINDS[entry.kind]}")
        elif name in plan.results:
            done.add(plan.results[name])
        elif (found := _CLAIMED.match(name)) and plan.result_of(found[1]) in plan.results:
            claims.setdefault(found[1], {})[int(found[2] or 1)] = entry.modified
        elif (note := failure_of(name)) and plan.result_of(note[0]) in plan.results:
            nodes = failures.setdefault(note[0], {})
            nodes[note[1]] = nodes.get(note[1], 0) + 1
        elif not name.startswith("."):
            files.append(name)
    given_up = {p for p, nodes in failures.items() if len(nodes) >= plan.attempts} - done
    rest = done | given_up
    claims = {each: epochs for each, epochs in claims.items() if each not in rest}
    return Standing(
        tuple(p for p in plan.parameters if p not in rest and p not in claims), frozenset(done),
        claims, failures, frozenset(given_up), tuple(sorted(files)), tuple(sorted(odd)),
    )  # fmt: skip


@attrs.frozen(slots=True)
class Claim:
    """A claim that may be tried.

    Attributes:
        input: the name of its folder.
        parameter: what is claimed.
        epoch: 1 for a free parameter; one more than the last where a claim is taken over.
    """

    input: str
    parameter: str
    epoch: int

    @property
    def name(self) -> str:
        """Of its file."""
        return claim_of(self.parameter, self.epoch)

"""How far an input is, from one listing of its folder, and what a pilot does next. Pure.

A result counts more than all claims. A parameter's claims are numbered by epochs. Nobody removes
another's claim, so the highest number says how often the parameter was taken over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from matchmaker.pilots.store.plan import CLAIM, FAILURE, Plan, claim_of

COPIES: Final = 2
"""How many living claims of one parameter there are at most, when nothing else is left."""
_NUMBERED: Final = re.compile(rf"({CLAIM}|{FAILURE})([^.]+)(?:\.([0-9]{{0,9}}))?\Z")
"""A claim or a note of a failure: its parameter, and its number where that is not 1."""


@attrs.frozen(slots=True)
class Entry:
    """A file of a listing.

    Attributes:
        name: in its folder.
        modified: when it was written last, in seconds since 1970 by the storage's clock; of a file
            that is no claim it may be 0.
    """

    name: str
    modified: float


@attrs.frozen(slots=True)
class Standing:
    """How far an input is.

    Attributes:
        free: parameters without result, claim or too many failures, in the plan's order.
        done: parameters with a result.
        claims: of each parameter that is neither, its epochs and when each was renewed.
        failures: of each parameter without a result, how often it failed.
        given_up: parameters that failed too often.
        files: the input's own files.
    """

    free: tuple[str, ...]
    done: frozenset[str]
    claims: Mapping[str, Mapping[int, float]]
    failures: Mapping[str, int]
    given_up: frozenset[str]
    files: tuple[str, ...]

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
    failures: dict[str, int] = {}
    files: list[str] = []
    for entry in listing:
        name = entry.name
        if name in plan.results:
            done.add(plan.results[name])
        elif (found := _NUMBERED.match(name)) and plan.result_of(found[2]) in plan.results:
            parameter, number = found[2], int(found[3] or 1)
            if found[1] == CLAIM:
                claims.setdefault(parameter, {})[number] = entry.modified
            else:
                failures[parameter] = max(number, failures.get(parameter, 0))
        elif not name.startswith("."):
            files.append(name)
    given_up = {p for p, count in failures.items() if count >= plan.attempts} - done
    rest = done | given_up
    claims = {each: epochs for each, epochs in claims.items() if each not in rest}
    return Standing(
        tuple(p for p in plan.parameters if p not in rest and p not in claims), frozenset(done),
        claims, failures, frozenset(given_up), tuple(sorted(files)),
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

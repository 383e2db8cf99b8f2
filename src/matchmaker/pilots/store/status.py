"""How far a store is: for each input what is free, claimed and by whom, done, and given up."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from matchmaker.classad import ClassAd
from matchmaker.pilots.store.places import Store
from matchmaker.pilots.store.plan import WORK, Plan, claim_of
from matchmaker.pilots.store.protocol import StoreError
from matchmaker.pilots.store.standing import Entry, Standing, standing

MOST_READ: Final = 200
"""So many claims are read for who made them."""
MARKS: Final = {"done": "#", "running": ">", "stale": "?", "given up": "!", "free": "."}


@attrs.frozen(slots=True, kw_only=True)
class Claimed:
    """A claim. ``age`` is in seconds since it was renewed; ``by`` is a host and a process."""

    input: str
    parameter: str
    epoch: int
    age: float
    stale: bool
    by: str | None


@attrs.frozen(slots=True, kw_only=True)
class Row:
    """An input with its counts; ``picture`` has a letter for each part of the parameters."""

    input: str
    finished: bool
    parameters: int
    done: int
    running: int
    stale: int
    given_up: int
    free: int
    picture: str


@attrs.frozen(slots=True)
class Status:
    """How far a store is."""

    rows: Sequence[Row]
    claims: Sequence[Claimed]

    @property
    def all_done(self) -> bool:
        """Whether all inputs have all results."""
        return all(row.done == row.parameters for row in self.rows)


def status(store: Store, plan: Plan, *, wide: int = 60) -> Status:
    """Looks at a store: one listing for each input.

    Args:
        store: where to look.
        plan: its plan.
        wide: the most letters of a picture.

    Raises:
        StoreError: the storage refuses, or gives no answer.
    """
    rows: list[Row] = []
    claims: list[Claimed] = []
    # On storage without folders a finished input is in both places.
    ended = store.inputs(finished=True)
    places = [(name, False) for name in store.inputs() if name not in set(ended)]
    now: float | None = None
    for name, finished in [*places, *((name, True) for name in ended)]:
        listed = list(store.listing(name, finished=finished) or ())
        found = standing(plan, listed)
        if now is None and found.claims:
            now = _now(store, listed)
        kinds = _kinds(plan, found, now or 0.0)
        rows.append(_row(name, kinds, finished=finished, wide=wide))
        for parameter, epochs in {} if finished else found.claims.items():
            for epoch, renewed in epochs.items():
                age = max(0.0, (now or 0.0) - renewed)
                by = None
                if len(claims) < MOST_READ:
                    text = store.read(f"{WORK}/{name}/{claim_of(parameter, epoch)}") or b""
                    by = " ".join(text.decode("utf-8", "replace").split()[:2])
                claims.append(Claimed(
                    input=name, parameter=parameter, epoch=epoch, age=age, stale=age > plan.ttl,
                    by=by,
                ))  # fmt: skip
    return Status(rows, claims)


def _now(store: Store, listed: Sequence[Entry]) -> float:
    """The storage's time; who may not write there takes the youngest file's."""
    nonce = secrets.token_hex(16)
    try:
        now = store.now(nonce)
    except StoreError:
        return max(entry.modified for entry in listed)
    store.leave(nonce)
    return now


def _kinds(plan: Plan, found: Standing, now: float) -> Mapping[str, str]:
    kinds = dict.fromkeys(plan.parameters, "free")
    kinds.update(dict.fromkeys(found.done, "done"))
    kinds.update(dict.fromkeys(found.given_up, "given up"))
    for each in found.claims:
        kinds[each] = "running" if found.living(each, now, plan.ttl) else "stale"
    return kinds


def _row(name: str, kinds: Mapping[str, str], *, finished: bool, wide: int) -> Row:
    each = list(kinds.values())
    counts = {kind.replace(" ", "_"): each.count(kind) for kind in MARKS}
    return Row(
        input=name, finished=finished, parameters=len(each), picture=picture(each, wide), **counts
    )


def demand(store: Store, plan: Plan) -> Iterator[ClassAd]:
    """What is left to do as ads of jobs: ``JobStatus`` is 2 where a pilot runs it, else 1.

    Raises:
        StoreError: the storage refuses, or gives no answer.
    """
    for name in store.inputs():
        listed = list(store.listing(name) or ())
        found = standing(plan, listed)
        now = _now(store, listed) if found.claims else 0.0
        for parameter, kind in _kinds(plan, found, now).items():
            if kind in {"free", "stale", "running"}:
                status = 2 if kind == "running" else 1
                yield ClassAd({
                    "Id": f"{name}/{parameter}", "JobStatus": status, "Input": name,
                    "Parameter": parameter,
                })  # fmt: skip


def picture(kinds: Sequence[str], wide: int) -> str:
    """A letter for each part of the parameters: what most of the part is, but nothing unusual lost.

    >>> picture(["done"] * 4 + ["running", "free"], 3)
    '##>'
    """
    made = []
    parts = min(wide, len(kinds))
    for part in range(parts):
        among = kinds[len(kinds) * part // parts : len(kinds) * (part + 1) // parts]
        unusual = [kind for kind in ("given up", "stale", "running") if kind in among]
        most = max(("done", "free"), key=among.count)
        made.append(MARKS[unusual[0] if unusual else most])
    return "".join(made)

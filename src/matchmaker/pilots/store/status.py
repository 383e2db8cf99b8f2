"""The progress of a store: for each input the free, claimed, done and given up parameters."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from matchmaker.classad import ClassAd
from matchmaker.pilots.store.plan import (
    WORK,
    InputState,
    StoreEntry,
    StorePlan,
    claim_of,
    failure_of,
    input_state,
    inputs_of,
    is_safe_name,
)
from matchmaker.pilots.store.protocol import SharedStore, StoreError

# Each claim or note costs a request.
MOST_READ: Final = 200
MARKS: Final = {
    "done": "#", "running": ">", "stale": "?", "failed": "x", "given up": "!", "free": ".",
}  # fmt: skip
# Characters of a pilot's name and of a problem: one line. A file of a store may hold a mebibyte.
_SHOWN: Final = 120


@attrs.frozen(slots=True, kw_only=True)
class ClaimRow:
    """A claim. ``age`` is in seconds since it was renewed; ``by`` is a host and a process."""

    input: str
    parameter: str
    epoch: int
    age: float
    stale: bool
    by: str | None


@attrs.frozen(slots=True, kw_only=True)
class InputRow:
    """An input with its counts; ``picture`` has a letter for each part of the parameters."""

    input: str
    finished: bool
    parameters: int
    done: int
    running: int
    stale: int
    failed: int
    given_up: int
    free: int
    picture: str


@attrs.frozen(slots=True, kw_only=True)
class FailedParameter:
    """A parameter without a result that failed; ``problem`` is of one run, None if not read."""

    input: str
    parameter: str
    nodes: int
    runs: int
    given_up: bool
    problem: str | None


@attrs.frozen(slots=True)
class Status:
    """The progress of a store. ``refused`` has the entries that cannot be run."""

    rows: Sequence[InputRow]
    claims: Sequence[ClaimRow]
    failures: Sequence[FailedParameter] = ()
    refused: Sequence[str] = ()

    @property
    def all_done(self) -> bool:
        """Whether all inputs have all results, and nothing was refused."""
        return not self.refused and all(row.done == row.parameters for row in self.rows)


def status(store: SharedStore, plan: StorePlan, *, wide: int = 60, read: bool = True) -> Status:
    """Look at a store: one listing for each input. Raises StoreError.

    Args:
        store: the storage.
        plan: its plan.
        wide: the most letters of a picture.
        read: whether to read the pilots and the errors of 200 claims and 200 failures.
    """
    rows: list[InputRow] = []
    claims: list[ClaimRow] = []
    failures: list[FailedParameter] = []
    refused: list[str] = []
    now: float | None = None
    for name, finished in _places(store, plan, refused):
        listed = list(store.listing(name, finished=finished) or ())
        found = input_state(plan, listed)
        if not finished and not found.all_done:
            refused += [f"{WORK}/{name}: {each}" for each in found.odd]
        if now is None and found.claims:
            now = _now(store, listed)
        kinds = _kinds(plan, found, now or 0.0)
        rows.append(_row(name, kinds, finished=finished, wide=wide))
        for parameter, epochs in {} if finished else found.claims.items():
            for epoch, renewed in epochs.items():
                age = max(0.0, (now or 0.0) - renewed)
                by = None
                if read and len(claims) < MOST_READ:
                    text = _text(store, f"{WORK}/{name}/{claim_of(parameter, epoch)}")
                    by = " ".join(text.split()[:2])[:_SHOWN]
                claims.append(ClaimRow(
                    input=name, parameter=parameter, epoch=epoch, age=age, stale=age > plan.ttl,
                    by=by,
                ))  # fmt: skip
        notes = {} if finished else _notes(listed)
        for parameter, nodes in found.failures.items():
            if finished or parameter in found.done:
                continue
            problem = None
            if read and len(failures) < MOST_READ:
                lines = _text(store, f"{WORK}/{name}/{notes[parameter][-1]}").splitlines()
                problem = " ".join(lines[1:3])[:_SHOWN].strip()
            failures.append(FailedParameter(
                input=name, parameter=parameter, nodes=len(nodes), runs=sum(nodes.values()),
                given_up=parameter in found.given_up, problem=problem,
            ))  # fmt: skip
    return Status(rows, claims, failures, refused)


def _places(store: SharedStore, plan: StorePlan, refused: list[str]) -> Iterator[tuple[str, bool]]:
    """Yield the inputs, and whether they are finished; report the other entries."""
    ended = [each.name for each in store.inputs(finished=True) or () if is_safe_name(each.name)]
    entries = store.inputs()
    if entries is None and plan.tasks is None:
        raise StoreError(f"{store.url}: there is no folder {WORK}")
    names, sentences = inputs_of(plan, entries or ())
    refused += sentences
    # On storage without folders a finished input is in both places.
    yield from ((name, False) for name in names if name not in ended)
    yield from ((name, True) for name in sorted(ended) if plan.tasks is None)


def _text(store: SharedStore, path: str) -> str:
    return (store.read(path) or b"").decode("utf-8", "replace")


def _notes(listed: Iterable[StoreEntry]) -> dict[str, list[str]]:
    """Return the notes of failures of each parameter, by their names."""
    made: dict[str, list[str]] = {}
    for entry in listed:
        if (found := failure_of(entry.name)) is not None and entry.kind == "file":
            made.setdefault(found[0], []).append(entry.name)
    return made


def retry(
    store: SharedStore, plan: StorePlan, parameters: Collection[str] = ()
) -> list[tuple[str, str]]:
    """Remove the notes of failures of parameters without a result; by default of all of them.

    Returns each input and parameter that may be tried again. Raises StoreError.
    """
    made: list[tuple[str, str]] = []
    for name, finished in _places(store, plan, []):
        listed = [] if finished else list(store.listing(name) or ())
        found, notes = input_state(plan, listed), _notes(listed)
        for parameter in found.failures:
            if parameter not in found.done and (not parameters or parameter in parameters):
                for note in notes[parameter]:
                    store.remove(f"{WORK}/{name}/{note}")
                made.append((name, parameter))
    return made


def _now(store: SharedStore, listed: Sequence[StoreEntry]) -> float:
    """Return the storage's time; without the right to write, the youngest file's."""
    nonce = secrets.token_hex(16)
    try:
        now = store.now(nonce)
    except StoreError:
        return max(entry.modified for entry in listed)
    store.leave(nonce)
    return now


def _kinds(plan: StorePlan, found: InputState, now: float) -> Mapping[str, str]:
    kinds = dict.fromkeys(plan.parameters, "free")
    kinds.update(dict.fromkeys(found.failures, "failed"))
    kinds.update(dict.fromkeys(found.done, "done"))
    kinds.update(dict.fromkeys(found.given_up, "given up"))
    for each in found.claims:
        kinds[each] = "running" if found.living(each, now, plan.ttl) else "stale"
    return kinds


def _row(name: str, kinds: Mapping[str, str], *, finished: bool, wide: int) -> InputRow:
    each = list(kinds.values())
    counts = {kind.replace(" ", "_"): each.count(kind) for kind in MARKS}
    return InputRow(
        input=name, finished=finished, parameters=len(each), picture=picture(each, wide), **counts
    )


def demand(store: SharedStore, plan: StorePlan) -> Iterator[ClassAd]:
    """Yield the remaining parameters as ads of jobs, with ``JobStatus`` 2 if it runs, else 1.

    Raises StoreError.
    """
    for name, finished in _places(store, plan, []):
        if finished:
            continue
        listed = list(store.listing(name) or ())
        found = input_state(plan, listed)
        now = _now(store, listed) if found.claims else 0.0
        for parameter, kind in _kinds(plan, found, now).items():
            if kind in {"free", "failed", "stale", "running"}:
                status = 2 if kind == "running" else 1
                yield ClassAd({
                    "Id": f"{name}/{parameter}", "JobStatus": status, "Input": name,
                    "Parameter": parameter,
                })  # fmt: skip


def picture(kinds: Sequence[str], wide: int) -> str:
    """Return a letter for each part of the parameters: the most frequent, but the rare ones first.

    >>> picture(["done"] * 4 + ["running", "free"], 3)
    '##>'
    """
    made = []
    parts = min(wide, len(kinds))
    for part in range(parts):
        among = kinds[len(kinds) * part // parts : len(kinds) * (part + 1) // parts]
        unusual = [kind for kind in ("given up", "failed", "stale", "running") if kind in among]
        most = max(("done", "free"), key=among.count)
        made.append(MARKS[unusual[0] if unusual else most])
    return "".join(made)

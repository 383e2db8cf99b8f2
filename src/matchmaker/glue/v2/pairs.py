"""An endpoint with a share of GLUE 2.0, as a queue of GLUE 1.3.

Several pairs may have one id: shares of one queue, which are its VO views. `link` finds the pairs
and links the queues.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import attrs

from matchmaker.classad import Value
from matchmaker.glue.access import CLOSED, POLICY_RULE, RULES, agreed, differ
from matchmaker.glue.admission import for_jobs
from matchmaker.glue.clean.typed import Facts
from matchmaker.glue.issues import Report
from matchmaker.glue.limits import LIMITS
from matchmaker.glue.linking import Record, finding
from matchmaker.glue.records import ComputingElement, VOView, texts
from matchmaker.glue.v2.glue2_to_glue1 import CE_ID, VO_VIEW, marks, queue_name


@attrs.frozen(slots=True, eq=False)
class Pair:
    """An endpoint with a share, as GLUE 1.3 would call and describe it.

    Attributes:
        ce_id: the id of the queue.
        share: of the service.
        values: of the queue or its view.
        endpoint: its id.
        adrift: the denials of a share that is damaged or lost what says of which queue it is, so
            that they may be of other shares' queues.
    """

    ce_id: str
    share: Record
    values: Facts
    endpoint: str
    adrift: tuple[str, ...] = ()


def deny_alike(pairs: Sequence[Pair], *, cut: bool = False) -> Sequence[Pair]:
    """Adds the denials of shares that are adrift where they may be of the same queue.

    A view denies for its queue, and a queue for its views. Of a service of which a bound left out
    pairs (`cut`), these might deny: the others admit nobody.
    """
    for pair in pairs if cut else ():
        if own := texts(pair.values.get(RULES)):
            pair.values[RULES] = list[Value]([*own, CLOSED])
    denied: dict[tuple[str, bool, str | None], dict[str, None]] = {}
    for pair in pairs:
        view = bool(marks(pair.share, VO_VIEW))
        places: list[tuple[bool, str | None]] = [(view, None)]  # at every endpoint
        if POLICY_RULE in pair.share.values:
            places = [(True, None), (False, None)]  # it may have lost the mark
        elif not view:
            places.append((True, pair.endpoint))  # or the other one has
        for name in _queue_names(pair.share) or [""] if pair.adrift else ():
            for place in places:
                denied.setdefault((name, *place), {}).update(dict.fromkeys(pair.adrift))
    for pair in pairs if denied else ():
        other = not marks(pair.share, VO_VIEW)
        at = (None, pair.endpoint, "")
        names = _queue_names(pair.share)
        keys = (
            [(name, other, endpoint) for name in [*names, ""] for endpoint in at]
            if names
            else [key for key in denied if key[1] == other and key[2] in at]
        )
        more = dict.fromkeys(chain.from_iterable(denied.get(key, ()) for key in keys))
        if more:
            own = texts(pair.values.get(RULES))
            kept = more if len(more) <= LIMITS.repeated else [CLOSED]
            pair.values[RULES] = list[Value](dict.fromkeys([*own, *kept]))
    return pairs


def by_queue(pairs: Iterable[Pair], report: Report) -> list[Sequence[Pair]]:
    """The pairs of each queue; of a share at several endpoints of one address there is one."""
    groups: dict[str, dict[int, Pair]] = {}
    for pair in pairs:
        group = groups.setdefault(pair.ce_id.lower(), {})
        first = group.get(id(pair.share))
        if first is None or pair.ce_id == pair.share.id:
            group[id(pair.share) if first is None else id(pair)] = pair
        else:
            _agree(first, pair, report)
    return [[*group.values()] for group in groups.values()]


def _agree(first: Pair, second: Pair, report: Report) -> None:
    """Restricts a share at an endpoint to what another endpoint of the same address admits."""
    ours, theirs = texts(first.values.get(RULES)), texts(second.values.get(RULES))
    if differ(ours, theirs):
        said = "two endpoints of one address differ in access; what only one admits is refused"
        report(finding(first.share, "access.conflict", said, first.ce_id))
        first.values[RULES] = list[Value](agreed(ours, theirs))


def _queue_names(share: Record) -> list[str]:
    """What a share calls the queue that it is of, in lower case."""
    said = (queue_name(share), *marks(share, CE_ID))
    return [name.strip().lower() for name in said if name.strip()]


def queues_of(group: Sequence[Pair]) -> Iterator[tuple[ComputingElement, Record]]:
    """The queues that pairs of one id are: one, with a view for each share that is a view.

    Shares of one queue that do not say what they are to it become its views, where they have rules
    of access of their own; else they stand apart, under an id with their own. A share that goes by
    its id at several endpoints has theirs behind it.
    """
    shares = Counter(pair.share.id.lower() for pair in group)

    def apart(pair: Pair) -> str:
        alone = shares[pair.share.id.lower()] == 1
        return pair.share.id if alone else f"{pair.share.id}/{pair.endpoint}"

    own = [pair for pair in group if not marks(pair.share, VO_VIEW)]
    views = [pair for pair in group if marks(pair.share, VO_VIEW)]
    if len(own) > 1:
        views, own = [*views, *own], []
    if len(group) > 1:
        for pair in filter(_stands_apart, views):
            yield ComputingElement(f"{pair.ce_id}/{apart(pair)}", pair.values), pair.share
        views = [pair for pair in views if not _stands_apart(pair)]
    if not own and not views:
        return
    shared = own[0].values if own else _common([pair.values for pair in views])
    names = Counter(_name(pair.share).lower() for pair in views)
    made = tuple(
        VOView(name if names[name.lower()] == 1 else apart(pair), pair.values)
        for pair in views
        for name in (_name(pair.share),)
    )
    yield ComputingElement(group[0].ce_id, shared, views=made), (own or views)[0].share


def _stands_apart(pair: Pair) -> bool:
    """Whether a share that nobody may use is a queue: where it is no view, or has no queue's id."""
    unplaced = pair.ce_id == pair.share.id
    return not pair.values.get(RULES) and (unplaced or not marks(pair.share, VO_VIEW))


def _name(share: Record) -> str:
    """What a site calls a share of a queue: as its mark says, by its name, or else by its id."""
    marked = marks(share, VO_VIEW)
    return marked[0] if marked else share.text("GLUE2EntityName").strip() or share.id


def _common(all_values: Sequence[Facts]) -> Facts:
    """What all of several agree on; its rules of access admit nobody, as each has its own."""
    first, *others = all_values
    made = Facts()
    agreed = {
        name: value
        for name, value in first.items()
        if name != RULES and all(name in other and other[name] == value for other in others)
    }
    made.take(agreed, first.cleaned)
    made[RULES] = []  # without the attribute it would be open
    return made


def takes_jobs(endpoint: Record) -> bool:
    """Whether an endpoint takes jobs; others manage them, or are for information or delegation.

    A damaged one may have lost the capability, and counts as one that does.
    """
    said = endpoint.texts("GLUE2EndpointCapability")
    return for_jobs(said) or not said or POLICY_RULE in endpoint.values

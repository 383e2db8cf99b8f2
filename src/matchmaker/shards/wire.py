"""The bytes that client and workers exchange: ads as text, or as saved pools.

No ad is sent as a pickle: jobs and updates are text for the parser, many slots a saved pool.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence

import attrs

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.formats import parse_ads
from matchmaker.classad.operators import ascii_fold
from matchmaker.matching.columns import saved
from matchmaker.matching.columns.column import Rows
from matchmaker.matching.columns.store import Store
from matchmaker.matching.columns.views import Layout, View
from matchmaker.matching.pool import Pool
from matchmaker.matching.terms import Policy


def ads_to_bytes(ads: Iterable[ClassAd]) -> bytes:
    """Ads as text.

    >>> list(ads_from_bytes(ads_to_bytes([ClassAd(A=1), ClassAd()]))) == [ClassAd(A=1), ClassAd()]
    True
    """
    return "\n".join(map(str, ads)).encode("utf-8", "surrogatepass")


def ads_from_bytes(data: bytes) -> list[ClassAd]:
    """The ads that ``ads_to_bytes`` wrote."""
    return list(parse_ads(data.decode("utf-8", "surrogatepass"), format="new"))


def slots_to_bytes(view: View, key: str, rows: Rows | None = None) -> bytes:
    """Some of the slots of a view, or all, as a saved pool."""
    file = io.BytesIO()
    saved.save(view.parts(rows), key, file)
    return file.getvalue()


def columns_to_bytes(view: View, key: str, wanted: frozenset[str] | None) -> bytes:
    """All slots of a view with some of their attributes, or with all, as a saved pool."""
    parts = view.parts()
    if wanted is not None:
        wanted |= {ascii_fold(key)}
        layouts = [
            Layout.of(tuple([name for name in layout.names if ascii_fold(name) in wanted]))
            for layout in parts.layouts
        ]
        columns = {name: column for name, column in parts.columns.items() if name in wanted}
        parts = attrs.evolve(parts, columns=columns, layouts=layouts)
    file = io.BytesIO()
    saved.save(parts, key, file)
    return file.getvalue()


def slots_from_bytes(data: bytes) -> Pool:
    """The slots that ``slots_to_bytes`` wrote."""
    return Pool.load(io.BytesIO(data))


def view_from_bytes(parts: Sequence[bytes]) -> View:
    """The slots of several that ``slots_to_bytes`` wrote, in order."""
    found = [saved.load(io.BytesIO(data), "slots") for data in parts]
    key, store = found[0]
    if len(found) > 1:
        store = Store(ascii_fold(key))
        store.absorb(each.parts().block(list(each)) for _, each in found)
    return store.view()


def policy_to_bytes(policy: Policy) -> bytes:
    """The terms of a policy that slots are asked with."""
    resources = {name: str(expression) for name, expression in policy.resources.items()}
    return json.dumps([resources, str(policy.free), dict(policy.names)]).encode()


def policy_from_bytes(data: bytes) -> Policy:
    """A policy with the terms that ``policy_to_bytes`` wrote."""
    resources, free, names = json.loads(data)
    return Policy(resources=resources, free=free, names=names)

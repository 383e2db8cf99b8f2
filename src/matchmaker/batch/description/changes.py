"""The changes between two descriptions, for updating a pool."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from matchmaker.classad import ClassAd


@attrs.frozen(slots=True)
class Change:
    """A node or queue that is new (``before`` is None), gone (``after`` is None) or changed."""

    name: str
    before: ClassAd | None
    after: ClassAd | None

    def attributes(self) -> list[str]:
        """The attributes that changed, in the order of the ads, without nested ads.

        >>> before, after = ClassAd({"Name": "n", "FreeCpus": 4}), ClassAd({"Name": "n", "Free": 4})
        >>> Change("n", before, after).attributes()
        ['FreeCpus', 'Free']
        """
        if self.before is None or self.after is None:
            return []
        names = dict.fromkeys([*self.before, *self.after])
        return [
            name
            for name in names
            if self.before.get(name) != self.after.get(name)
            and not isinstance(self.before.eval(name), ClassAd)
        ]


def changes(before: Iterable[ClassAd], after: Iterable[ClassAd]) -> Iterator[Change]:
    """The changes from one set of ads to another; ads are compared by their ``Name``.

    >>> from matchmaker import Pool
    >>> old = [ClassAd({"Name": "a"}), ClassAd({"Name": "b"})]
    >>> new = [ClassAd({"Name": "b"}), ClassAd({"Name": "c", "Cpus": 2})]
    >>> pool = Pool(old)
    >>> for change in changes(old, new):
    ...     print(change.name, "gone" if change.after is None else "here")
    ...     pool.remove(change.name) if change.after is None else pool.update(change.after)
    c here
    a gone
    >>> sorted(pool.keys())
    ['b', 'c']
    """
    left = {str(ad.eval("Name")): ad for ad in before}
    for ad in after:
        name = str(ad.eval("Name"))
        known = left.pop(name, None)
        if known is None or known != ad:
            yield Change(name, known, ad)
    for name, ad in left.items():
        yield Change(name, ad, None)

"""Whom a queue admits, in the batch system's own names: lists of users, groups and accounts.

An access is alternatives, one of which must admit a job. An alternative is names by list:
``AllowedGroups``, ``DeniedAccounts``. It admits whoever each ``Allowed…`` list names and no
``Denied…`` list does. Without alternatives the queue admits everybody. Names that cannot be read
might be anybody's, so that they admit nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

Lists: TypeAlias = Mapping[str, tuple[str, ...]]
Access: TypeAlias = tuple[Lists, ...]

EVERYBODY: Final[Access] = ()
NOBODY: Final[Access] = ({"AllowedUsers": ()},)

ALLOWED: Final = "Allowed"
DENIED: Final = "Denied"

_WORD: Final = r"[^\s,=(){}\[\]<>\"'\\\x00-\x1f\x7f\ufffd]+"
_NAME: Final = re.compile(_WORD)
_SPACED: Final = re.compile(f"{_WORD}(?: {_WORD})*")


def names_in(text: str, *, spaced: bool = False) -> tuple[str, ...] | None:
    """The names of a list, ``cms,ops``; None where one of them cannot be read.

    Args:
        text: the list.
        spaced: whether a name may have spaces within, as groups of Windows do. Elsewhere a space
            is what is left of a comma.

    >>> names_in("cms,ops"), names_in("cms,(null)"), names_in("")
    (('cms', 'ops'), None, None)
    >>> names_in("domain users"), names_in("domain users", spaced=True)
    (None, ('domain users',))
    """
    names = tuple(name.strip(" \t") for name in text.split(","))
    pattern = _SPACED if spaced else _NAME
    return names if all(pattern.fullmatch(name) for name in names) else None


def both(first: Access, second: Access) -> Access:
    """The access where both must admit.

    >>> both(({"AllowedGroups": ("cms", "ops")},), ({"AllowedGroups": ("ops", "lhcb")},))
    ({'AllowedGroups': ('ops',)},)
    >>> both((), ({"DeniedUsers": ("eve",)},))
    ({'DeniedUsers': ('eve',)},)
    """
    if not first or not second:
        return first or second
    return tuple(_merged(one, other) for one in first for other in second)


def _merged(one: Lists, other: Lists) -> Lists:
    made = {**other, **one}
    for kind in one.keys() & other.keys():
        if kind.startswith(ALLOWED):
            made[kind] = tuple(name for name in one[kind] if name in other[kind])
        else:
            made[kind] = tuple(dict.fromkeys((*one[kind], *other[kind])))
    return made


def either(accesses: Iterable[Access]) -> Access:
    """The access where one of several must admit; nobody where there are none.

    >>> either([({"AllowedGroups": ("cms",)},), ({"AllowedUsers": ("ada",)},)])
    ({'AllowedGroups': ('cms',)}, {'AllowedUsers': ('ada',)})
    >>> either([({"AllowedGroups": ("cms",)},), EVERYBODY]), either([])
    ((), ({'AllowedUsers': ()},))
    """
    known = list(accesses)
    if EVERYBODY in known:
        return EVERYBODY
    return tuple(lists for access in known for lists in access) or NOBODY

"""Functions on the accounts of the machine: userHome, and userMap, which has no maps here."""

from __future__ import annotations

from typing import Final

from matchmaker.classad.functions.results import wrong
from matchmaker.classad.limits import Budget
from matchmaker.classad.registry import Trait, function
from matchmaker.classad.values import UNDEFINED, Value, is_error

LOOKUP: Final = 10_000
"""The steps that an account costs: a site may keep its accounts in a database behind a network."""


@function("userHome", 1, 2, budgeted=True, traits={Trait.LOCAL})
def user_home(user: Value, default: Value = UNDEFINED, *, budget: Budget | None = None) -> Value:
    """userHome(user[, default]): the home folder of an account of this machine.

    The default is a string, given where there is no such account; without one, undefined. A user
    that is no string, undefined excepted, is an error if there is no default. (HTCondor manual,
    ClassAd functions.)

    >>> user_home("no such user", "/tmp")
    '/tmp'
    """
    fallback = default if isinstance(default, str) and default else UNDEFINED
    if not isinstance(user, str):
        if fallback is UNDEFINED and user is not UNDEFINED:
            return wrong("userHome", "a string", user)
        return fallback
    if budget is not None:
        budget.spend(LOOKUP)
    try:
        import pwd

        return pwd.getpwnam(user).pw_dir
    except (ImportError, KeyError, ValueError):
        return fallback


@function("userMap", 2, 4, traits={Trait.LOCAL})
def user_map(*values: Value) -> Value:
    """userMap(map, user[, preferred[, default]]): always the default, or undefined without one.

    HTCondor looks the user up in a map of its configuration; there is no such configuration here.
    The arguments are of any type; error where one is. (HTCondor manual, ClassAd functions.)

    >>> user_map("groups", "alice", "atlas", "none"), user_map("groups", "alice")
    ('none', UNDEFINED)
    """
    for value in values:
        if is_error(value):
            return value
    return values[3] if len(values) == 4 else UNDEFINED

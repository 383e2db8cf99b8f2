"""Environments and arguments of jobs, in HTCondor's old (V1) and new (V2) syntax, and accounts.

New syntax: words at white space; text in single quotes is kept, and two of them there are
one. Old syntax: ``a=1;b=2`` or ``|a=1|b=2`` for environments, plain words for arguments.
"""

from __future__ import annotations

import re
from typing import Final

from matchmaker.classad.functions import Trait, function, joined, listed, wrong
from matchmaker.classad.state import Budget
from matchmaker.classad.values import UNDEFINED, ErrorType, Value, is_error, is_integer

_QUOTABLE = re.compile(r"[\s']+")
_DELIMITERS = frozenset("!#$%&*+,-/:;<>?@^`|~\x1f")
_WORD = re.compile(r"(?:[^\s']++|'(?:[^']++|'')*+')++")
_QUOTED = re.compile(r"'((?:[^']++|'')*+)'")

LOOKUP: Final = 10_000
"""The steps that an account costs: a site may keep its accounts in a database behind a network."""


def _split(text: str, budget: Budget | None) -> list[str] | None:
    """The words of a text in new syntax, unquoted; None if a quote is left open."""
    if budget is not None:
        budget.spend(len(text))
    # What no word takes is white space, or a quote without its end.
    if "'" in _WORD.sub("", text):
        return None
    return [
        _QUOTED.sub(lambda m: m[1].replace("''", "'"), word) if "'" in word else word
        for word in _WORD.findall(text)
    ]


def _quoted(word: str) -> str:
    if not word:
        return "''"
    return _QUOTABLE.sub(lambda match: "'" + match[0].replace("'", "''") + "'", word)


def _assigned(name: str, entries: list[str], variables: dict[str, str]) -> ErrorType | None:
    """Add the entries of an environment to the variables."""
    for entry in entries:
        variable, equals, _ = entry.partition("=")
        # A macro of the submit file, $$(...), is kept: it becomes entries when the job starts.
        if not variable or not (equals or "$$" in entry):
            return ErrorType(f"{name}(): {entry[:40]!r} assigns no variable")
        variables[variable] = entry
    return None


def _written(name: str, variables: dict[str, str]) -> Value:
    return joined(name, [_quoted(variables[key]) for key in sorted(variables)], " ")


@function("envV1ToV2", 1)
def env_v1_to_v2(text: Value) -> Value:
    """envV1ToV2(s): an environment in old syntax, in new syntax; undefined stays.

    A punctuation mark at the beginning takes the place of the semicolon. Anything but a string, and
    an entry that assigns no variable and has no macro ``$$``, is an error. (HTCondor manual.)

    >>> env_v1_to_v2("b=x y;a=1"), env_v1_to_v2("|b=2;3|a=1")
    ("a=1 b=x' 'y", 'a=1 b=2;3')
    """
    if not isinstance(text, str):
        return text if text is UNDEFINED else wrong("envV1ToV2", "a string", text)
    variables: dict[str, str] = {}
    delimiter = text[0] if text and text[0] in _DELIMITERS else ";"
    entries = [part.lstrip() for part in text.replace("\n", delimiter).split(delimiter)]
    fault = _assigned("envV1ToV2", [entry for entry in entries if entry], variables)
    return fault if fault is not None else _written("envV1ToV2", variables)


@function("mergeEnvironment", 0, None, budgeted=True)
def merge_environment(*texts: Value, budget: Budget | None = None) -> Value:
    """mergeEnvironment(s, …): environments in new syntax as one; later ones win.

    Undefined arguments are passed over; another type, an open quote, and an entry that assigns no
    variable and has no macro ``$$`` are errors. (HTCondor manual.)

    >>> merge_environment("a=1 b=2", "b='3 4'"), merge_environment("a=1 $$(VARIABLES)")
    ("a=1 b=3' '4", '$$(VARIABLES) a=1')
    """
    variables: dict[str, str] = {}
    for text in texts:
        if text is UNDEFINED:
            continue
        if not isinstance(text, str):
            return wrong("mergeEnvironment", "strings", text)
        entries = _split(text, budget)
        if entries is None:
            return ErrorType("mergeEnvironment(): a quote is left open")
        fault = _assigned("mergeEnvironment", entries, variables)
        if fault is not None:
            return fault
    return _written("mergeEnvironment", variables)


def _syntax(name: str, version: Value) -> Value | None:
    """The error if the version of the syntax is neither 1 nor 2."""
    if not is_integer(version):
        return wrong(name, "1 or 2 as the version of the syntax", version)
    if version not in (1, 2):
        return ErrorType(f"{name}() knows the versions 1 and 2 of the syntax, not {version}")
    return None


@function("listToArgs", 1, 2)
def list_to_args(items: Value, version: Value = 2) -> Value:
    """listToArgs(L[, version]): a list of strings as one line of arguments, in new syntax.

    Version 1 is the old syntax, which cannot write white space. Anything but a list of strings and
    a 1 or 2, undefined too, is an error. (HTCondor manual.)

    >>> list_to_args(["a", "b c", ""])
    "a b' 'c ''"
    """
    if not isinstance(items, list):
        return wrong("listToArgs", "a list", items)
    fault = _syntax("listToArgs", version)
    if fault is not None:
        return fault
    words: list[str] = []
    for item in items:
        if not isinstance(item, str):
            return wrong("listToArgs", "a list of strings", item)
        if version == 1 and re.search(r"[ \t\n\r]", item):
            return ErrorType("listToArgs(): the old syntax has no way to write white space")
        # The old syntax cannot write an empty argument: of those before all others nothing is left.
        if words or item or version == 2:
            words.append(_quoted(item) if version == 2 else item)
    return joined("listToArgs", words, " ")


@function("argsToList", 1, 2, budgeted=True)
def args_to_list(text: Value, version: Value = 2, *, budget: Budget | None = None) -> Value:
    """argsToList(s[, version]): a line of arguments, in new syntax, as a list of strings.

    Version 1 is the old syntax, which has no quotes. Anything but a string and a 1 or 2, undefined
    too, is an error, and so is an open quote. (HTCondor manual.)

    >>> args_to_list("a 'b c'"), args_to_list("a 'b c'", 1)
    (['a', 'b c'], ['a', "'b", "c'"])
    """
    if not isinstance(text, str):
        return wrong("argsToList", "a string", text)
    fault = _syntax("argsToList", version)
    if fault is not None:
        return fault
    words = text.split() if version == 1 else _split(text, budget)
    if words is None:
        return ErrorType("argsToList(): a quote is left open")
    return listed("argsToList", words)


@function("userHome", 1, 2, budgeted=True, traits={Trait.LOCAL})
def user_home(user: Value, default: Value = UNDEFINED, *, budget: Budget | None = None) -> Value:
    """userHome(user[, default]): the home folder of an account of this machine.

    The default is a string, for a user without an account; without one, undefined. A user that
    is not a string, undefined excepted, is an error without a default. (HTCondor manual.)

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

    HTCondor looks the user up in a map of its configuration, which does not exist here.
    The arguments are of any type; error if one is. (HTCondor manual.)

    >>> user_map("groups", "alice", "atlas", "none"), user_map("groups", "alice")
    ('none', UNDEFINED)
    """
    for value in values:
        if is_error(value):
            return value
    return values[3] if len(values) == 4 else UNDEFINED

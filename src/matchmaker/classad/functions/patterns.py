r"""Regular expressions: regexp, regexpMember, regexps, replace and replaceAll.

HTCondor takes patterns in PCRE's syntax. They are matched by the package `regex` here, with a time
limit, since a pattern from a stranger's ad can take for ever. ``translated`` rewrites what the two
read differently: ``\Z``, ``\z``, ``\Q…\E``, ``\h``, ``\R``, and braces that PCRE takes literally.
"""

# ruff: noqa: D402 - a docstring begins with the signature that the function has in an ad.

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from matchmaker.classad.functions.registry import function
from matchmaker.classad.functions.results import joined, wrong
from matchmaker.classad.values import UNDEFINED, ErrorType, Value, is_error

if TYPE_CHECKING:
    import regex

SECONDS: Final = 0.5
"""How long one search may take."""

MAX_PATTERN: Final = 4_000
"""How many characters a pattern may have."""

_TOKEN: Final = re.compile(
    r"""
    \\Q(?P<quoted>.*?)(?:\\E|\Z)
    | \\E (?P<end>)
    | \\x\{(?P<code>[0-9a-fA-F]{1,6})\}
    | \\c(?P<control>[\x20-\x7e])
    | \\(?P<property>[pP]\{[^}]*\})
    | \\(?:g\{?(?P<group>\d{1,2})\}?|k(?:\{(?P<name>\w+)\}|<(?P<other_name>\w+)>))
    | \\(?P<escape>.)
    | \{(?!\d+(?:,\d*)?\}) (?P<brace>)
    | (?P<class>\[\^?\]?(?:\[:\^?[a-z]+:\]|\\.|[^\]\\])*\])
    | (?P<other>.)
    """,
    re.DOTALL | re.VERBOSE,
)

_ESCAPES: Final = {
    "Z": r"(?=\n?\Z)",
    "z": r"\Z",
    "h": r"[ \t]",
    "H": r"[^ \t]",
    "R": r"(?>\r\n|[\n\v\f\r])",
    "N": r"[^\n]",
    "e": r"\x1b",
    "v": r"[\n\v\f\r]",
    "V": r"[^\n\v\f\r]",
}
# Escapes that mean something to one of the two but not to PCRE: a mistake there, and so here.
_UNKNOWN: Final = frozenset("CFIJLMOTUYijlmoquy")


def translated(pattern: str) -> str:
    r"""A pattern of PCRE's in the syntax of `regex`. ValueError on an escape without meaning.

    >>> translated(r"a{x}\z"), translated(r"\Qa.b\E")
    ('a\\{x}\\Z', 'a\\.b')
    """
    return _TOKEN.sub(_translated_token, pattern.removeprefix("(*UTF8)").removeprefix("(*UTF)"))


def _translated_token(match: re.Match[str]) -> str:
    quoted, escape = match["quoted"], match["escape"]
    if quoted is not None:
        return re.escape(quoted)
    if match["code"] is not None:
        return re.escape(chr(int(match["code"], 16)))
    if match["control"] is not None:
        return re.escape(chr(ord(match["control"].upper()) ^ 64))
    if match["property"] is not None:
        return "\\" + match["property"]
    group = match["group"] or match["name"] or match["other_name"]
    if group is not None:
        return f"\\g<{group}>"
    if escape is not None:
        if escape in _UNKNOWN:
            raise ValueError(f"\\{escape} has no meaning in a pattern")
        return _ESCAPES.get(escape, "\\" + escape)
    if match["brace"] is not None:
        return r"\{"
    if match["class"] is not None:
        # `regex` would take a further [ for the beginning of a set inside the set.
        return re.sub(r"(?<!\\)(?!^)\[(?!:)", r"\\[", match["class"])
    return match["other"] or ""


@lru_cache(maxsize=512)
def _compiled(pattern: str, options: str) -> regex.Pattern[str] | ErrorType:
    import regex

    if len(pattern) > MAX_PATTERN:
        return ErrorType(f"the pattern has {len(pattern)} characters, at most {MAX_PATTERN}")
    flags = regex.VERSION0 | regex.ASCII
    for letter, flag in (
        ("i", regex.IGNORECASE), ("m", regex.MULTILINE), ("s", regex.DOTALL), ("x", regex.VERBOSE)
    ):  # fmt: skip
        if letter in options:
            flags |= flag
    try:
        return regex.compile(translated(pattern), flags, cache_pattern=False)
    except (regex.error, ValueError, OverflowError, RecursionError) as error:
        return ErrorType(f"{pattern[:60]!r} is no regular expression: {error}")


def _known(options: str) -> str:
    """The options that decide how a pattern is compiled; unknown ones are passed over."""
    return "".join(letter for letter in "imsx" if letter in options)


def _within_time(name: str, pattern: str, run: Callable[[], Any]) -> Any:
    try:
        return run()
    except TimeoutError:
        return ErrorType(f"{name}() gave up on {pattern[:60]!r}: it takes too long to match")
    except MemoryError:
        return ErrorType(f"{name}() gave up on {pattern[:60]!r}: it takes too much memory")


def search(name: str, pattern: str, text: str, options: str = "") -> Value:
    """Whether a pattern matches anywhere in a text, for the function `name`."""
    compiled = _compiled(pattern, _known(options))
    if isinstance(compiled, ErrorType):
        return compiled
    found = _within_time(name, pattern, lambda: compiled.search(text, timeout=SECONDS))
    return found if is_error(found) else found is not None


def _unusable(name: str, values: tuple[Value, ...], wanted: str = "strings") -> Value | None:
    """What the function gives for its arguments' sake alone: an error, or undefined."""
    for value in values:
        if is_error(value):
            return value
    if UNDEFINED in values:
        return UNDEFINED
    for value in values:
        if not isinstance(value, str):
            return wrong(name, wanted, value)
    return None


@function("regexp", 2, 3)
def regexp(*values: Value) -> Value:
    """regexp(p, s[, options]): whether the pattern p matches anywhere in s.

    All strings; the options are letters: i without regard to case, m lines, s dot matches all, x
    extended. Undefined where an argument is; a broken pattern, or one that takes too long, is an
    error. (HTCondor manual, ClassAd functions.)

    >>> regexp("b+", "abba"), regexp("^B", "abba"), regexp("^A", "abba", "i")
    (True, False, True)
    """
    answer = _unusable("regexp", values)
    if answer is not None:
        return answer
    return search("regexp", *values)  # type: ignore[arg-type] # strings, as just seen


@function("regexpMember", 2, 3)
def regexp_member(*values: Value) -> Value:
    """regexpMember(p, L[, options]): whether the pattern p matches an element of the list L.

    Where none does, undefined if an element is, else false; an element of another type is an error.
    (HTCondor manual, ClassAd functions.)

    >>> regexp_member("^a", ["b", "ab"]), regexp_member("a", ["b", UNDEFINED])
    (True, UNDEFINED)
    """
    pattern, items, *options = values
    for value in values:
        if is_error(value):
            return value
    if UNDEFINED in values:
        return UNDEFINED
    if not isinstance(items, list):
        return wrong("regexpMember", "a list as its second argument", items)
    answer = _unusable("regexpMember", (pattern, *options), "strings around the list")
    if answer is not None:
        return answer
    none: Value = False
    for item in items:
        if item is UNDEFINED:
            none = UNDEFINED
            continue
        if not isinstance(item, str):
            return wrong("regexpMember", "a list of strings", item)
        found = search("regexpMember", pattern, item, *options)  # type: ignore[arg-type] # strings
        if found is not False:
            return found
    return none


@function("regexps", 3, 4)
def regexps(*values: Value) -> Value:
    r"""regexps(p, s, substitute[, options]): the substitute, with what p matched put in.

    ``\0`` stands for the whole match, ``\1`` for the first group. Without a match the result is
    empty. Options as in regexp(), and f: the whole of s with the match replaced; g: all matches.
    Undefined where an argument is. (HTCondor manual, ClassAd functions.)

    >>> regexps("(b+)", "abba", r"<\1>"), regexps("b", "abba", "x", "fg")
    ('<bb>', 'axxa')
    """
    return _substituted("regexps", values, "")


@function("replace", 3, 4)
def replace(*values: Value) -> Value:
    """replace(p, s, substitute[, options]): s with the first match of p replaced; see regexps().

    >>> replace("b", "abba", "x")
    'axba'
    """
    return _substituted("replace", values, "f")


@function("replaceAll", 3, 4)
def replace_all(*values: Value) -> Value:
    """replaceAll(p, s, substitute[, options]): s with all matches of p replaced; see regexps().

    A pattern that matches nothing at the end of s is an error.

    >>> replace_all("b", "abba", "x")
    'axxa'
    """
    return _substituted("replaceAll", values, "fg")


def _substituted(name: str, values: tuple[Value, ...], always: str) -> Value:
    answer = _unusable(name, values)
    if answer is not None:
        return answer
    pattern, text, substitute, *more = (str(value) for value in values)
    options = "".join(more) + always
    compiled = _compiled(pattern, _known(options))
    if isinstance(compiled, ErrorType):
        return compiled
    return _within_time(  # type: ignore[no-any-return] # a value or ERROR
        name, pattern, lambda: _replaced(name, compiled, text, substitute, options)
    )


def _replaced(
    name: str, pattern: regex.Pattern[str], text: str, substitute: str, options: str
) -> Value:
    whole = "f" in options
    parts: list[str] = []
    done = 0
    for match in pattern.finditer(text, timeout=SECONDS):
        if match.start() == match.end() == len(text) and "g" in options:
            return ErrorType(f"{name}(): the pattern matches nothing at the end of the text")
        put_in = _filled_in(name, substitute, match)
        if not isinstance(put_in, str):
            return put_in
        if whole:
            parts.append(text[done : match.start()])
        parts.append(put_in)
        done = match.end()
        if "g" not in options:
            break
    if whole:
        parts.append(text[done:])
    return joined(name, parts)


def _filled_in(name: str, substitute: str, match: regex.Match[str]) -> Value:
    groups = [match[0], *match.groups()]
    # Groups after the last one that took part do not count as there.
    present = max(index for index, group in enumerate(groups) if group is not None)
    parts: list[str] = []
    for piece in re.split(r"(\\[0-9])", substitute):
        if re.fullmatch(r"\\[0-9]", piece):
            if int(piece[1]) > present:
                return ErrorType(f"{name}(): the match has no group {piece[1]}")
            parts.append(groups[int(piece[1])] or "")
        else:
            parts.append(piece)
    return joined(name, parts)

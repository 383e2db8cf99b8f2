r"""Regular expressions: regexp, regexpMember, regexps, replace and replaceAll.

HTCondor takes patterns in PCRE's syntax. They are matched by the package `regex` here, with a time
limit for all patterns of an evaluation together, since one from a stranger's ad can take for ever.
``translated`` rewrites constructs that the two read differently: ``\Z``, ``\z``, ``\Q…\E``, ``\h``,
``\R``, and braces that PCRE takes literally.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from time import thread_time
from typing import TYPE_CHECKING, Any, Final

from matchmaker._cache import BoundedCache
from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from matchmaker.classad.functions import BOOLEAN, Trait, function, joined, wrong
from matchmaker.classad.state import TOO_MANY_SECONDS, Budget
from matchmaker.classad.values import UNDEFINED, ErrorType, Value, is_error, is_exceptional

if TYPE_CHECKING:
    import regex


def _compiled(pattern: str, options: str) -> regex.Pattern[str] | ErrorType:
    if len(pattern) > LIMITS.pattern:
        return ErrorType(f"the pattern has {len(pattern)} characters, at most {LIMITS.pattern}")
    found = _patterns.get((pattern, options))
    if found is None:
        size = min(expanded(pattern), LIMITS.pattern_size)
        found = _patterns.put((pattern, options), _compile(pattern, options), size)
    return found


class _Patterns(BoundedCache[tuple[str, str], "regex.Pattern[str] | ErrorType"]):
    """Compiled patterns, counted with their repetitions written out: 84 bytes an element."""

    __slots__ = ()

    def clear(self) -> None:
        """Drop all, also from the tables of the regex module, which notes every pattern."""
        import regex

        super().clear()
        regex.purge()


_patterns: Final = _Patterns("regular expressions", 1 << 19)


def _compile(pattern: str, options: str) -> regex.Pattern[str] | ErrorType:
    import regex

    size, groups = expanded(pattern), nesting(pattern)
    if size > LIMITS.pattern_size:
        return ErrorType(
            f"the pattern repeats itself to a size of {size}, at most {LIMITS.pattern_size}"
        )
    if groups > LIMITS.pattern_depth:
        return ErrorType(f"the pattern has groups {groups} deep, at most {LIMITS.pattern_depth}")
    flags = regex.VERSION0 | regex.ASCII
    for letter, flag in (
        ("i", regex.IGNORECASE), ("m", regex.MULTILINE), ("s", regex.DOTALL), ("x", regex.VERBOSE)
    ):  # fmt: skip
        if letter in options:
            flags |= flag
    try:
        return regex.compile(translated(pattern), flags, cache_pattern=False)
    except (regex.error, ValueError, OverflowError) as error:
        return ErrorType(f"{pattern[:60]!r} is no regular expression: {error}")


def broken(pattern: str) -> str:
    """Say why a pattern cannot be compiled; empty if it can.

    >>> broken("a+"), broken("a(")
    ('', "'a(' is no regular expression: missing ) at position 2")
    """
    made = _compiled(pattern, "")
    return made.reason if isinstance(made, ErrorType) else ""


_CALL: Final = re.compile(r"\(\?(?:R|[+-]?\d|P?&|P>)")
"""Where a pattern calls itself or one of its groups."""


def _timed(
    name: str, pattern: str, options: str, budget: Budget,
    run: Callable[[regex.Pattern[str], float], Any],
) -> Any:  # fmt: skip
    """What `run` makes of a compiled pattern in the seconds that the evaluation has left."""
    left = budget.seconds - budget.searched
    if left <= 0:
        return ErrorType(f"{name}(): {TOO_MANY_SECONDS}")
    if _CALL.search(pattern):
        left = min(left, LIMITS.recursive_seconds)
    # The time of this thread alone: that others are busy makes no pattern slow.
    start = thread_time()
    try:
        compiled = _compiled(pattern, "".join(letter for letter in "imsx" if letter in options))
        return compiled if isinstance(compiled, ErrorType) else run(compiled, left)
    except TimeoutError:
        budget.searched += left
        return ErrorType(f"{name}() gave up on {pattern[:60]!r}: it takes too long to match")
    except MemoryError:
        return ErrorType(f"{name}() gave up on {pattern[:60]!r}: it takes too much memory")
    finally:
        budget.searched += thread_time() - start


def search(
    name: str, pattern: str, text: str, options: str = "", budget: Budget | None = None
) -> Value:
    """Whether a pattern matches anywhere in a text, for the function `name`.

    `budget` is the evaluation's; without it the search has all the time to itself.
    """
    if len(text) > LIMITS.subject:
        return _too_long(name, text)
    return _timed(  # type: ignore[no-any-return] # a boolean or ERROR
        name, pattern, options, budget or Budget(),
        lambda compiled, left: compiled.search(text, timeout=left) is not None,
    )  # fmt: skip


def _too_long(name: str, text: str) -> ErrorType:
    return ErrorType(f"{name}() searches at most {LIMITS.subject} characters, not {len(text)}")


def exceptional(values: Iterable[Value]) -> Value | None:
    """The first error among values, else undefined if one is; None without either."""
    found = [value for value in values if is_exceptional(value)]
    return next(filter(is_error, found), UNDEFINED) if found else None


def _unusable(name: str, values: tuple[Value, ...], wanted: str = "strings") -> Value | None:
    """The error or undefined that wrong arguments alone give; None for right ones."""
    others = [value for value in values if not isinstance(value, str)]
    answer = exceptional(others)
    return wrong(name, wanted, others[0]) if answer is None and others else answer


@function("regexp", 2, 3, budgeted=True, traits={Trait.PATTERN}, result=BOOLEAN)
def regexp(*values: Value, budget: Budget | None = None) -> Value:
    """regexp(p, s[, options]): whether the pattern p matches anywhere in s.

    All strings; the options are letters: i without regard to case, m lines, s dot matches all, x
    extended. Undefined if an argument is; a broken pattern, or one that takes too long, is an
    error. (HTCondor manual.)

    >>> regexp("b+", "abba"), regexp("^B", "abba"), regexp("^A", "abba", "i")
    (True, False, True)
    """
    answer = _unusable("regexp", values)
    if answer is not None:
        return answer
    pattern, text, options, *_ = (*map(str, values), "")
    return search("regexp", pattern, text, options, budget)


@function("regexpMember", 2, 3, budgeted=True, traits={Trait.PATTERN}, result=BOOLEAN)
def regexp_member(*values: Value, budget: Budget | None = None) -> Value:
    """regexpMember(p, L[, options]): whether the pattern p matches an element of the list L.

    If none does, undefined if an element is, else false; an element of another type is an error.
    (HTCondor manual.)

    >>> regexp_member("^a", ["b", "ab"]), regexp_member("a", ["b", UNDEFINED])
    (True, UNDEFINED)
    """
    pattern, items, *options = values
    answer = exceptional(values)
    if answer is not None:
        return answer
    if not isinstance(items, list):
        return wrong("regexpMember", "a list as its second argument", items)
    answer = _unusable("regexpMember", (pattern, *options), "strings around the list")
    if answer is not None:
        return answer
    letters = str(options[0]) if options else ""
    none: Value = False
    for item in items:
        if item is UNDEFINED:
            none = UNDEFINED
            continue
        if not isinstance(item, str):
            return wrong("regexpMember", "a list of strings", item)
        found = search("regexpMember", str(pattern), item, letters, budget)
        if found is not False:
            return found
    return none


@function("regexps", 3, 4, budgeted=True, traits={Trait.PATTERN})
def regexps(*values: Value, budget: Budget | None = None) -> Value:
    r"""regexps(p, s, substitute[, options]): the substitute, with the matched text put in.

    ``\0`` stands for the whole match, ``\1`` for the first group. Without a match the result is
    empty. Options as in regexp(), and f: the whole of s with the match replaced; g: all matches.
    Undefined if an argument is; another type, a broken pattern and a group that the match has
    not are errors. (HTCondor manual.)

    >>> regexps("(b+)", "abba", r"<\1>"), regexps("b", "abba", "x", "fg")
    ('<bb>', 'axxa')
    """
    return _substituted("regexps", values, "", budget)


@function("replace", 3, 4, budgeted=True, traits={Trait.PATTERN})
def replace(*values: Value, budget: Budget | None = None) -> Value:
    """replace(p, s, substitute[, options]): s with the first match of p replaced.

    Arguments, undefined and error as in regexps(). (HTCondor manual.)

    >>> replace("b", "abba", "x"), replace("x", "abba", "y"), replace("b", UNDEFINED, "x")
    ('axba', 'abba', UNDEFINED)
    """
    return _substituted("replace", values, "f", budget)


@function("replaceAll", 3, 4, budgeted=True, traits={Trait.PATTERN})
def replace_all(*values: Value, budget: Budget | None = None) -> Value:
    """replaceAll(p, s, substitute[, options]): s with all matches of p replaced.

    Arguments, undefined and error as in regexps(); a pattern that matches nothing at
    the end of s is an error too. (HTCondor manual.)

    >>> replace_all("b", "abba", "x")
    'axxa'
    """
    return _substituted("replaceAll", values, "fg", budget)


def _substituted(name: str, values: tuple[Value, ...], always: str, budget: Budget | None) -> Value:
    answer = _unusable(name, values)
    if answer is not None:
        return answer
    pattern, text, substitute, *more = (str(value) for value in values)
    if len(text) > LIMITS.subject:
        return _too_long(name, text)
    options = "".join(more) + always
    pieces = re.split(r"(\\[0-9])", substitute)
    budget = budget or Budget()
    return _timed(  # type: ignore[no-any-return] # a value or ERROR
        name, pattern, options, budget,
        lambda compiled, left: _replaced(
            name, compiled.finditer(text, timeout=left), text, pieces,
            options=options, budget=budget,
        ),
    )  # fmt: skip


def _replaced(
    name: str,
    matches: Iterator[regex.Match[str]],
    text: str,
    pieces: list[str],
    *,
    options: str,
    budget: Budget,
) -> Value:
    whole = "f" in options
    parts: list[str] = []
    done = length = 0
    passed = ""
    for match in matches:
        # Groups and pieces may be thousands, and give not one character.
        budget.spend(4 + match.re.groups + len(pieces))
        if match.start() == match.end() == len(text) and "g" in options:
            return ErrorType(f"{name}(): the pattern matches nothing at the end of the text")
        if passed and match.start() > done:
            parts.append(passed)
        put_in = _filled_in(name, pieces, match)
        if not isinstance(put_in, str):
            return put_in
        if whole:
            parts.append(text[done : match.start()])
        parts.append(put_in)
        length += len(put_in)
        done = match.end()
        # After a match of nothing one character is passed over, and stays in any case.
        passed = text[done : done + 1] if match.start() == done and not whole else ""
        # Looked at in every round: the parts alone could fill the memory.
        if "g" not in options or length > LIMITS.result:
            break
    parts.append(text[done:] if whole else passed if "g" in options else "")
    return joined(name, parts)


def _filled_in(name: str, pieces: list[str], match: regex.Match[str]) -> Value:
    groups = [match[0], *match.groups()]
    # Groups after the last one that took part do not count as there.
    present = max(index for index, group in enumerate(groups) if group is not None)
    parts: list[str] = []
    for number, piece in enumerate(pieces):
        # Every other piece is a reference to a group.
        if number % 2 == 0:
            parts.append(piece)
        elif int(piece[1]) > present:
            return ErrorType(f"{name}(): the match has no group {piece[1]}")
        else:
            parts.append(groups[int(piece[1])] or "")
    return joined(name, parts)


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

_NAMED: Final = re.compile(r"\[:\^?(\w+):\]")
_NAMES: Final = frozenset({
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
})  # fmt: skip
"""The classes of characters that have names, in lower case alone; `regex` minds no case."""


_UNIT: Final = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(?P<least>\d+)(?:,\d*)?\}|.", re.DOTALL
)


def expanded(pattern: str) -> int:
    """About how many units a pattern has once its least repetitions are written out.

    That is what `regex` does with them, so that a few nested ones would fill the memory.

    >>> expanded("a+b"), expanded("(ab){3}"), expanded("((a{100}){100}){100}")
    (3, 9, 1010100)
    """
    sizes, last = [0], 0
    for unit in _UNIT.finditer(pattern):
        if unit["least"] is not None:
            # Far past the bound it need not be exact, only small enough to calculate with.
            more = min(last * max(0, int(unit["least"][:9]) - 1), 10**9)
            sizes[-1] += more
            last += more
        elif unit[0] == "(":
            sizes.append(1)
        elif unit[0] == ")" and len(sizes) > 1:
            last = sizes.pop()
            sizes[-1] += last
        else:
            last = 1
            sizes[-1] += 1
    return sum(sizes)


def nesting(pattern: str) -> int:
    """How deep the groups of a pattern stand in each other.

    >>> nesting("a+b"), nesting("(a(b)c)(d)")
    (0, 2)
    """
    depth = deepest = 0
    for unit in _UNIT.finditer(pattern):
        depth += (unit[0] == "(") - (unit[0] == ")")
        deepest = max(deepest, depth)
    return deepest


def translated(pattern: str) -> str:
    r"""Rewrite a pattern of PCRE for `regex`. Raises ValueError for one without a meaning.

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
        for named in _NAMED.findall(match["class"]):
            if named not in _NAMES:
                raise ValueError(f"[:{named}:] is no class of characters")
        # `regex` would take a further [ for the beginning of a set inside the set.
        return re.sub(r"(?<!\\)(?!^)\[(?!:)", r"\\[", match["class"])
    return match["other"] or ""

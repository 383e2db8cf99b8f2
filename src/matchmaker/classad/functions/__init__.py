"""The table of built-in functions, the decorator that fills it, and bounds on their results.

A strict function receives values; a lazy one receives its arguments as expressions, with the scope
to evaluate them in. Neither raises: a failure is ERROR with its reason.

The evaluator counts the text and the lists that go in and come out of every function. A function
whose time depends on more than their size is ``budgeted``: it receives the rest of the evaluation's
budget as `budget`.

``joined`` and ``listed`` bound results, since a few attributes that double a string could otherwise
fill the memory. A definition also says the function's traits and the type of its result, for
reduction, the columns of a pool, the linter and the strategies for tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from functools import lru_cache
from typing import Final, TypeAlias, TypeVar

import attrs

from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from matchmaker.classad.errors import closest
from matchmaker.classad.values import ErrorType, Value, is_error, type_name

_F = TypeVar("_F", bound=Callable[..., Value])
BOOLEAN: Final = "boolean"
NUMBER: Final = "number"
STRING: Final = "string"
FUNCTIONS: Final[dict[str, Function]] = {}


class Trait(Enum):
    """A dependency of a function beside the values of its arguments."""

    VOLATILE = auto()
    """Equal calls may differ, or each has an effect: never folded, repeated or merged."""
    CHANCE = auto()
    """Calls differ within one evaluation too."""
    NOW = auto()
    """Volatile if called without arguments: the time is then the present."""
    LOCAL = auto()
    """Looks at the evaluating machine: its accounts, maps or clock settings."""
    ZONE = auto()
    """May use the time zone of the evaluating machine."""
    REFLECTIVE = auto()
    """Looks at expressions or whole ads."""
    CODE = auto()
    """Evaluates text, which may name any attribute."""
    GANG = auto()
    """Evaluates an argument with another ad for one side."""
    TYPE_TEST = auto()
    """Gives true or false for any value, error included."""
    PATTERN = auto()
    """Takes a regular expression as first argument."""
    ASKING = auto()
    """Asks whether an argument is there, or how it is written: it may well be missing."""

    # Traits are parts of sets everywhere; the hash of an enumeration is made in Python.
    __hash__ = object.__hash__


Traits: TypeAlias = frozenset[Trait]


INSIDE: Final[Traits] = frozenset({Trait.REFLECTIVE, Trait.GANG})
"""With any of these the arguments of a call must not be rewritten."""

UNFOLDABLE: Final[Traits] = INSIDE | {Trait.VOLATILE, Trait.LOCAL, Trait.ZONE}
"""With any of these a call is no constant, even if its arguments are constants."""


@attrs.frozen(slots=True)
class Function:
    """A built-in function: its name as documented, its number of arguments, and its code.

    ``result`` is the type of its value, undefined and error aside: ``boolean``, ``number`` (an
    integer or a real) or ``string``; empty if it varies or is another type. ``elsewhere`` is which
    argument is evaluated in, or against, the ads of another one; -1 for none.
    """

    name: str
    least: int
    most: int | None
    call: Callable[..., Value]
    lazy: bool
    budgeted: bool = False
    traits: Traits = frozenset()
    result: str = ""
    elsewhere: int = -1

    def accepts(self, count: int) -> bool:
        """Whether the function takes that many arguments."""
        return self.least <= count and (self.most is None or count <= self.most)

    @property
    def arity(self) -> str:
        """How many arguments it takes, in words."""
        if self.most is None:
            return f"at least {self.least} argument(s)"
        if self.least == self.most:
            return f"{self.least} argument(s)"
        return f"{self.least} to {self.most} arguments"


def traits_of(name: str, count: int) -> Traits:
    """The traits of a call with a number of arguments; none for an unknown function.

    >>> Trait.VOLATILE in traits_of("absTime", 0), Trait.VOLATILE in traits_of("absTime", 1)
    (True, False)
    """
    known = FUNCTIONS.get(name.lower())
    if known is None:
        return frozenset()
    now = not count and Trait.NOW in known.traits
    return known.traits | {Trait.VOLATILE} if now else known.traits


def result_of(name: str) -> str:
    """The type of a function's result as ``Function.result`` says it.

    >>> result_of("strcat"), result_of("max"), result_of("noSuch")
    ('string', '', '')
    """
    known = FUNCTIONS.get(name.lower())
    return known.result if known is not None else ""


def function(
    name: str,
    least: int,
    most: int | None = -1,
    *,
    lazy: bool = False,
    budgeted: bool = False,
    traits: Iterable[Trait] = (),
    result: str = "",
    elsewhere: int = -1,
) -> Callable[[_F], _F]:
    """Enters a function of `least` to `most` arguments (None: any number; else `least`).

    A lazy one receives its arguments unevaluated, and their ``CallScope``.
    """

    def enter(call: _F) -> _F:
        FUNCTIONS[name.lower()] = Function(
            name, least, least if most == -1 else most, call, lazy, budgeted, frozenset(traits),
            result, elsewhere,
        )  # fmt: skip
        return call

    return enter


def wrong(function: str, wanted: str, value: Value) -> ErrorType:
    """The error for an argument of the wrong type; an argument that is an error is returned.

    >>> wrong("size", "a string, a list or an ad", 1)
    ERROR(size() takes a string, a list or an ad, not integer)
    """
    if is_error(value):
        return value
    return ErrorType(f"{function}() takes {wanted}, not {type_name(value)}")


def joined(function: str, parts: Sequence[str], separator: str = "") -> Value:
    """Joins parts into one string; an error if it is too long."""
    length = sum(map(len, parts)) + len(separator) * max(0, len(parts) - 1)
    if length > LIMITS.result:
        return ErrorType(f"{function}() would give {length} characters, at most {LIMITS.result}")
    return separator.join(parts)


def listed(function: str, items: Sequence[Value]) -> Value:
    """Makes a list of items; an error if they are too many."""
    if len(items) > LIMITS.items:
        return ErrorType(f"{function}() would give {len(items)} elements, at most {LIMITS.items}")
    return list(items)


# Functions of other languages, and what serves here.
_ELSEWHERE: Final = {
    "strlen": "size", "length": "size", "len": "size", "contains": "member", "in": "member",
    "upper": "toUpper", "lower": "toLower", "concat": "strcat", "if": "ifThenElse",
    "iff": "ifThenElse", "coalesce": "", "match": "regexp", "substring": "substr",
}  # fmt: skip

STEPS: Final = 500
"""The steps that the search for a similar name costs an evaluation."""


@lru_cache
def instead(name: str) -> str:
    """The name of the function that was probably meant, or empty.

    >>> instead("siez"), instead("strlen"), instead("foo")
    ('size', 'size', '')
    """
    known = {folded: function.name for folded, function in FUNCTIONS.items()}
    # Two letters in the wrong order make a name of four as unlike as this, foo() as unlike floor().
    likeness = 0.75 if len(name) > 3 else 0.8
    return _ELSEWHERE.get(name.lower()) or closest(name, known, likeness)


def unknown(name: str) -> str:
    """The error message for an unknown function.

    >>> unknown("memebr"), unknown("frobnicate")
    ('there is no function memebr(); did you mean member()?', 'there is no function frobnicate()')
    """
    like = instead(name[:60])
    return f"there is no function {name[:60]}()" + (f"; did you mean {like}()?" if like else "")

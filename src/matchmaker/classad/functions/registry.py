"""The table of built-in functions and the two decorators that fill it.

A strict function receives values; a lazy one receives its arguments as expressions, with the scope
to evaluate them in. Neither raises: what cannot be computed is ERROR with its reason.

The evaluator counts the text and the lists that go in and come out of every function. A function
whose time depends on more than their size is ``budgeted``: it receives the rest of the evaluation's
budget as `budget`.

A definition also says what others need to know of the function: its traits and the type of its
result. Reduction, the columns of a pool, the linter and the strategies for tests ask here.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Flag, auto
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from matchmaker.classad.values import Value

if TYPE_CHECKING:
    from matchmaker.classad.nodes import Expr
    from matchmaker.classad.state import Scope

    LazyFunction = Callable[[tuple[Expr, ...], Scope], Value]

_F = TypeVar("_F", bound=Callable[..., Value])


class Trait(Flag):
    """What a function rests on beside the values of its arguments."""

    NONE = 0
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
    """Looks at expressions or whole ads: its arguments must not be rewritten."""
    CODE = auto()
    """Evaluates text, which may name any attribute."""
    GANG = auto()
    """Evaluates an argument with another ad in the place of one side."""
    TYPE_TEST = auto()
    """Gives true or false for any value, error included."""
    PATTERN = auto()
    """Takes a regular expression as first argument."""


UNFOLDABLE: Final = Trait.VOLATILE | Trait.LOCAL | Trait.ZONE | Trait.REFLECTIVE
"""With any of these a call is no constant, even if its arguments are constants."""

BOOLEAN: Final = "boolean"
NUMBER: Final = "number"
STRING: Final = "string"


@attrs.frozen(slots=True)
class Function:
    """A built-in function: its name as documented, how many arguments, and what computes it.

    ``result`` is the type of its value, undefined and error aside: ``boolean``, ``number`` (an
    integer or a real) or ``string``; empty if it varies or is another type.
    """

    name: str
    least: int
    most: int | None
    call: Callable[..., Value]
    lazy: bool
    budgeted: bool = False
    traits: Trait = Trait.NONE
    result: str = ""

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


FUNCTIONS: Final[dict[str, Function]] = {}


def traits_of(name: str, count: int) -> Trait:
    """The traits of a call with a number of arguments; none for an unknown function.

    >>> traits_of("Random", 1), traits_of("absTime", 0) & Trait.VOLATILE, traits_of("size", 1)
    (<Trait.VOLATILE|CHANCE: 3>, <Trait.VOLATILE: 1>, <Trait.NONE: 0>)
    """
    known = FUNCTIONS.get(name.lower())
    if known is None:
        return Trait.NONE
    now = not count and Trait.NOW in known.traits
    return known.traits | Trait.VOLATILE if now else known.traits


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
    budgeted: bool = False,
    traits: Trait = Trait.NONE,
    result: str = "",
) -> Callable[[_F], _F]:
    """Enters a strict function of `least` to `most` arguments (None: any number; else `least`)."""

    def enter(call: _F) -> _F:
        FUNCTIONS[name.lower()] = Function(
            name, least, least if most == -1 else most, call, False, budgeted, traits, result
        )
        return call

    return enter


def lazy_function(
    name: str,
    least: int,
    most: int | None = -1,
    *,
    traits: Trait = Trait.NONE,
    result: str = "",
) -> Callable[[LazyFunction], LazyFunction]:
    """Enters a function that receives its arguments unevaluated, and their scope."""

    def enter(call: LazyFunction) -> LazyFunction:
        FUNCTIONS[name.lower()] = Function(
            name, least, least if most == -1 else most, call, True, False, traits, result
        )
        return call

    return enter

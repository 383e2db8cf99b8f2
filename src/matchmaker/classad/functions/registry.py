"""The table of built-in functions and the two decorators that fill it.

A strict function receives values; a lazy one receives its arguments as expressions, with the scope
to evaluate them in. Neither raises: what cannot be computed is ERROR with its reason.

Text and lists that go in and come out are counted for every function (``bounds``). One whose time
depends on more than their size is ``budgeted``: it gets what the evaluation has left as `budget`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from matchmaker.classad.values import Value

if TYPE_CHECKING:
    from matchmaker.classad.nodes import Expr
    from matchmaker.classad.state import Scope

    LazyFunction = Callable[[tuple[Expr, ...], Scope], Value]

_F = TypeVar("_F", bound=Callable[..., Value])


@attrs.frozen(slots=True)
class Function:
    """A built-in function: its name as documented, how many arguments, and what computes it."""

    name: str
    least: int
    most: int | None
    call: Callable[..., Value]
    lazy: bool
    budgeted: bool = False

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


def function(
    name: str, least: int, most: int | None = -1, *, budgeted: bool = False
) -> Callable[[_F], _F]:
    """Enters a strict function of `least` to `most` arguments (None: any number; else `least`)."""

    def enter(call: _F) -> _F:
        FUNCTIONS[name.lower()] = Function(
            name, least, least if most == -1 else most, call, False, budgeted
        )
        return call

    return enter


def lazy_function(
    name: str, least: int, most: int | None = -1
) -> Callable[[LazyFunction], LazyFunction]:
    """Enters a function that is given its arguments unevaluated, and the scope they stand in."""

    def enter(call: LazyFunction) -> LazyFunction:
        FUNCTIONS[name.lower()] = Function(name, least, least if most == -1 else most, call, True)
        return call

    return enter

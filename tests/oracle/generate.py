"""Random cases without end, from a seed: typed and untyped expressions, alone and between ads.

A typed expression has a value of the kind that is asked for, unless something goes wrong in it; an
untyped one puts anything anywhere; a few are broken on purpose. Half of the cases stand in ads,
whose attributes lead to each other, in circles too, to nested ads and to the other ad of a match.
What depends on the moment or on chance is left out.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from matchmaker import ParseError, parse_expr
from matchmaker.classad.nodes import Attr
from matchmaker.classad.operators import BINARY, UNARY
from matchmaker.classad.printer import quote
from tests.oracle.cases import functions
from tests.oracle.oracle import Case
from tests.oracle.shrink import PRESENT
from tests.oracle.vocabulary import ARGUMENTS, LEAVES, NAMES, PATTERN_PARTS, SIGNATURES, TOKENS

_Maker: TypeAlias = "Callable[[Generator, int], str]"

GROUP: Final = 12
"""How many expressions are asked in the same ads."""

KINDS: Final = tuple(LEAVES)
_PLAIN: Final = ("integer", "real", "string", "boolean")
_NUMBERS: Final = ("integer", "integer", "real")
_ARITHMETIC: Final = ("+", "-", "*", "/", "%")
_BITS: Final = ("&", "|", "^", "<<", ">>", ">>>")
_RELATIONS: Final = ("==", "!=", "<", "<=", ">", ">=")
_IDENTITIES: Final = ("is", "isnt", "=?=", "=!=")
_INFIX: Final = tuple(symbol for symbol in BINARY if symbol != "?:")
_TIME: Final = re.compile(r"absTime|relTime|formatTime", re.IGNORECASE)
"""What is not broken: without arguments it gives the present, and half a date some other one."""
_COMPARING: Final = re.compile(r"version|stri?cmp|unparse|split|stringlist", re.IGNORECASE)
"""What compares or cuts up lists, ads and expressions as texts, to the character."""
_TOKEN: Final = re.compile(
    r'"(?:\\.|[^"\\])*"|\w+|\s+|>>>|=\?=|=!=|[<>=!]=|&&|\|\||<<|>>|\?:|.', re.DOTALL
)
_SHAPES: Final = (
    "{sign}({0})", "{sign}{0}", "({0}) ? ({1}) : ({2})", "{0} ? {1} : {2}", "({0}) ?: ({1})",
    "({0})[{1}]", "{0}[0]", "({0}).{name}", "{0}.{name}", "{{}}", "{{{0}}}", "{{{0}, {1}, {2}}}",
    "[{name} = {0}]",
)  # fmt: skip
"""What is made of anything, but for operators between two operands and functions."""
_SCOPES: Final = ("", "", "", "MY.", "TARGET.", "my.", "target.", "self.", "other.")
_TYPED: Final = {"evalineachcontext", "countmatches", "unresolved"}
"""Functions that are called with sensible arguments only: others make HTCondor crash."""
_FUNCTIONS: Final = tuple(
    function for function in functions() if function.name.lower() not in _TYPED
)


class Generator:
    """Cases from a seed: the same seed gives the same cases."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.held: list[str] = []
        """The names that the ads around the present group have."""

    def cases(self) -> Iterator[Case]:
        """Cases without end, in groups that share their ads."""
        while True:
            my, target = self._ads()
            for _ in range(GROUP):
                text = self.expression()
                if _COMPARING.search(text):
                    text = plain(text)
                if self.chance.random() < 0.1 and not _TIME.search(text):
                    text = self.damaged(text)
                yield Case(text, my, target)

    def _ads(self) -> tuple[str, str]:
        """The ads around a group: none, one, or two."""
        number = self.chance.choice((0, 0, 1, 2))
        chosen = [
            self.chance.sample(ALL_NAMES, self.chance.randrange(4, 12)) for _ in range(number)
        ]
        self.held = [name for names in chosen for name in names]
        my, target, *_ = [*map(self._ad, chosen), *("[ ]", "")[number:], ""]
        return my, target

    def _ad(self, names: list[str]) -> str:
        """An ad with some names, most of the kind that the name stands for."""
        return f"[ {'; '.join(f'{name} = {self._held(name)}' for name in names)} ]"

    def _held(self, name: str) -> str:
        depth = self.chance.randrange(3)
        untyped = self.chance.random() < 0.1
        text = plain(self.untyped(depth) if untyped else self.of(KIND_OF[name], depth))
        # What cannot be read would spoil the whole ad.
        return text if readable(text) else self._leaf(KIND_OF[name])

    def expression(self) -> str:
        """An expression, two of three typed."""
        depth = self.chance.choice((1, 1, 2, 2, 3, 4))
        if self.chance.random() < 0.01:
            # By themselves: a name changes the place from which all that follows is looked up.
            name = self.chance.choice(_SCOPES) + self.chance.choice(ALL_NAMES)
            form = self.chance.choice(("unresolved({})", "evalInEachContext({}, slots)"))
            return form.format(name)
        if self.chance.random() < 0.35:
            return self.untyped(depth)
        return self.of(self.chance.choice(KINDS), depth)

    # --- typed ------------------------------------------------------------------------------------

    def of(self, kind: str, depth: int) -> str:
        """An expression of a kind; ``pattern`` and ``name`` are kinds of arguments."""
        if kind == "pattern":
            return quote(self.pattern(), '"') if depth < 2 else self.of("string", depth)
        if kind == "name":
            return self.chance.choice(ALL_NAMES)
        if kind in ARGUMENTS:
            return self.chance.choice(ARGUMENTS[kind])
        if depth <= 0 or self.chance.random() < 0.1:
            return self._leaf(kind)
        if kind == "any":
            return self.of(self.chance.choice(KINDS), depth)
        make = self.chance.choice(_MAKERS[kind])
        return make(self, depth - 1)

    def _leaf(self, kind: str) -> str:
        names = [name for name in self.held if kind in ("any", KIND_OF[name])]
        if self.chance.random() < (0.6 if names else 0.06):
            return self._name(names or (NAMES[kind] if kind != "any" else ALL_NAMES))
        if self.chance.random() < 0.03:
            return self.chance.choice(("undefined", "error"))
        if kind == "any":
            kind = self.chance.choice(KINDS)
        if kind == "string" and self.chance.random() < 0.1:
            return quote(self.pattern(), '"')
        return self.chance.choice(LEAVES[kind])

    def _name(self, names: Sequence[str]) -> str:
        name = self.chance.choice(ALL_NAMES if self.chance.random() < 0.05 else names)
        if self.chance.random() < 0.2:
            name = name.upper() if self.chance.random() < 0.5 else name.title()
        if self.chance.random() < 0.05:
            return f"{self.chance.choice(NAMES['ad'])}.{name}"
        return self.chance.choice(_SCOPES) + name

    def _infix(self, symbols: tuple[str, ...], left: str, right: str) -> str:
        return f"{self.operand(left)} {self.chance.choice(symbols)} {self.operand(right)}"

    def operand(self, text: str) -> str:
        """An operand, most often in parentheses; without, precedence decides what it belongs to."""
        if text.isalnum():
            return text
        return f"({text})" if self.chance.random() < 0.75 else text

    def _arithmetic(self, depth: int, kind: str) -> str:
        other = kind if kind == "integer" else self.chance.choice(_NUMBERS)
        return self._infix(_ARITHMETIC, self.of(kind, depth), self.of(other, depth))

    def _bits(self, depth: int) -> str:
        return self._infix(_BITS, self.of("integer", depth), self.of("integer", depth))

    def _relation(self, depth: int) -> str:
        kind = self.chance.choice(KINDS)
        other = kind if self.chance.random() < 0.8 else self.chance.choice(KINDS)
        symbols = _RELATIONS if self.chance.random() < 0.7 else _IDENTITIES
        return self._infix(symbols, self.of(kind, depth), self.of(other, depth))

    def _logic(self, depth: int) -> str:
        return self._infix(("&&", "||"), self.of("boolean", depth), self.of("boolean", depth))

    def _not(self, depth: int) -> str:
        return f"!{self.operand(self.of('boolean', depth))}"

    def _sign(self, depth: int, kind: str) -> str:
        return f"{self.chance.choice('-+~' if kind == 'integer' else '-+')}({self.of(kind, depth)})"

    def _choice(self, depth: int, kind: str) -> str:
        condition = self.operand(self.of("boolean", depth))
        return f"{condition} ? {self.operand(self.of(kind, depth))} : {self.of(kind, depth)}"

    def _default(self, depth: int, kind: str) -> str:
        return f"({self.of(kind, depth)} ?: {self._atom(kind, depth)})"

    def _atom(self, kind: str, depth: int) -> str:
        text = self.of(kind, depth)
        return text if text.isalnum() else f"({text})"

    def _call(self, depth: int, kind: str) -> str:
        name, kinds = self.chance.choice(SIGNATURES[kind])
        arguments = [self.of(argument, depth) for argument in kinds]
        if name == "countMatches":
            arguments[0] = self._no_name(depth)
        return f"{self._spelled(name)}({', '.join(arguments)})"

    def _spelled(self, name: str) -> str:
        return name if self.chance.random() < 0.9 else name.lower()

    def _element(self, depth: int, kind: str) -> str:
        items = [self.of(kind, depth) for _ in range(self.chance.randrange(1, 4))]
        index = self.chance.randrange(len(items)) if self.chance.random() < 0.8 else 3
        return f"{{{', '.join(items)}}}[{index}]"

    def _attribute(self, depth: int, kind: str) -> str:
        name = self.chance.choice(NAMES[kind])
        return f"[{name} = {self.of(kind, depth)}].{name}"

    def _evaluated(self, depth: int, kind: str) -> str:
        return f"eval({quote(self.of(kind, depth), chr(34))})"

    def _list(self, depth: int) -> str:
        kind = self.chance.choice(KINDS)
        items = [self.of(kind, depth) for _ in range(self.chance.randrange(4))]
        return f"{{{', '.join(items)}}}"

    def _nested(self, depth: int) -> str:
        names = self.chance.sample(ALL_NAMES, self.chance.randrange(3))
        return f"[{'; '.join(f'{name} = {self.of(KIND_OF[name], depth)}' for name in names)}]"

    def _ads_list(self, depth: int) -> str:
        return f"{{{', '.join(self._nested(depth) for _ in range(self.chance.randrange(1, 3)))}}}"

    def _in_contexts(self, depth: int) -> str:
        return f"evalInEachContext({self._no_name(depth)}, {self.of('ads', depth)})"

    def _no_name(self, depth: int) -> str:
        """An expression that is no name alone, from whose place HTCondor would look up the rest."""
        text = self.of(self.chance.choice(_PLAIN), depth)
        name = readable(text) and isinstance(parse_expr(text), Attr)
        return f"({text} ?: undefined)" if name else text

    def _projection(self, depth: int) -> str:
        return f"{self.operand(self.of('ads', depth))}.{self.chance.choice(ALL_NAMES)}"

    def _times(self, depth: int, symbols: str, kinds: tuple[str, str]) -> str:
        return self._infix(tuple(symbols), self.of(kinds[0], depth), self.of(kinds[1], depth))

    # --- untyped ----------------------------------------------------------------------------------

    def untyped(self, depth: int) -> str:
        """Anything, put together of anything."""
        if depth <= 0:
            return self._leaf("any")
        number = self.chance.random()
        if number < 0.3:
            symbols = (*_INFIX, "=?=", "=!=")
            return self._infix(symbols, self.untyped(depth - 1), self.untyped(depth - 1))
        if number < 0.6:
            return self._any_call(depth - 1)
        return self.chance.choice(_SHAPES).format(
            *(self.untyped(depth - 1) for _ in range(3)),
            name=self.chance.choice(ALL_NAMES),
            sign=self.chance.choice(tuple(UNARY)),
        )

    def _any_call(self, depth: int) -> str:
        function = self.chance.choice(_FUNCTIONS)
        most = function.most if function.most is not None else 4
        count = self.chance.randint(function.least, most)
        if self.chance.random() < 0.05:
            count = self.chance.randrange(5)
        if not count and function.name.lower() in PRESENT:
            count = 1
        arguments = [self.untyped(depth) for _ in range(count)]
        if function.name in ("splitTime", "formatTime") and count:
            # Of numbers beyond all calendars HTCondor gives what happens to be in its memory.
            arguments[0] = self.of(self.chance.choice(("time", "span", "ad", "list")), depth)
        if function.name in ("absTime", "relTime") and count == 1 and arguments[0].startswith('"'):
            # A literal would be read as a time already; what is no time HTCondor reads leniently.
            arguments = [f"strcat({arguments[0]})"]
        return f"{function.name}({', '.join(arguments)})"

    def damaged(self, text: str) -> str:
        """A text with a token left out, put in, doubled, or two of them changed."""
        tokens = _TOKEN.findall(text)
        for _ in range(self.chance.choice((1, 1, 2))):
            i = self.chance.randrange(len(tokens))
            number = self.chance.random()
            if number < 0.35:
                tokens[i : i + 1] = []
            elif number < 0.7:
                tokens.insert(i, self.chance.choice(TOKENS))
            elif number < 0.85:
                tokens.insert(i, tokens[i])
            else:
                tokens[i : i + 2] = reversed(tokens[i : i + 2])
            tokens = tokens or [" "]
        return "".join(tokens)

    def pattern(self) -> str:
        """A regular expression that both libraries read alike."""
        parts = [self.chance.choice(PATTERN_PARTS) for _ in range(self.chance.randrange(1, 4))]
        return "".join(parts)


def plain(text: str) -> str:
    """A text without needless parentheses, which HTCondor has where it takes an ad as text."""
    try:
        return str(parse_expr(text))
    except ParseError:
        return text


def readable(text: str) -> bool:
    """Whether a text is an expression."""
    try:
        parse_expr(text)
    except ParseError:
        return False
    return True


def _several(kind: str) -> tuple[_Maker, ...]:
    """What makes an expression of any kind."""
    return (
        lambda make, depth: make._choice(depth, kind),
        lambda make, depth: make._default(depth, kind),
        lambda make, depth: make._call(depth, kind),
        lambda make, depth: make._call(depth, kind),
        lambda make, depth: make._element(depth, kind),
        lambda make, depth: make._attribute(depth, kind),
        lambda make, depth: make._evaluated(depth, kind),
    )


_MAKERS: Final[dict[str, tuple[_Maker, ...]]] = {
    "integer": (
        *[lambda make, depth: make._arithmetic(depth, "integer")] * 3,
        *[Generator._bits] * 2,
        lambda make, depth: make._sign(depth, "integer"),
        *_several("integer"),
    ),
    "real": (
        *[lambda make, depth: make._arithmetic(depth, "real")] * 4,
        lambda make, depth: make._sign(depth, "real"),
        *_several("real"),
    ),
    "string": (*[lambda make, depth: make._call(depth, "string")] * 4, *_several("string")),
    "boolean": (
        *[Generator._relation] * 4,
        *[Generator._logic] * 4,
        Generator._not,
        *_several("boolean"),
    ),
    "list": (
        *[Generator._list] * 3,
        Generator._in_contexts,
        Generator._projection,
        *_several("list"),
    ),
    "ads": (*[Generator._ads_list] * 6, *_several("ads")),
    "ad": (*[Generator._nested] * 4, *_several("ad")),
    "time": (
        lambda make, depth: make._times(depth, "+-", ("time", "span")),
        *_several("time"),
    ),
    "span": (
        lambda make, depth: make._times(depth, "-", ("time", "time")),
        lambda make, depth: make._times(depth, "+-", ("span", "span")),
        lambda make, depth: make._times(depth, "*/", ("span", "factor")),
        lambda make, depth: make._times(depth, "*", ("integer", "span")),
        *_several("span"),
    ),
}

ALL_NAMES: Final = tuple(name for names in NAMES.values() for name in names)
KIND_OF: Final = {name: kind for kind, names in NAMES.items() for name in names}

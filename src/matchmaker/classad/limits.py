"""What one evaluation may use up: steps, seconds in patterns, characters. Ads come from strangers.

A step is about the work of one node of an expression. An attribute costs the nodes of what it
holds, a call eight steps, and text a step for every four characters that go into a function or come
out; what a function does beyond that it counts itself. So the bound holds for time and memory
together, and does not depend on the machine. The time in regular expressions, which no count of
characters foretells, is measured.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeGuard

import attrs

from matchmaker.classad.values import ErrorType, Value

FOUR: Final = 2
"""The shift that divides a length by the characters of a step."""

LONG: Final = 1024
"""From this length on, text costs steps in operators too."""

CALL: Final = 8
"""The steps of a call: about what most functions take beside the operators of an expression."""


def limit(default: Any, what: str) -> Any:
    """A field of limits: its value, and what it bounds, in the words of docs/safety.md."""
    return attrs.field(default=default, metadata={"what": what})


@attrs.frozen(slots=True)
class Limits:
    """What a text and an evaluation may take at most. Each field says what it bounds."""

    text: int = limit(1 << 24, "characters of an expression, of an ad in a stream, of a tag or"
                      " comment in XML")  # fmt: skip
    syntax: int = limit(1 << 20, "of these, outside of strings: of an expression, or of an ad that"
                        " cannot be read attribute by attribute")  # fmt: skip
    nesting: int = limit(200, "how deep an expression or an ad nests; chains such as"
                         r" `a \|\| b \|\| …` do not count")  # fmt: skip

    steps: int = limit(1_000_000, "steps of an evaluation")
    depth: int = limit(300, "levels that attributes lead into each other, and `eval()` into its"
                       " texts, the nesting of each expression included")  # fmt: skip
    result: int = limit(1 << 20, "characters of a text that a function gives")
    items: int = limit(200_000, "elements of a list that a function makes")
    time_format: int = limit(1024, "characters of the format of `formatTime`")
    seconds: float = limit(0.5, "seconds of processor time of all regular expressions of an"
                           " evaluation")  # fmt: skip
    question: int = limit(2_000_000, "steps of all evaluations of a question about one job, such"
                          " as its flags for all nodes")  # fmt: skip
    question_each: int = limit(2_000, "steps that each evaluation of it has even then")
    question_seconds: float = limit(2.0, "seconds of processor time of all regular expressions of"
                                    " such a question")  # fmt: skip
    question_least: float = limit(0.002, "seconds of them that each evaluation has even then")
    # It takes a megabyte a millisecond.
    recursive_seconds: float = limit(0.05, "seconds of processor time of a regular expression that"
                                     " calls itself, such as `(?R)`")  # fmt: skip
    pattern: int = limit(4_000, "characters of a regular expression")
    pattern_size: int = limit(50_000, "size of a regular expression with its repetitions written"
                              " out")  # fmt: skip
    # PCRE allows as many.
    pattern_depth: int = limit(250, "how deep its groups stand in each other")
    subject: int = limit(1 << 17, "characters of a text in which a regular expression is searched")
    facts: int = limit(20, "names of a clause whose values are shown; how many more there are is"
                           " said")  # fmt: skip

    # Some 10 MB: ads rest on them.
    spellings: int = limit(1 << 15, "names of attributes whose first spelling is kept for good")
    spelling: int = limit(100, "characters of such a name")

    trace_parts: int = limit(2_000, "parts that a trace shows")
    trace_depth: int = limit(100, "how deep it shows them")
    trace_steps: int = limit(100_000, "steps of the evaluation that it follows")


LIMITS: Final = Limits()


class OutOfBoundsError(Exception):
    """Ends an evaluation that went past a bound. Evaluation gives ERROR with its text."""


TOO_MANY_SECONDS: Final = f"patterns took the evaluation more than {LIMITS.seconds} seconds"
_EXHAUSTED: Final = re.compile(r"(?:evaluation took more than \d+ steps|" + TOO_MANY_SECONDS + ")$")


def too_many_steps(limit: int | None = None) -> str:
    """The reason of an evaluation that is ERROR because it takes more than `limit` steps."""
    return f"evaluation took more than {limit if limit is not None else Budget.limit} steps"


def exhausted(value: Value) -> TypeGuard[ErrorType]:
    """Whether a value is the ERROR of an evaluation that used up its steps or its seconds.

    >>> exhausted(ErrorType(too_many_steps(200))), exhausted(ErrorType("division by zero"))
    (True, False)
    """
    return isinstance(value, ErrorType) and _EXHAUSTED.search(value.reason) is not None


class Budget:
    """What one evaluation may use up, and has used up so far.

    A pool gives an evaluation less than ``match`` does, by setting ``limit`` and ``seconds``.
    """

    limit = LIMITS.steps
    seconds = LIMITS.seconds
    steps = 0
    searched = 0.0
    """Seconds spent in regular expressions."""

    def spend(self, steps: int) -> None:
        """Counts work. Raises OutOfBoundsError once it is too much."""
        self.steps += steps
        if self.steps > self.limit:
            raise OutOfBoundsError(too_many_steps(self.limit))


def bulk(value: Value) -> int:
    """The steps that a string or a list costs where it is made; what is inside it counts once.

    >>> bulk("x" * 40), bulk([1, 2, "x" * 40]), bulk(1.5)
    (10, 13, 0)
    """
    if isinstance(value, str):
        return len(value) >> FOUR
    if isinstance(value, list):
        return len(value) + sum(len(item) >> FOUR for item in value if isinstance(item, str))
    return 0


def cost(values: list[Value]) -> int:
    """The steps that a call costs for its arguments' sake: their text once for each list element.

    >>> cost(["x" * 40]), cost(["x" * 40, [1, 2, 3]]), cost([1, 2])
    (18, 51, 8)
    """
    text, items = 1, 0
    for value in values:
        if isinstance(value, str):
            text += len(value) >> FOUR
        elif isinstance(value, list):
            items += len(value)
    return CALL - 1 + text * (1 + items)

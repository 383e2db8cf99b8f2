"""The names that are known from outside of a text, and what an unknown one was meant for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

import attrs

from matchmaker._limits import LINT_LIMITS as LIMITS
from matchmaker.classad.ad import ClassAd
from matchmaker.classad.errors import LONGEST, closest
from matchmaker.classad.nodes import AdExpr
from matchmaker.classad.walks import postorder
from matchmaker.linting.kinds import held_kinds
from matchmaker.linting.model import Scope

Schema = Collection[str] | Callable[[], Iterable[str]]


@attrs.frozen(slots=True)
class Known:
    """Names from the target ads and from a schema, by their lower case.

    Attributes:
        targets: of each attribute of the targets, at any depth, its spelling.
        kinds: of each attribute of the targets what it can be.
        schema: of each name of the schema its spelling.
        has_targets: whether there are any targets.
        asked: what was suggested before.
    """

    targets: Mapping[str, str]
    kinds: Mapping[str, frozenset[str]]
    schema: Mapping[str, str]
    has_targets: bool
    asked: dict[tuple[str, Scope, str], str] = attrs.field(factory=dict)

    def has(self, folded: str) -> bool:
        """Whether a name is one of the targets' or of the schema."""
        return folded in self.targets or folded in self.schema

    def suggestion(self, name: str, scope: Scope, role: str, words: Iterable[str] = ()) -> str:
        """The known name, or the one of `words`, most like a name; empty where none is like it.

        What is known is, by the role of the name, what the ad has, what the targets have, or both.
        """
        key = (name.lower(), scope, role)
        if key not in self.asked:
            names = len(scope.last) + len(self.targets) + len(self.schema)
            if len(name) > LONGEST or len(self.asked) * names > LIMITS.names:
                return ""
            own = () if role == "target" else scope.names()
            theirs = {} if role == "my" else self.targets
            extra = {other.lower(): other for other in (*own, *words)}
            self.asked[key] = closest(name, {**self.schema, **theirs, **extra})
        return self.asked[key]


def known_from(targets: Iterable[ClassAd], schema: Schema | None) -> Known:
    """The names in target ads and in a schema. TypeError for a schema that is a text."""
    if isinstance(schema, (str, bytes)):
        # Its letters would be the names.
        raise TypeError(
            "schema takes the names of attributes, or a function that gives them, not a text"
            f" such as {schema[:40]!r}"
        )
    spelling: dict[str, str] = {}
    kinds: dict[str, frozenset[str]] = {}

    def take(name: str, held: object) -> None:
        folded = name.lower()
        spelling.setdefault(folded, name)
        kinds[folded] = kinds.get(folded, frozenset()) | held_kinds(held)

    some = False
    for ad in targets:
        some = True
        for name, expression in ad.expressions().items():
            take(name, expression)
            if expression.depth > 1:
                # Matchmakers lift the attributes of nested ads, such as a CE's description.
                for node in postorder(expression):
                    if isinstance(node, AdExpr):
                        for inner, part in zip(node.names, node.expressions, strict=True):
                            take(inner, part)
    names = schema() if callable(schema) else schema or ()
    # An attribute that is undefined in a target may be anything in another.
    return Known(spelling, {name: found for name, found in kinds.items() if found},
                 {name.lower(): name for name in names}, some)  # fmt: skip

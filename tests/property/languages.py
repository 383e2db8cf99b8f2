"""The languages of LSF, PBS Pro, Torque, Flux and Kubernetes for hosts, by their manuals' grammars.

They share nothing with what writes: a grammar each, from the manual's rules, and a judge of one
node for what is read. What is outside the grammar fails the test. The sources are *Specifying
resource requirements* of LSF (the selection string, its operators and their order), *Requesting
resources* of the PBS Pro user's guide (chunks), and *Requesting resources* of Torque's
administrator guide (``nodes=``), Flux's RFC 35 (constraint query syntax), and the API reference of
Kubernetes (``NodeSelector``).
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from lark import Lark, Transformer, v_args

# --- LSF ------------------------------------------------------------------------------------------

_LSF: Final = Lark(
    r"""
    start: "select[" either "]"
    ?either: both ("||" both)*
    ?both: same ("&&" same)*
    ?same: compared (SAME compared)?
    ?compared: sum (COMPARED sum)?
    ?sum: product (("+" | "-") product)*
    ?product: unary (("*" | "/") unary)*
    ?unary: "!" unary -> negated
        | "-" unary -> minus
        | "(" either ")"
        | NUMBER -> number
        | NAME -> resource
        | "defined" "(" NAME ")" -> is_defined
    SAME: "==" | "!="
    COMPARED: ">=" | "<=" | ">" | "<"
    NAME: /[A-Za-z_][A-Za-z0-9_]*/
    NUMBER: /[0-9]+(\.[0-9]+)?/
    """,
    parser="lalr",
)

_RELATIONS: Final[dict[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


class _Host(Transformer[Any, float]):
    """A selection string's value for one host; a boolean resource that is not defined is 0."""

    def __init__(self, facts: Mapping[str, float]) -> None:
        super().__init__()
        self.facts = facts

    @v_args(inline=True)
    def start(self, value: float) -> float:
        return value

    def either(self, parts: list[float]) -> float:
        return float(any(parts))

    def both(self, parts: list[float]) -> float:
        return float(all(parts))

    def same(self, parts: list[Any]) -> float:
        return float(_RELATIONS[str(parts[1])](parts[0], parts[2]))

    compared = same

    @v_args(inline=True)
    def negated(self, value: float) -> float:
        return float(not value)

    @v_args(inline=True)
    def number(self, text: str) -> float:
        return float(text)

    @v_args(inline=True)
    def resource(self, name: str) -> float:
        return float(self.facts.get(str(name), 0))


def lsf(text: str, facts: Mapping[str, float]) -> bool:
    """Whether a host with such resources is selected by ``select[…]``."""
    return bool(_Host(facts).transform(_LSF.parse(text)))


# --- PBS Pro --------------------------------------------------------------------------------------

_CHUNK: Final = Lark(
    r"""
    start: "select=" chunk ("+" chunk)*
    chunk: (COUNT ":")? pair (":" pair)*
    pair: NAME "=" VALUE
    COUNT: /[0-9]+/
    NAME: /[A-Za-z][A-Za-z0-9_-]*/
    VALUE: /[^:+=,\s"'&|]+/
    """,
    parser="lalr",
)
_SIZE: Final = re.compile(r"([0-9]+)([kmgtp]?)([bw])")


def kilobytes(text: str) -> int:
    """A size as PBS writes it."""
    match = _SIZE.fullmatch(text)
    assert match is not None, text
    number, prefix, unit = match.groups()
    assert unit == "b"
    powers = " kmgtp".index(prefix) if prefix else 0
    return int(number) << 10 * powers >> 10


def pbspro(text: str, facts: Mapping[str, object]) -> bool:
    """Whether a vnode with such resources can take the one chunk that ``select=`` asks for.

    Memory in MiB and processors are consumable, texts must be equal, and a boolean that is not
    there is false.
    """
    (chunk,) = _CHUNK.parse(text).children
    count, *pairs = chunk.children  # type: ignore[union-attr]
    assert count == "1"
    asked: dict[str, str] = {}
    for pair in pairs:
        name, value = map(str, pair.children)  # type: ignore[union-attr]
        # PBS refuses a chunk that names a resource twice.
        assert asked.setdefault(name, value) is value, text
    return all(_has(facts.get(name), name, value) for name, value in asked.items())


def _has(has: object, name: str, value: str) -> bool:
    if name == "mem":
        assert isinstance(has, int)
        return has * 1024 >= kilobytes(value)
    if value.lower() in ("true", "false"):
        return bool(has) == (value.lower() == "true")
    return isinstance(has, int) and has >= int(value) if value.isdigit() else has == value


# --- Torque ---------------------------------------------------------------------------------------

_NODES: Final = Lark(
    r"""
    start: "nodes=" node ("+" node)*
    node: COUNT (":" (PPN | GPUS | PROPERTY))*
    COUNT: /[0-9]+/
    PPN.2: /ppn=[0-9]+/
    GPUS.2: /gpus=[0-9]+/
    PROPERTY: /[A-Za-z][A-Za-z0-9_.-]*/
    """,
    parser="lalr",
)


def torque(text: str, properties: set[str], processors: int) -> bool:
    """Whether one node with such properties can take what ``nodes=`` asks for."""
    (node,) = _NODES.parse(text).children
    count, *parts = map(str, node.children)  # type: ignore[union-attr]
    assert count == "1"
    sizes = [part for part in parts if part.startswith("ppn=")]
    assert len(sizes) <= 1
    if sizes and int(sizes[0].removeprefix("ppn=")) > processors:
        return False
    return {part for part in parts if "=" not in part} <= properties


# --- Flux -----------------------------------------------------------------------------------------

_FLUX: Final = Lark(
    r"""
    start: either
    ?either: both (("|" | "||") both)*
    ?both: one (("&" | "&&") one)*
    ?one: "(" either ")"
        | "-" term -> negated
        | term
    term: (NAME ":")? NAME ("," NAME)*
    NAME: /[A-Za-z0-9._]([A-Za-z0-9._-]*[A-Za-z0-9._])?/
    """,
    parser="earley",
)


class _FluxNode(Transformer[Any, bool]):
    def __init__(self, text: str, name: str, properties: set[str]) -> None:
        super().__init__()
        self.text, self.name, self.properties = text, name, properties

    def start(self, parts: list[bool]) -> bool:
        return parts[0]

    def either(self, parts: list[bool]) -> bool:
        return any(parts)

    def both(self, parts: list[bool]) -> bool:
        return all(parts)

    def negated(self, parts: list[bool]) -> bool:
        return not parts[0]

    def term(self, names: list[Any]) -> bool:
        words = list(map(str, names))
        if words[0] == "host" and len(words) > 1:
            return self.name in words[1:]
        assert len(words) == 1, self.text
        return words[0] in self.properties


def flux(text: str, name: str, properties: set[str]) -> bool:
    """Whether a node of a name with such properties satisfies ``--requires=``."""
    return bool(_FluxNode(text, name, properties).transform(_FLUX.parse(text)))


# --- Kubernetes -----------------------------------------------------------------------------------


def kubernetes(line: str, labels: Mapping[str, str]) -> bool:
    """Whether the node affinity in a line of a pod's spec selects a node with such labels."""
    key, _, text = line.partition(": ")
    assert key == "affinity", line
    affinity = json.loads(text)
    assert list(affinity) == ["nodeAffinity"]
    (selector,) = affinity["nodeAffinity"].values()
    assert list(affinity["nodeAffinity"]) == ["requiredDuringSchedulingIgnoredDuringExecution"]
    terms = selector["nodeSelectorTerms"]
    assert terms
    assert list(selector) == ["nodeSelectorTerms"]
    return any(all(_expressed(e, labels) for e in term["matchExpressions"]) for term in terms)


def _expressed(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    assert set(expression) <= {"key", "operator", "values"}
    has, values = labels.get(expression["key"]), expression.get("values", [])
    assert all(isinstance(value, str) for value in values)
    match expression["operator"]:
        case "In":
            assert values
            return has in values
        case "NotIn":
            assert values
            return has not in values
        case "Exists":
            assert not values
            return has is not None
        case "DoesNotExist":
            assert not values
            return has is None
        case "Gt" | "Lt" as relation:
            (bound,) = values
            if has is None:
                return False
            return int(has) > int(bound) if relation == "Gt" else int(has) < int(bound)
    raise AssertionError(expression)

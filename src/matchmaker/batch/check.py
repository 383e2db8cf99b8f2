"""A mapping beside the nodes that it is for: what their features stand for, and its mistakes.

``with_attributes`` runs a mapping backwards, from the features of nodes to the attributes that they
stand for, so that a site publishes the nodes that its flags select. ``check`` finds mistakes in a
mapping, alone and against an inventory of the nodes. Flags are exact only if the mapping is right:
a feature that some nodes lack sends jobs astray. If nodes list their features in ``Features``, the
mapping's names are compared with that list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import combinations
from typing import Final

from matchmaker._diagnostics import Diagnostic
from matchmaker._limits import BATCH_LIMITS as LIMITS
from matchmaker.batch.flags.inventory import node_name
from matchmaker.batch.flags.terms import is_feature, names_of, values_of
from matchmaker.batch.mapping import Mapping, load_mapping
from matchmaker.batch.rules import Rule, alike
from matchmaker.batch.templates import assigned, filled
from matchmaker.classad import ClassAd
from matchmaker.classad.errors import shorten
from matchmaker.classad.evaluate import charged
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.printer import unparse_value
from matchmaker.classad.values import UNDEFINED, Value
from matchmaker.reduction.domains import MISSING

CARRIED = "Features"
"""The attribute of a node that lists its features."""


@charged
def with_attributes(
    nodes: Iterable[ClassAd], mapping: Mapping
) -> tuple[list[ClassAd], list[Diagnostic]]:
    """Copy ads of nodes with the attributes that their features stand for; return findings, too.

    An attribute that an ad has already is kept. Of several texts with one feature, the first in the
    mapping is taken; of a bucket, its lowest number. A node with features for two values of one
    attribute gets neither, and a finding.

    >>> from matchmaker import parse_ad
    >>> from matchmaker.batch import load_mapping
    >>> mapping = load_mapping("slurm", "examples/mappings/slurm-site.toml")
    >>> (node,), _ = with_attributes([parse_ad('[ Name = "n1"; Features = { "el5" } ]')], mapping)
    >>> node.eval("GlueHostOperatingSystemRelease")
    '5.2'
    """
    made: list[ClassAd] = []
    ambiguous: dict[tuple[str, str], list[str]] = {}
    for number, ad in enumerate(nodes, 1):
        features = ad.eval(CARRIED)
        copy = ClassAd(ad)
        made.append(copy)
        if not isinstance(features, list):
            continue
        carried = {feature for feature in features if isinstance(feature, str)}
        for rule in mapping.rules.values():
            if not is_feature(rule) or ad.eval(rule.attribute) is not UNDEFINED:
                continue
            values = list(_values(rule, carried))
            if len(values) == 1:
                copy[rule.attribute] = values[0]
            elif values:
                both = " and ".join(sorted(_found(rule, carried))[:2])
                name = node_name(ad) or f"node {number}"
                ambiguous.setdefault((rule.attribute, both), []).append(name)
    return made, [
        Diagnostic(
            "mapping.ambiguous",
            f"{some(names)} {'has' if len(names) == 1 else 'have'} features {both}, which stand for"
            " different values; none is taken",
            attribute=attribute,
        )
        for (attribute, both), names in ambiguous.items()
    ]


def features_of(rule: Rule) -> dict[str, tuple[str, ...]]:
    """Return the spellings of each name of a rule among features: plain, or as its term has it.

    >>> features_of(Rule("Os", "eq", features={"9": "el9"}, term="os={value}"))
    {'el9': ('el9', 'os=el9')}
    """
    return {name: tuple(dict.fromkeys((name, *filled(rule.term, name)))) for name in rule.named}


def _found(rule: Rule, carried: set[str]) -> set[str]:
    return {
        name for name, spellings in features_of(rule).items() if not carried.isdisjoint(spellings)
    }


def _values(rule: Rule, carried: set[str]) -> Iterator[Value]:
    """Yield the values of the attribute that a node with such features may have."""
    found = _found(rule, carried)
    texts = [text for text, name in rule.features.items() if name in found]
    if rule.kind == "member":
        yield list(texts)
    elif rule.kind == "bool":
        yield from (text == "true" for text in texts)
        if not texts and "false" not in rule.features:
            yield False
    elif rule.kind == "bucket":
        yield from (low for name, (low, _) in rule.buckets.items() if name in found)
    else:
        by_name = {rule.features[text]: text for text in reversed(texts)}
        yield from {ascii_fold(text): text for text in by_name.values()}.values()


def some(names: list[str]) -> str:
    """Names of nodes in a message; the first few of many."""
    several = f" and {len(names) - LIMITS.listed} more" if len(names) > LIMITS.listed else ""
    return f"{', '.join(names[: LIMITS.listed])}{several}"


UNFORESEEN: Final = "a value that the rule does not foresee"


@charged
def check(
    mapping: Mapping,
    inventory: Iterable[ClassAd] = (),
    is_host: Callable[[str], bool] | None = None,
) -> list[Diagnostic]:
    """Find the mistakes in a mapping, attribute by attribute.

    The values of the nodes of an ``inventory`` are compared with the rules. ``is_host`` tells
    whether an attribute may be of hosts; a rule for another is useless.

    >>> from matchmaker.batch import load_mapping
    >>> check(load_mapping("slurm"), [ClassAd({"Name": "n1"})])[0].message
    'n1 has an undefined value: no such attribute'
    """
    nodes, found = with_attributes(inventory, mapping)
    used: dict[str, str] = {}
    spelled: dict[str, set[str]] = {}
    for name in {name for ad in nodes for name in ad}:
        spelled.setdefault(ascii_fold(name), set()).add(name)
    for rule in mapping.rules.values():
        messages = [*_alone(rule, is_host, used), *_spelled(rule, mapping, spelled)]
        if nodes and rule.kind not in ("name", "python", "shell"):
            messages += _against(rule, mapping, nodes)
        found += [
            Diagnostic("mapping.rule", message, attribute=rule.attribute) for message in messages
        ]
    return [*found, *_repeated(mapping)]


def _repeated(mapping: Mapping) -> Iterable[Diagnostic]:
    """Find requests that write one option: a job that has values for both gets one of them."""
    written: dict[str, str] = {}
    for request in mapping.requests.values():
        option = assigned(request.flag) if request.flag.startswith("-") else ""
        other = written.setdefault(option, request.name)
        if option and other != request.name:
            message = f"it writes {option}, as requests.{other} does: a job that has both gets one"
            yield Diagnostic("mapping.request", message, attribute=f"requests.{request.name}")


def _spelled(rule: Rule, mapping: Mapping, spelled: dict[str, set[str]]) -> Iterable[str]:
    """Yield other spellings of an attribute, by nodes or the package's table."""
    folded = ascii_fold(rule.attribute)
    others = set(spelled.get(folded, ()))
    packaged = load_mapping(mapping.lrms).rules.get(folded)
    others |= set() if packaged is None else {packaged.attribute}
    for other in sorted(others - {rule.attribute}):
        yield f"it differs from {other} in case alone"


def _alone(
    rule: Rule, is_host: Callable[[str], bool] | None, used: dict[str, str]
) -> Iterable[str]:
    if is_host is not None and rule.kind != "name" and not is_host(rule.attribute):
        yield "the GLUE schema has it for queues, so that no condition on hosts names it"
    folded: dict[str, str] = {}
    for text, name in rule.features.items():
        if folded.setdefault(ascii_fold(text), name) != name:
            yield f"{text!r} has two features; comparisons ignore upper and lower case"
    for name in rule.named:
        other = used.setdefault(rule.term.replace("{value}", name), rule.attribute)
        if other != rule.attribute:
            yield f"feature {name} stands for a value of {other}, too"
    runs = sorted(rule.buckets.items(), key=lambda item: item[1])
    for (one, (_, end)), (other, (start, _)) in combinations(runs, 2):
        if start <= end:
            yield f"buckets {one} and {other} overlap"


NONE: Final = "an undefined value: no such attribute"

_COUNTS: Final = {"gpumodel": "GPUs"}
"""Attributes of what a node may have none of, with the attribute that says how many."""

# A Boolean that is missing reads like false to people, and is not.
_UNDEFINED: Final = {"bool": "an undefined value, which is not false: no such attribute"}


def _against(rule: Rule, mapping: Mapping, nodes: list[ClassAd]) -> Iterable[str]:
    """Find mistakes in a rule by the values and the features of nodes."""
    wrong: dict[str, list[str]] = {}
    seen: set[str] = set()
    listed: dict[str, None] = {}
    example = ""
    known = values_of(rule)
    stands = (mapping.terms.or_ or mapping.terms.and_ == "&") and is_feature(rule)
    spellings = features_of(rule) if stands else {}
    for number, ad in enumerate(nodes, 1):
        node = node_name(ad) or f"node {number}"
        carried = ad.eval(CARRIED)
        features = [each for each in carried if isinstance(each, str)] if isinstance(
            carried, list
        ) else None  # fmt: skip
        listed |= dict.fromkeys(features or ())
        has = {
            name for name, several in spellings.items()
            if features and not set(features).isdisjoint(several)
        }  # fmt: skip
        value = ad.eval(rule.attribute)
        if value is UNDEFINED:
            # A node without GPUs has no model of them.
            if ad.eval(_COUNTS.get(ascii_fold(rule.attribute), "")) == 0:
                continue
            if not has and not known >= MISSING:
                wrong.setdefault(_UNDEFINED.get(rule.kind, NONE), []).append(node)
            continue
        if value not in known:
            wrong.setdefault(UNFORESEEN, []).append(node)
            example = example or f", such as {shorten(unparse_value(value), LIMITS.shown)}"
            continue
        names = names_of(rule, value) if rule.named else None
        if names is None:
            continue
        seen |= names
        for name in spellings if features is not None else ():
            if (name in names) != (name in has):
                what = f"a value that feature {name} stands for, but not the feature in {CARRIED}"
                other = f"feature {name} in {CARRIED}, but no value that it stands for"
                wrong.setdefault(what if name in names else other, []).append(node)
    for what, who in wrong.items():
        verb = "has" if len(who) == 1 else "have"
        such = example if what == UNFORESEEN else ""
        yield f"{some(who)} {verb} {what}{such}"
    for name in rule.named:
        if listed and spellings:
            if set(listed).isdisjoint(spellings[name]):
                yield f"no node has the feature {name}{alike(name, listed)}"
        elif name not in seen:
            yield f"no node has a value for {name}"

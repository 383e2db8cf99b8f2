"""Finds mistakes in a site's mapping, alone and against an inventory of the nodes.

Flags are exact only if the mapping is right: a feature that some nodes lack sends jobs astray. If
nodes list their features in ``Features``, the mapping's names are compared with that list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Final

from matchmaker.batch.inventory import node_name
from matchmaker.batch.limits import LIMITS
from matchmaker.batch.mapping import Mapping
from matchmaker.batch.rules import Rule
from matchmaker.batch.terms import names_of, values_of
from matchmaker.classad import ClassAd
from matchmaker.classad.diagnostics import Diagnostic
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.unparse import unparse_value
from matchmaker.classad.values import UNDEFINED, Value
from matchmaker.reduction.domains import MISSING

CARRIED: Final = "Features"

UNFORESEEN: Final = "a value that the rule does not foresee"


def check(
    mapping: Mapping,
    inventory: Iterable[ClassAd] = (),
    is_host: Callable[[str], bool] | None = None,
) -> list[Diagnostic]:
    """The mistakes in a mapping, attribute by attribute.

    Args:
        mapping: the mapping.
        inventory: ads of nodes; their values are compared with the rules.
        is_host: whether hosts have an attribute with a name. A rule for another is useless.

    >>> from matchmaker.batch import load_mapping
    >>> check(load_mapping("slurm"), [ClassAd({"Name": "n1"})])[0].message
    'n1 has no such attribute'
    """
    nodes = list(inventory)
    found: list[Diagnostic] = []
    used: dict[str, str] = {}
    for rule in mapping.rules.values():
        messages = list(_alone(rule, is_host, used))
        if nodes and rule.kind not in ("name", "python", "shell"):
            messages += _against(rule, mapping, nodes)
        found += [
            Diagnostic("mapping.rule", message, attribute=rule.attribute) for message in messages
        ]
    return found


def _alone(
    rule: Rule, is_host: Callable[[str], bool] | None, used: dict[str, str]
) -> Iterable[str]:
    if is_host is not None and rule.kind != "name" and not is_host(rule.attribute):
        yield "it is no attribute of hosts, so that no residual names it"
    folded: dict[str, str] = {}
    for text, name in rule.features.items():
        if folded.setdefault(ascii_fold(text), name) != name:
            yield f"{text!r} has two features; the language does not tell upper from lower case"
    for name in dict.fromkeys((*rule.features.values(), *rule.buckets)):
        other = used.setdefault(rule.term.replace("{value}", name), rule.attribute)
        if other != rule.attribute:
            yield f"feature {name} stands for a value of {other}, too"
    if rule.kind == "eq" and len(set(rule.features.values())) < len(folded):
        yield "one feature stands for several texts"
    runs = sorted(rule.buckets.items(), key=lambda item: item[1])
    for (one, (_, end)), (other, (start, _)) in combinations(runs, 2):
        if start <= end:
            yield f"buckets {one} and {other} overlap"


def _short(value: Value) -> str:
    text = unparse_value(value)
    return text if len(text) <= LIMITS.shown else text[: LIMITS.shown] + " ..."


def _against(rule: Rule, mapping: Mapping, nodes: list[ClassAd]) -> Iterable[str]:
    wrong: dict[str, list[str]] = {}
    seen: set[str] = set()
    example = ""
    known = values_of(rule)
    stands = mapping.terms.or_ or mapping.terms.and_ == "&"
    for number, ad in enumerate(nodes, 1):
        node = node_name(ad) or f"node {number}"
        value = ad.eval(rule.attribute)
        if value is UNDEFINED:
            if not known >= MISSING:
                wrong.setdefault("no such attribute", []).append(node)
            continue
        if value not in known:
            wrong.setdefault(UNFORESEEN, []).append(node)
            example = example or f", such as {_short(value)}"
            continue
        names = names_of(rule, value) if rule.features or rule.buckets else None
        if names is None:
            continue
        seen |= names
        carried = ad.eval(CARRIED)
        if not stands or not isinstance(carried, list):
            continue
        for name in dict.fromkeys((*rule.features.values(), *rule.buckets)):
            if (name in names) != (name in carried):
                what = f"a value that feature {name} stands for, but not the feature in {CARRIED}"
                other = f"feature {name} in {CARRIED}, but no value that it stands for"
                wrong.setdefault(what if name in names else other, []).append(node)
    for what, who in wrong.items():
        several = f" and {len(who) - LIMITS.listed} more" if len(who) > LIMITS.listed else ""
        verb = "has" if len(who) == 1 else "have"
        such = example if what == UNFORESEEN else ""
        yield f"{', '.join(who[: LIMITS.listed])}{several} {verb} {what}{such}"
    for name in dict.fromkeys((*rule.features.values(), *rule.buckets)):
        if name not in seen:
            yield f"no node has a value for feature {name}"

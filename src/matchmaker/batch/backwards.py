"""A mapping run backwards: from the features of nodes to the attributes that they stand for.

What a site publishes of its nodes is then what its flags select.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from matchmaker._diagnostics import Diagnostic
from matchmaker._limits import BATCH_LIMITS as LIMITS
from matchmaker.batch.flags.inventory import node_name
from matchmaker.batch.flags.terms import is_feature
from matchmaker.batch.mapping import Mapping
from matchmaker.batch.rules import Rule
from matchmaker.batch.templates import filled
from matchmaker.classad import ClassAd
from matchmaker.classad.evaluate import charged
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.values import UNDEFINED, Value

CARRIED = "Features"
"""The attribute of a node that lists its features."""


@charged
def with_attributes(
    nodes: Iterable[ClassAd], mapping: Mapping
) -> tuple[list[ClassAd], list[Diagnostic]]:
    """Copies of ads of nodes with the attributes that their features stand for, and findings.

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
    """The spellings of each name of a rule in a list of features: plain, or as its term has it.

    >>> features_of(Rule("Os", "eq", features={"9": "el9"}, term="os={value}"))
    {'el9': ('el9', 'os=el9')}
    """
    return {name: tuple(dict.fromkeys((name, *filled(rule.term, name)))) for name in rule.named}


def _found(rule: Rule, carried: set[str]) -> set[str]:
    """The names of a rule that are among the features of a node."""
    return {
        name for name, spellings in features_of(rule).items() if not carried.isdisjoint(spellings)
    }


def _values(rule: Rule, carried: set[str]) -> Iterator[Value]:
    """The values of the attribute that a node with such features may have."""
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

"""Mappings run backwards, and checked against nodes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchmaker import ClassAd, batch, parse_ad, reduce
from matchmaker.batch import Fit, Mapping, load_mapping
from matchmaker.batch.check import check, with_attributes
from matchmaker.classad.nodes import Attr, Binary, Call, Literal
from matchmaker.classad.values import UNDEFINED

SITE = """
[attributes.Release]
kind = "eq"
features = { "8.10" = "el8", "8.9" = "el8", "9.5" = "el9" }
[attributes.Tags]
kind = "member"
features = { "A" = "ta", "B" = "tb" }
[attributes.Outbound]
kind = "bool"
features = { true = "outbound" }
[attributes.Ib]
kind = "bool"
features = { true = "ib", false = "noib" }
[attributes.Speed]
kind = "bucket"
buckets = { slow = [1, 5], fast = [6, 9] }
"""


def site(folder: Path, text: str = SITE, lrms: str = "slurm") -> Mapping:
    path = folder / "site.toml"
    path.write_text(text)
    return load_mapping(lrms, path)


def node(features: str, more: str = "") -> ClassAd:
    return parse_ad(f'[ Name = "n1"; Features = {{ {features} }}; {more} ]')


def test_features_become_the_attributes_that_they_stand_for(tmp_path: Path) -> None:
    (made,), findings = with_attributes(
        [node('"el9", "tb", "ta", "outbound", "noib", "fast", "other"')], site(tmp_path)
    )
    assert findings == []
    assert made.eval("Release") == "9.5"
    assert made.eval("Tags") == ["A", "B"]
    assert (made.eval("Outbound"), made.eval("Ib"), made.eval("Speed")) == (True, False, 6)


def test_without_features_what_is_unknown_stays_undefined(tmp_path: Path) -> None:
    (made,), findings = with_attributes([node("")], site(tmp_path))
    assert findings == []
    assert made.eval("Tags") == []
    # The one feature means yes, so without it no; where no has its own feature, nothing is known.
    assert made.eval("Outbound") is False
    assert [made.eval(name) for name in ("Release", "Ib", "Speed")] == [UNDEFINED] * 3
    (bare,), _ = with_attributes([parse_ad('[ Name = "n2" ]')], site(tmp_path))
    assert list(bare) == ["Name"]


def test_the_first_text_of_a_feature_is_taken_and_an_own_value_kept(tmp_path: Path) -> None:
    (made, own), _ = with_attributes(
        [node('"el8"'), node('"el8"', 'Release = "8.9"')], site(tmp_path)
    )
    assert (made.eval("Release"), own.eval("Release")) == ("8.10", "8.9")


def test_features_of_two_values_give_none_and_a_finding(tmp_path: Path) -> None:
    (made,), findings = with_attributes([node('"el8", "el9", "slow", "fast"')], site(tmp_path))
    assert (made.eval("Release"), made.eval("Speed")) == (UNDEFINED, UNDEFINED)
    assert [(each.attribute, each.message) for each in findings] == [
        ("Release", "n1 has features el8 and el9, which stand for different values; none is taken"),
        ("Speed", "n1 has features fast and slow, which stand for different values; none is taken"),
    ]


def test_a_feature_may_be_spelled_as_its_term(tmp_path: Path) -> None:
    text = """
    [attributes.Os]
    kind = "eq"
    term = "os={value}"
    join = "|"
    features = { "9.5" = "el9" }
    """
    (made,), _ = with_attributes([node('"os=el9"')], site(tmp_path, text, "sge"))
    assert made.eval("Os") == "9.5"


FEATURES = ["el8", "el9", "ta", "tb", "outbound", "ib", "noib", "slow", "fast"]


@given(
    listed=st.lists(st.lists(st.sampled_from(FEATURES), unique=True), min_size=1, max_size=5),
    condition=st.one_of(
        st.builds(Binary, st.sampled_from(["==", "!="]),
                  st.just(Attr(Attr(None, "other", False), "Release", False)),
                  st.sampled_from(["8.10", "9.5"]).map(Literal)),
        st.sampled_from("AB").map(lambda tag: Call(
            "member", (Literal(tag), Attr(Attr(None, "other", False), "Tags", False)))),
        st.builds(Binary, st.sampled_from([">=", "<="]),
                  st.just(Attr(Attr(None, "other", False), "Speed", False)),
                  st.integers(0, 10).map(Literal)),
    ),
)  # fmt: skip
def test_what_is_published_is_what_flags_select(
    tmp_path_factory: pytest.TempPathFactory, listed: list[list[str]], condition: Binary | Call
) -> None:
    table = site(tmp_path_factory.getbasetemp())
    ads = [
        parse_ad(f'[ Name = "n{at}"; Features = {{ {", ".join(map(repr_of, features))} }} ]')
        for at, features in enumerate(listed)
    ]
    nodes, findings = with_attributes(ads, table)
    if findings:
        return
    reduction = reduce(ClassAd({"Requirements": condition}), ClassAd(), lambda name: "host")
    made = batch.flags(reduction, "slurm", table)
    if made.verdict is Fit.EXACT:
        constraint = "".join(made.argv).removeprefix("--constraint=")
        for ad, features in zip(nodes, listed, strict=True):
            if ad.eval("Release") is UNDEFINED and "el" in constraint:
                continue
            wanted = condition.eval(target=ad) is True
            chosen = not constraint or any(name in features for name in constraint.split("|"))
            assert chosen == wanted, (constraint, ad)


def repr_of(text: str) -> str:
    return str(Literal(text))


# --- checks ---------------------------------------------------------------------------------------


def messages(table: Mapping, *nodes: ClassAd) -> list[str]:
    return [str(each.message) for each in check(table, nodes)]


SIZES = "GlueHostMainMemoryRAMSize = 1000; GlueHostArchitectureSMPSize = 2"


def test_a_good_mapping_has_no_finding(tmp_path: Path) -> None:
    nodes = [
        node('"el8", "ta", "outbound", "ib", "slow"', SIZES),
        node('"el9", "ta", "tb", "noib", "fast"', SIZES),
    ]
    assert messages(site(tmp_path), *nodes) == []


def test_a_feature_that_no_node_has_is_found_with_a_proposal(tmp_path: Path) -> None:
    text = SITE.replace('"9.5" = "el9"', '"9.5" = "el99"')
    nodes = [
        node('"el8", "ta", "outbound", "ib", "slow"', SIZES),
        node('"el9", "ta", "tb", "noib", "fast"', f'{SIZES}; Release = "8.10"'),
    ]
    assert "no node has the feature el99; did you mean el9?" in messages(
        site(tmp_path, text), *nodes
    )


def test_undefined_is_not_false(tmp_path: Path) -> None:
    text = '[attributes.Outbound]\nkind = "bool"\nfeatures = { true = "outbound" }'
    table = site(tmp_path, text)
    unknown = parse_ad(f'[ Name = "n1"; {SIZES} ]')
    no = parse_ad(f'[ Name = "n2"; Outbound = false; {SIZES} ]')
    yes = parse_ad(f'[ Name = "n3"; Outbound = true; {SIZES} ]')
    assert messages(table, unknown, no, yes) == [
        "n1 has an undefined value, which is not false: no such attribute"
    ]
    assert messages(table, no, yes) == []


def test_names_that_differ_in_case_are_a_finding(tmp_path: Path) -> None:
    text = '[attributes.release]\nkind = "eq"\nfeatures = { "9.5" = "el9" }'
    found = messages(site(tmp_path, text), node('"el9"', f'Release = "9.5"; {SIZES}'))
    assert found == ["it differs from Release in case alone"]

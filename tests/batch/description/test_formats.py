"""Each reader says what it was tested with; unknown fields are kept, and never guessed."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchmaker._diagnostics import NOTE
from matchmaker.batch.description import describable, formats, read_description
from matchmaker.classad import ClassAd
from matchmaker.classad.formats.json import marked
from tests.batch.description.shapes import SHAPES

ALL = [
    pytest.param(lrms, output, text, id=f"{lrms}, {output}, {version}")
    for lrms, found in SHAPES.items()
    for output, texts in found.items()
    for version, text in texts.items()
]


@pytest.mark.parametrize("lrms", describable())
def test_what_is_declared_is_tested(lrms: str) -> None:
    declared = {known.output: known.versions for known in formats(lrms)}
    assert declared == {output: tuple(texts) for output, texts in SHAPES[lrms].items()}
    for known in formats(lrms):
        assert set(known.running) <= set(known.versions)


@pytest.mark.parametrize(("lrms", "output", "text"), ALL)
def test_every_declared_shape_is_read_whole(lrms: str, output: str, text: str) -> None:
    found = read_description(lrms, [(output, text)])
    assert [issue for issue in found.issues if issue.severity != NOTE] == []
    silent = ("jobs", "squeue", "qconf -sc", "bmgroup", "router")
    assert bool(found.nodes or found.queues) is not any(word in output for word in silent)


def with_field(text: str, name: str, value: Any) -> str:
    """An output whose records have a field that no reader knows."""
    start = text.lstrip()[:1]
    if start in "{[":
        # A decoder drops the escapes by which an expression is known.
        return marked(json.dumps(extended(json.loads(text), name, value)))
    if start == "<":
        text = re.sub(
            r"(<hostvalue name='num_proc')",
            rf"<hostvalue name='{name}'>{value}</hostvalue>\1",
            text,
        )
        return re.sub(r"<(slots_total|np|used)>", rf"<{name}>{value}</{name}><\1>", text)
    if "MyType" in text:
        value = json.dumps(value)
    if " = " in text:
        return re.sub(r"^( *)(state|queue_type|MyType|State) = ", rf"\1{name} = {value}\n\1\2 = ",
                      text, flags=re.MULTILINE)  # fmt: skip
    if text.startswith("qname"):
        return re.sub(r"^(slots .*)", rf"\1\n{name} {value}", text, flags=re.MULTILINE)
    return re.sub(r"(?<= )(State|AllocNodes)=", rf"{name}={value} \1=", text)


def extended(data: Any, name: str, value: Any) -> Any:
    if isinstance(data, list):
        return [extended(one, name, value) for one in data]
    if not isinstance(data, dict):
        return data
    # A resource of a site that is true is a feature.
    made = {
        each: inner if each == "resources_available" else extended(inner, name, value)
        for each, inner in data.items()
    }
    named = made and all(isinstance(one, dict) for one in made.values())
    return made if named or "number" in made else {**made, name: value}


KEPT = [
    case
    for case in ALL
    if not re.search(r"qconf -sc|bmgroup|router|jobs|squeue", str(case.id))
]  # fmt: skip


# Names like those of lists of users may have been one, and shut a queue.
NAMES = st.from_regex(r"zz[a-z0-9_]{1,20}", fullmatch=True).filter(
    lambda name: not re.search("user|acl|group|enable", name)
)
# A dash stands for no value.
WORDS = st.from_regex(r"[A-Za-z0-9._:/+~%@,()][A-Za-z0-9._:/+~%@,()-]{0,30}", fullmatch=True)
PLAIN = st.one_of(
    WORDS,
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
)
IN_JSON = st.one_of(PLAIN, st.lists(PLAIN, min_size=1), st.dictionaries(NAMES, PLAIN, min_size=1))


@pytest.mark.parametrize(("lrms", "output", "text"), KEPT)
def test_a_new_field_is_kept_and_changes_nothing(lrms: str, output: str, text: str) -> None:
    check_kept(lrms, output, text, "brand_new_field", 7)


@given(case=st.sampled_from(KEPT), name=NAMES, data=st.data())
def test_any_field_is_kept_and_changes_nothing(case: Any, name: str, data: st.DataObject) -> None:
    lrms, output, text = case.values
    value = data.draw(IN_JSON if text.lstrip()[:1] in "{[" else WORDS)
    check_kept(lrms, output, text, name, value)


def check_kept(lrms: str, output: str, text: str, name: str, value: Any) -> None:
    before = read_description(lrms, [(output, text)])
    after = read_description(lrms, [(output, with_field(text, name, value))])
    assert after.issues == before.issues
    pairs = [
        *zip(before.nodes, after.nodes, strict=True),
        *zip(before.queues, after.queues, strict=True),
    ]
    assert pairs
    kept = 0
    for old, new in pairs:
        for known in old:
            if known != "Native":
                assert old[known] == new[known], known
        native = new.eval("Native")
        whole = native if isinstance(native, ClassAd) else new
        kept += any(name in each for each in whole)
        assert set(new) - set(old) <= {name}
    assert kept

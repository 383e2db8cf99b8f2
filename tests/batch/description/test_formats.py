"""Each reader says what it was tested with; unknown fields are kept, and never guessed."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from matchmaker.batch.description import describable, formats, read_description
from matchmaker.classad import ClassAd
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
    assert found.issues == ()
    silent = ("jobs", "squeue", "qconf -sc", "bmgroup", "router")
    assert bool(found.nodes or found.queues) is not any(word in output for word in silent)


NEW = "brand_new_field"


def with_new_field(text: str) -> str:
    """An output whose records have a field that no reader knows."""
    start = text.lstrip()[:1]
    if start in "{[":
        return json.dumps(extended(json.loads(text)))
    if start == "<":
        text = re.sub(
            r"(<hostvalue name='num_proc')", rf"<hostvalue name='{NEW}'>7</hostvalue>\1", text
        )
        return re.sub(r"<(slots_total|np|used)>", rf"<{NEW}>7</{NEW}><\1>", text)
    if " = " in text:
        return re.sub(r"^( *)(state|queue_type|MyType|State) = ", rf"\1{NEW} = 7\n\1\2 = ", text,
                      flags=re.MULTILINE)  # fmt: skip
    if text.startswith("qname"):
        return re.sub(r"^(slots .*)", rf"\1\n{NEW} 7", text, flags=re.MULTILINE)
    return re.sub(r"(?<= )(State|AllocNodes)=", rf"{NEW}=7 \1=", text)


def extended(data: Any) -> Any:
    if isinstance(data, list):
        return [extended(one) for one in data]
    if not isinstance(data, dict):
        return data
    made = {name: extended(value) for name, value in data.items()}
    named = made and all(isinstance(one, dict) for one in made.values())
    return made if named or "number" in made else {**made, NEW: 7}


KEPT = [
    case
    for case in ALL
    if not re.search(r"qconf -sc|bmgroup|router|jobs|squeue", str(case.id))
]  # fmt: skip


@pytest.mark.parametrize(("lrms", "output", "text"), KEPT)
def test_an_unknown_field_is_kept_and_changes_nothing(lrms: str, output: str, text: str) -> None:
    before = read_description(lrms, [(output, text)])
    after = read_description(lrms, [(output, with_new_field(text))])
    assert after.issues == before.issues
    pairs = [
        *zip(before.nodes, after.nodes, strict=True),
        *zip(before.queues, after.queues, strict=True),
    ]
    assert pairs
    kept = 0
    for old, new in pairs:
        for name in old:
            if name != "Native":
                assert old[name] == new[name], name
        native = new.eval("Native")
        whole = native if isinstance(native, ClassAd) else new
        kept += any(NEW in name for name in whole)
        assert set(new) - set(old) <= {NEW}
    assert kept

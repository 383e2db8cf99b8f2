"""Every function says what it takes, what undefined and error give, and shows an example."""

from __future__ import annotations

import doctest
import re

import pytest

from matchmaker.classad.functions import FUNCTIONS, Function
from matchmaker.classad.functions.control import GLITE

ALL = list(FUNCTIONS.values())


def text_of(function: Function) -> str:
    return function.call.__doc__ or ""


@pytest.mark.parametrize("function", ALL, ids=lambda function: function.name)
def test_begins_with_its_signature(function: Function) -> None:
    first = text_of(function).partition("\n")[0]
    assert re.search(rf"(^|, ){function.name}\(", first)
    assert ": " in first
    shown = re.search(rf"{function.name}\((.*?)\)(?:,|:)", first)
    assert shown is not None
    if function.most is not None:
        # Each argument is named, those that may be left out in brackets.
        required = re.findall(r"\w+", shown[1].partition("[")[0])
        assert (len(required), len(re.findall(r"\w+", shown[1]))) == (function.least, function.most)


@pytest.mark.parametrize("function", ALL, ids=lambda function: function.name)
def test_says_what_undefined_and_error_give(function: Function) -> None:
    text = " ".join(text_of(function).partition(">>>")[0].lower().split())
    if function.most != 0:
        assert "undefined" in text
        assert "error" in text
    assert ("glite wms" if function.name.lower() in GLITE else "htcondor manual") in text


@pytest.mark.parametrize("function", ALL, ids=lambda function: function.name)
def test_example_is_right(function: Function) -> None:
    # Run here too, because those of functions that are made by others stand in no source.
    globals_ = dict(function.call.__globals__)
    test = doctest.DocTestParser().get_doctest(text_of(function), globals_, function.name, None, 0)
    assert test.examples
    results = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=lambda text: None)
    assert results.failed == 0

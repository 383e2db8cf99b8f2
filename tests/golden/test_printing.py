"""The cases of ``printing.txt``: each says how an expression prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from matchmaker import parse_expr


def cases() -> list[tuple[str, str]]:
    """The text and the printed form of each line."""
    lines = Path(__file__).with_name("printing.txt").read_text("utf-8").splitlines()
    pairs = [line.rsplit(" => ", 1) for line in lines if line.strip() and line[0] != "#"]
    return [(text, printed) for text, printed in pairs]


CASES = cases()


def test_there_are_many_cases_and_none_twice() -> None:
    assert len(CASES) >= 80
    assert len({text for text, _ in CASES}) == len(CASES)


@pytest.mark.parametrize(("text", "printed"), CASES, ids=[text for text, _ in CASES])
def test_printed_form(text: str, printed: str) -> None:
    expression = parse_expr(text)
    assert str(expression) == printed
    assert parse_expr(printed) is expression

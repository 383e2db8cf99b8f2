"""What the fast parser refuses leaves nothing behind."""

import gc

import pytest

from matchmaker import ParseError, parse_ad


@pytest.mark.slow
def test_refused_texts_leave_no_tracebacks() -> None:
    def objects() -> int:
        gc.collect()
        return len(gc.get_objects())

    before = 0
    for number in range(300):
        if number == 100:
            before = objects()
        with pytest.raises(ParseError):
            parse_ad(f"[ a = {{{{ b{number} ")
    assert objects() - before < 2000

"""Single moves of the binder's jobs; their laws are in tests/property/test_binder.py."""

from __future__ import annotations

from matchmaker.pilots.binder import moves
from matchmaker.pilots.binder.states import Book, Job, Session, Stage, apply
from matchmaker.pilots.wire.frames import FrameKind


def test_a_job_that_ends_its_pilots_is_lost_at_last() -> None:
    book, now, lives = Book(), 0.0, 0
    apply(book, moves.submit(book, Job(id="j", owner="ana", key="k", ad="[]"))[1])
    while book.jobs["j"].stage.open:
        lives += 1
        session = Session(name=f"s{lives}", subject="site", ad="[]", heard=now)
        apply(book, moves.begin(session))
        apply(book, moves.give(book, "j", session.name))
        now += 11.0
        apply(book, moves.expire(book, now, 10.0))
    assert lives == moves.MOST_GIVINGS
    assert book.jobs["j"].stage is Stage.LOST
    assert "it may be what ends its pilots" in book.jobs["j"].reason


def test_a_cancelled_job_whose_pilot_accepts_it_late_is_ended() -> None:
    book = Book()
    apply(book, moves.submit(book, Job(id="j", owner="ana", key="k", ad="[]"))[1])
    apply(book, moves.begin(Session(name="s", subject="site", ad="[]", heard=0.0)))
    apply(book, moves.give(book, "j", "s"))
    apply(book, moves.cancel(book, "j", "asked for"))
    late = moves.accepted(book, "s", "j", 1)
    assert [word.kind for word in late.words] == [FrameKind.KILL]
    apply(book, late)
    apply(book, moves.declined(book, "s", "j", 1, "ended"))
    assert book.jobs["j"].stage is Stage.CANCELLED


def test_a_stranger_to_a_job_changes_nothing() -> None:
    book = Book()
    apply(book, moves.submit(book, Job(id="j", owner="ana", key="k", ad="[]"))[1])
    for name in ("s", "liar"):
        apply(book, moves.begin(Session(name=name, subject="site", ad="[]", heard=0.0)))
    apply(book, moves.give(book, "j", "s"))
    for name, epoch in (("liar", 1), ("s", 0), ("s", 2)):
        assert not moves.ended(book, name, "j", epoch, "[]").jobs
        assert not moves.declined(book, name, "j", epoch, "full").jobs
        assert not moves.accepted(book, name, "j", epoch).jobs

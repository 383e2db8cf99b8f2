"""Single moves of the binder's jobs; their laws are in tests/property/test_binder.py."""

from __future__ import annotations

from matchmaker.pilots.binder import state
from matchmaker.pilots.binder.state import BinderJob, Book, JobStage, PilotSession, apply_change
from matchmaker.pilots.wire.protocol import FrameKind


def test_a_job_that_ends_its_pilots_is_lost_at_last() -> None:
    book, now, lives = Book(), 0.0, 0
    apply_change(book, state.submit(book, BinderJob(id="j", owner="ana", key="k", ad="[]"))[1])
    while book.jobs["j"].stage.open:
        lives += 1
        session = PilotSession(name=f"s{lives}", subject="site", ad="[]", heard=now)
        apply_change(book, state.begin(session))
        apply_change(book, state.give(book, "j", session.name))
        now += 11.0
        apply_change(book, state.expire(book, now, 10.0))
    assert lives == state.MOST_GIVINGS
    assert book.jobs["j"].stage is JobStage.LOST
    assert "it may be what ends its pilots" in book.jobs["j"].reason


def test_a_cancelled_job_whose_pilot_accepts_it_late_is_ended() -> None:
    book = Book()
    apply_change(book, state.submit(book, BinderJob(id="j", owner="ana", key="k", ad="[]"))[1])
    apply_change(book, state.begin(PilotSession(name="s", subject="site", ad="[]", heard=0.0)))
    apply_change(book, state.give(book, "j", "s"))
    apply_change(book, state.cancel(book, "j", "asked for"))
    late = state.accepted(book, "s", "j", 1)
    assert [word.kind for word in late.messages] == [FrameKind.KILL]
    apply_change(book, late)
    apply_change(book, state.declined(book, "s", "j", 1, "ended"))
    assert book.jobs["j"].stage is JobStage.CANCELLED


def test_a_stranger_to_a_job_changes_nothing() -> None:
    book = Book()
    apply_change(book, state.submit(book, BinderJob(id="j", owner="ana", key="k", ad="[]"))[1])
    for name in ("s", "liar"):
        apply_change(book, state.begin(PilotSession(name=name, subject="site", ad="[]", heard=0.0)))
    apply_change(book, state.give(book, "j", "s"))
    for name, epoch in (("liar", 1), ("s", 0), ("s", 2)):
        assert not state.ended(book, name, "j", epoch, "[]").jobs
        assert not state.declined(book, name, "j", epoch, "full").jobs
        assert not state.accepted(book, name, "j", epoch).jobs

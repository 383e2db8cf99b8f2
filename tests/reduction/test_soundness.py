"""Verdicts that were wrong once, each with the host that shows it, and what must not be merged."""

from __future__ import annotations

import pytest

from matchmaker import (
    ClassAd,
    Expr,
    ReductionError,
    Verdict,
    parse_ad,
    parse_expr,
    reduce,
    reduce_many,
)
from matchmaker.classad.operators import truth
from matchmaker.classad.walks import conjuncts
from matchmaker.reduction import bounds


def scope(name: str) -> str:
    return "host" if name[:1] in "hH" else "policy"


def of_host(queue: ClassAd, host: ClassAd) -> ClassAd:
    both = ClassAd((name, held) for name, held in queue.items() if scope(name) != "host")
    both.update(host)
    return both


def check(job: str, queue: str, *hosts: str) -> None:
    """The residual is true of each host exactly when the requirement is, or there is none."""
    wanted, site = parse_ad(job), parse_ad(queue)
    try:
        made = reduce(wanted, site, scope)
    except ReductionError:
        return
    for host in map(parse_ad, hosts):
        matches = truth(wanted.eval("Requirements", target=of_host(site, host))) is True
        assert (truth(made.residual.eval(wanted, host)) is True) == matches, made.explain()
        assert made.verdict is not (Verdict.NEVER if matches else Verdict.ALWAYS)


WORDS = ("my", "self", "target", "other", "parent", "root", "toplevel", "MY", "Target")


@pytest.mark.parametrize("word", WORDS)
def test_a_jobs_attribute_named_like_a_scope_may_lead_to_the_host(word: str) -> None:
    other = "other" if word.lower() == "target" else "TARGET"
    check(f"[ {word} = {other}.Ha; Requirements = isError({word}.S) ]", "[]", "[ Ha = 1 ]")
    check(f"[ {word} = {other}.Ha; Requirements = {word}.S is 2 ]", "[]", "[ Ha = [ S = 2 ] ]")


@pytest.mark.parametrize("word", WORDS)
def test_a_queues_attribute_named_like_a_scope_may_lead_to_the_host(word: str) -> None:
    job = "[ Requirements = isUndefined(other.F) ]"
    check(job, f"[ {word} = Ha; F = {word}.y ]", "[ Ha = 1 ]", "[]")
    job = f"[ Requirements = isUndefined(other.{word}.y) ]"
    check(job, f"[ {word} = Ha ]", "[ Ha = 1 ]", "[]")
    job = f"[ Requirements = isUndefined(other.F.{word}.y) ]"
    check(job, f"[ {word} = Ha; F = [ x = 1 ] ]", "[ Ha = 1 ]", "[]")


def test_hosts_with_attributes_named_like_scopes_are_refused() -> None:
    job, queue = parse_ad("[ Requirements = isUndefined(other.F) ]"), parse_ad("[ F = my.y ]")
    with pytest.raises(ReductionError, match="named like a scope: my"):
        reduce(job, queue, lambda name: "host" if name.lower() == "my" else "policy")
    with pytest.raises(ReductionError, match="named like a scope"):
        reduce(job, ClassAd(Target=1), lambda name: "host")
    assert reduce(job, queue, lambda name: "policy" if name in "Fy" else "host").verdict == "always"


def test_a_verdict_is_reached_where_a_scopes_word_leads_to_the_host() -> None:
    job = parse_ad("[ my = TARGET.Ha; Requirements = isError(my.S) ]")
    assert str(reduce(job, ClassAd(), scope).residual) == "isError(other.Ha.S)"


@pytest.mark.parametrize("word", [word.lower() for word in WORDS[:7]])
def test_the_other_ad_behind_a_nested_one_is_not_taken_for_the_queue_alone(word: str) -> None:
    for text in (
        f'MY.N.{word}["Ha"] == 1',
        f'MY.N.{word}["Ha"] == 1 || MY.N.{word}.Ha == 1',
        f"isUndefined(MY.N.{word}.Ha)",
        f"size(MY.N.{word}) > 4",
    ):
        job = f"[ N = [ x = 1 ]; Requirements = {text} ]"
        check(job, "[ Ha = 1; Q = 2 ]", "[ Ha = 2 ]", "[ Ha = 1 ]", "[]", "[ Ha = 2; Hb = 3 ]")


@pytest.mark.parametrize(
    "text",
    ["other.Ha.Q == 5", "other.Ha.parent.Q == 5", "other.Ha.root.Q == 5", "other.F == 5",
     "other.Ha[0].Q == 5", "other.Ha.Hb is 3", "other.Ha.other.Want == 4", "other.Ha.x == 1",
     "ifThenElse(true, other.Ha, 1).Q == 5", "other.Ha.toplevel.Q == 5",
     "other.Ha.CurrentTime == 5"],
)  # fmt: skip
def test_a_name_that_an_ad_of_the_host_lacks_is_looked_up_around_it(text: str) -> None:
    hosts = ("[ Ha = [ x = 1 ] ]", "[ Ha = [ Q = 1 ]; Hb = 3 ]", "[ Ha = {[ x = 1 ]} ]", "[]")
    for queue in ("[ Q = 5; F = Ha.Q ]", "[]", "[ CurrentTime = 5 ]"):
        check(f"[ Want = 4; Requirements = {text} ]", queue, *hosts)


def test_an_attribute_of_a_hosts_ad_that_the_queue_lacks_stays_with_the_host() -> None:
    job = parse_ad("[ Requirements = other.Ha.Q == 5 ]")
    assert str(reduce(job, ClassAd(), scope).residual) == "other.Ha.Q == 5"
    with pytest.raises(ReductionError, match="Q"):
        reduce(job, ClassAd(Q=5), scope)


def test_a_host_may_have_a_time_that_is_not_the_clocks() -> None:
    job = parse_ad("[ Requirements = other.CurrentTime == 5 ]")
    made = reduce(job, ClassAd(), lambda name: "host")
    assert made.residual.eval(job, ClassAd(CurrentTime=5)) is True
    assert made.residual.eval(job, ClassAd(CurrentTime=6)) is False


# --- queues that only `is` tells apart ------------------------------------------------------------

TWINS = (
    ("1", "1.0"), ("1", "true"), ("0.0", "-0.0"), ("0", "0.0"), ('"a"', '"A"'),
    ('absTime("2020-01-01T00:00:00Z")', 'absTime("2020-01-01T01:00:00+01:00")'),
    ("{ 1 }", "{ 1.0 }"), ("{ 0.0 }", "{ -0.0 }"), ("{ { 1 } }", "{ { true } }"),
    ('{ absTime("2020-01-01T00:00:00Z") }', '{ absTime("2020-01-01T01:00:00+01:00") }'),
    ("[ x = 1 ]", "[ x = 1.0 ]"), ("[ x = 0.0 ]", "[ x = -0.0 ]"),
    ('relTime("1")', "1"), ('real("NaN")', "undefined"), ("undefined", "error"),
    ('relTime("0")', "false"), ('real("INF")', 'real("-INF")'), ("1 + 0", "1.0 + 0"),
)  # fmt: skip
PROBES = (
    "other.X is {0}", "other.X[0] is ({0})[0]", "other.X.x is ({0}).x", "isInteger(other.X)",
    "string(other.X) is string({0})", "unparse(X) == {0}", "other.X[0][0] is ({0})[0][0]",
    "1.0 / other.X < 0", "1.0 / other.X[0] < 0", "1.0 / other.X.x < 0", "size(other.X) == 1",
)  # fmt: skip


@pytest.mark.parametrize("twins", TWINS, ids=" ".join)
@pytest.mark.parametrize("probe", PROBES)
def test_queues_that_identity_tells_apart_are_reduced_apart(
    twins: tuple[str, str], probe: str
) -> None:
    queues = [parse_ad(f"[ X = {value} ]") for value in (*twins, *twins)]
    for value in twins:
        job = parse_ad(f"[ Requirements = {probe.format(value)} ]")
        each = [reduce(job, queue, scope) for queue in queues]
        together = reduce_many(job, queues, scope)
        assert [made.verdict for made in together] == [made.verdict for made in each]
        assert [made.residual for made in together] == [made.residual for made in each]


# --- volatile calls, and those that look at this machine ------------------------------------------


def residual(text: str, queue: str = "[]") -> Expr:
    job = ClassAd(Requirements=parse_expr(text))
    return reduce(job, parse_ad(queue), scope).residual


@pytest.mark.parametrize(
    "text",
    [
        "random(2) ? other.HA : other.HA",
        "random(2) > 0 && random(2) > 0 && other.HA",
        "(random(2) || random(2)) && other.HA",
        "random() > 0.5 && other.HA && random() > 0.5",
        "!(random(2) && random(2)) && other.HA",
        "(random(2) is 1 ? other.HA : other.HA) || other.HB",
        "debug(other.HA) && debug(other.HA)",
        "other.R && other.R && other.HA",
    ],
)
def test_a_volatile_call_stands_as_often_as_it_was_written(text: str) -> None:
    left = str(residual(text, "[ R = random(2) > 0 ]"))
    wanted = text.replace("other.R", "random(2)")
    for call in ("random(", "debug("):
        assert left.count(call) == wanted.count(call), left


def test_volatile_clauses_stay_whole_in_the_bounds() -> None:
    clauses = "(random(2) > 0 || other.HA > 1) && other.HB > 2 && random(2) > 0 && random(2) > 0"
    (box,) = bounds(parse_expr(clauses)).boxes
    assert list(box.domains) == ["hb"]
    (kept,) = box.others
    assert list(map(str, conjuncts(kept))) == [
        "random(2) > 0 || other.HA > 1", "random(2) > 0", "random(2) > 0",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "call",
    ['userHome("root", "/none")', 'userMap("m", "a", "b", "c")', "timeZoneOffset()", "time()",
     "dayTime()", "currentTime()", "random(5)", "absTime(5)", 'formatTime(0, "%H")',
     "splitTime(0).Hours", 'getHours(absTime("2000-01-01T00:00:00+00:00"))', "absTime()"],
)  # fmt: skip
def test_what_this_machine_or_the_moment_says_is_not_put_in(call: str) -> None:
    found = str(residual(f"other.Home is {call}"))
    assert call.lower() in found.lower()
    assert (
        str(residual("other.Home is other.There", f"[ There = {call} ]")).lower() == found.lower()
    )


def test_a_time_with_its_zone_is_a_constant() -> None:
    text = 'other.Hdate > absTime("2000-01-01T00:00:00+02:00") + relTime("1d")'
    assert str(residual(text)) == 'other.Hdate > absTime("2000-01-02T00:00:00+02:00")'

from __future__ import annotations

import pytest

from matchmaker import Expr, ReductionError, parse_ad, parse_expr, reduce
from matchmaker.classad.values import UNDEFINED
from matchmaker.reduction.bind import Binder, Binding


def scope(name: str) -> str:
    return "host" if name.lower().startswith("host") else "policy"


def bind(text: str, queue: str = "[]", job: str = "[]") -> Expr:
    return Binder.of(parse_ad(job), parse_ad(queue), scope).bind(parse_expr(text))


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("other.HostA", "other.HostA"),
        ("TARGET.HostA", "other.HostA"),
        ("target.hosta", "other.hosta"),
        ("HostA", "other.HostA"),
        ("other.Limit", "7"),
        ("Limit", "7"),
        ("other.Missing", "undefined"),
        ("MY.Want", "3"),
        ("self.Want", "3"),
        ("Want", "3"),
        ("MY.Limit", "undefined"),
        ("other.Want", "undefined"),
        ("MY.HostA", "undefined"),
        ("other.HostA > Limit + Want", "other.HostA > 10"),
        ("other.HostA > other.Limit ? MY.Want : 0", "other.HostA > 7 ? 3 : 0"),
        ("member(other.HostA, other.Names)", 'member(other.HostA, {"a", "b"})'),
        ("other.Names[0]", '"a"'),
        ("other.Disk.Free", "9"),
        (".Want", "3"),
        (".Limit", "undefined"),
        (".HostA", "undefined"),
    ],
)
def test_names_become_facts_or_stay_with_the_host(text: str, bound: str) -> None:
    queue = '[ Limit = 7; HostA = 99; Names = { "a", "b" }; Disk = [ Free = 9 ] ]'
    assert str(bind(text, queue, "[ Want = 3 ]")) == bound


def test_what_the_queue_says_of_its_hosts_is_never_used() -> None:
    assert bind("other.HostA > 5", "[ HostA = 100 ]") is bind("other.HostA > 5", "[]")
    assert bind("HostA > 5", "[ HostA = 100 ]") is parse_expr("other.HostA > 5")


def test_a_queues_attribute_that_rests_on_its_hosts_is_followed() -> None:
    queue = "[ Score = 2 * HostA + Limit; Limit = 7 ]"
    assert str(bind("other.Score > 10", queue)) == "2 * other.HostA + 7 > 10"


def test_a_queue_that_asks_the_job_is_followed() -> None:
    queue = "[ Fits = other.Want < HostA ]"
    assert str(bind("other.Fits", queue, "[ Want = 3 ]")) == "3 < other.HostA"


# --- names of the job that shadow -----------------------------------------------------------------


def test_a_bare_name_is_the_jobs_own_first() -> None:
    assert str(bind("Limit", "[ Limit = 7 ]", "[ Limit = 1 ]")) == "1"
    assert str(bind("other.Limit", "[ Limit = 7 ]", "[ Limit = 1 ]")) == "7"


def test_a_job_that_has_a_hosts_name_shadows_the_bare_one_only() -> None:
    assert str(bind("HostA", "[]", "[ HostA = 9 ]")) == "9"
    assert str(bind("MY.HostA", "[]", "[ HostA = 9 ]")) == "9"
    assert str(bind("other.HostA > 5", "[]", "[ HostA = 9 ]")) == "other.HostA > 5"


def test_a_job_may_name_a_condition_on_the_host() -> None:
    job = "[ Fast = other.HostA > Least; Least = 5 ]"
    assert str(bind("Fast", "[]", job)) == "other.HostA > 5"
    assert str(bind("MY.Fast && Fast", "[]", job)) == "other.HostA > 5 && other.HostA > 5"


def test_an_attribute_called_other_shadows_the_other_ad() -> None:
    # The name looks like a host's and the ad around it cannot be bound: better no answer.
    with pytest.raises(ReductionError, match="is an ad"):
        bind("other.HostA", "[ HostA = 2 ]", "[ other = [ HostA = 1 ] ]")


def test_an_attribute_called_target_shadows_the_other_ad() -> None:
    job = "[ target = [ x = 1 ] ]"
    assert str(bind("TARGET.x", "[ x = 2 ]", job)) == "1"


# --- words for the two ads, one after another -----------------------------------------------------


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("other.target.Want", "3"),
        ("other.other.Want", "3"),
        ("target.other.Want", "3"),
        ("other.my.Limit", "7"),
        ("my.other.Limit", "7"),
        ("other.target.HostA", "undefined"),
        ("other.my.HostA", "other.HostA"),
        ("other.other.other.HostA", "other.HostA"),
        ("other.target.other.Limit", "7"),
    ],
)
def test_scope_words_lead_from_one_ad_to_the_other(text: str, bound: str) -> None:
    assert str(bind(text, "[ Limit = 7 ]", "[ Want = 3 ]")) == bound


@pytest.mark.parametrize("text", ["other.target.x", "other.my.x", "my.target.x", "other.other.x"])
def test_scope_words_mean_what_evaluation_means(text: str) -> None:
    job, queue = parse_ad("[ x = 1; q = 3 ]"), parse_ad("[ x = 2 ]")
    wanted = parse_expr(text).eval(job, queue)
    assert bind(text, str(queue), str(job)).eval() == wanted
    assert wanted in (1, 2)


# --- circles --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job", "queue"),
    [
        ("[ a = a ]", "[]"),
        ("[ a = b; b = a ]", "[]"),
        ("[ a = other.a ]", "[ a = other.a ]"),
        ("[ a = b; b = c; c = b ]", "[]"),
    ],
)
def test_a_circle_is_undefined(job: str, queue: str) -> None:
    assert str(bind("a", queue, job)) == "undefined"
    assert str(bind("isUndefined(a)", queue, job)) == "true"


def test_a_circle_through_the_host_keeps_the_part_outside_it() -> None:
    bound = bind("a", "[]", "[ a = other.HostA > 5 || a ]")
    for value, wanted in (("9", True), ("1", UNDEFINED), ("undefined", UNDEFINED)):
        assert bound.eval(target=parse_ad(f"[ HostA = {value} ]")) is wanted


def test_circular_requirements_are_never_true() -> None:
    job = parse_ad("[ Requirements = other.Requirements ]")
    reduction = reduce(job, parse_ad("[ Requirements = other.Requirements ]"), scope)
    assert reduction.verdict == "never"


def test_a_value_does_not_hang_on_the_order_of_mention() -> None:
    # Asked for a, the a inside b is the circle; asked for b, it is the b inside a.
    job = "[ a = b; b = isUndefined(a) ]"
    ad = parse_ad(job)
    for text in ("a", "b", "{ a, b, a }", "{ b, a }"):
        assert bind(text, "[]", job).eval() == ad.eval(parse_expr(text))


# --- what cannot be bound -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "eval(other.HostA)",
        'eval(strcat("other.", "HostA"))',
        "unparse(other.HostA)",
        "countMatches(HostA > 1, { [ HostA = 2 ] })",
        "[ a = other.HostA ].a > 1",
        "other == other",
        "isUndefined(other)",
        "member(other, {})",
        "my is my",
        "size(MY)",
        'other["HostA"] > 1',
        'my.target["HostA"] > 1',
        'other.HostB && target.my["HostA"] > 1',
        "{ my.other }[0].HostA > 1",
    ],
)
def test_what_looks_at_whole_ads_or_code_is_refused(text: str) -> None:
    with pytest.raises(ReductionError):
        bind(text, "[ Limit = 7 ]", "[ Want = 3 ]")


def test_the_refusal_names_the_part() -> None:
    with pytest.raises(ReductionError, match=r"eval\(other\.HostA\)"):
        bind("1 < 2 && eval(other.HostA)")


def test_a_refusal_is_a_value_error() -> None:
    assert issubclass(ReductionError, ValueError)


def test_work_is_bounded() -> None:
    # Each name doubles the one before it.
    names = "; ".join(f"a{i} = a{i - 1} + a{i - 1}" for i in range(1, 40))
    with pytest.raises(ReductionError, match="steps"):
        bind("a39 > 1", "[]", f"[ a0 = other.HostA; {names} ]")


def test_a_long_chain_is_bound() -> None:
    text = " || ".join(f"other.HostA == {i}" for i in range(2000))
    assert bind(text) is parse_expr(text)


# --- the record -----------------------------------------------------------------------------------


def test_bindings_tell_the_three_kinds_apart_each_name_once() -> None:
    binder = Binder.of(parse_ad("[]"), parse_ad("[ Limit = 7; HostA = 1 ]"), scope)
    binder.bind(
        parse_expr("other.HostA > other.Limit && other.hosta < other.Missing + other.LIMIT")
    )
    assert set(binder.bindings.values()) == {
        Binding("other.HostA", "host"),
        Binding("other.Limit", "constant", 7),
        Binding("other.Missing", "absent", UNDEFINED),
    }


@pytest.mark.parametrize(
    "value", ['"text"', "1.5", "true", "0", "{ 1, { 2 } }", "undefined", "error"]
)
def test_facts_keep_their_value_of_whatever_type(value: str) -> None:
    wanted = parse_ad(f"[ x = {value} ]").eval("x")
    found = bind("other.x", f"[ x = {value} ]").eval()
    assert type(found) is type(wanted)
    assert found == wanted


def test_an_attribute_of_a_nested_ad_is_a_fact_and_the_ad_is_not() -> None:
    queue = "[ Limit = 7; Disk = [ Free = Limit + 1 ] ]"
    assert str(bind("other.Disk.Free", queue)) == "8"
    with pytest.raises(ReductionError, match=r"other\.Disk is an ad"):
        bind("other.Disk", queue)


# --- what must not be answered wrongly ------------------------------------------------------------


@pytest.mark.parametrize(
    ("job", "queue", "host"),
    [
        ("[ other = 5; Requirements = target.HostA > 1 ]", "[]", "[ HostA = 5 ]"),
        ("[ other = [ HostA = 0 ]; Requirements = target.HostA > 1 ]", "[]", "[ HostA = 5 ]"),
        ("[ Requirements = isUndefined(Requirements) && other.HostA > 1 ]", "[]", "[ HostA = 5 ]"),
        ("[ A = MY.Requirements; Requirements = A is undefined && other.HostA > 1 ]", "[]",
         "[ HostA = 5 ]"),
        ("[ Requirements = other.Q is undefined && other.HostA > 1 ]", "[ Q = other.Requirements ]",
         "[ HostA = 5 ]"),
        ("[ Requirements = other.CurrentTime > 1 && other.HostA ]", "[ CurrentTime = 0 ]",
         "[ HostA = true ]"),
        ("[ Requirements = isUndefined(Requirements) ]", "[]", "[]"),
    ],
)  # fmt: skip
def test_the_residual_is_true_exactly_when_the_requirement_is(
    job: str, queue: str, host: str
) -> None:
    ad, target = parse_ad(job), parse_ad(queue)
    target.update(parse_ad(host))
    residual = reduce(ad, parse_ad(queue), scope).residual
    assert (residual.eval(ad, target=parse_ad(host)) is True) == (
        ad.eval("Requirements", target=target) is True
    )


@pytest.mark.parametrize(
    ("job", "queue"),
    [
        (
            "[ N = [ a = other.Q ]; Requirements = (other.HostA > 1 ? MY.N : MY.N).a == 5 ]",
            "[Q = 5]",
        ),
        (
            "[ Requirements = (other.HostA > 1 ? other.QN : 1).Fact == 5 ]",
            "[ QN = [z = 1]; Fact = 5 ]",
        ),
        ("[ HostA = 9; Requirements = other.Q > 1 ]", "[ Q = HostA ]"),
        ("[ other = 1; target = 2; Requirements = HostA > 1 ]", "[]"),
        ("[ CurrentTime = 1; Requirements = other.CurrentTime > 1 && other.HostA ]", "[]"),
    ],
)
def test_what_cannot_be_bound_soundly_is_refused(job: str, queue: str) -> None:
    with pytest.raises(ReductionError):
        reduce(parse_ad(job), parse_ad(queue), scope)

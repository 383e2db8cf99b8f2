"""The strategies for users: what they give reads back, is as promised, and shrinks."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import FailedHealthCheck, Unsatisfiable
from hypothesis.vendor.pretty import pretty

import matchmaker as mm
from matchmaker import ClassAd, Expr, testing
from matchmaker.classad.formats import FORMATS
from matchmaker.classad.walks import conjuncts, postorder
from matchmaker.testing.policies import opposite

pytestmark = pytest.mark.slow

# --- what reads back ------------------------------------------------------------------------------

ANY_AD = st.one_of(
    testing.ads(),
    testing.ads({"x": testing.values(), "y z": testing.expressions(), "t": testing.times()}),
    st.dictionaries(testing.names(), testing.values(), max_size=3).map(ClassAd),
    testing.machines(),
    testing.jobs(),
    testing.queues(),
    testing.spoiled(testing.jobs(), most=4),
    testing.pairs().map(lambda pair: pair.machine),
)


@pytest.mark.parametrize("format_", FORMATS)
@given(ad=ANY_AD)
def test_ads_read_back_equal(format_: str, ad: ClassAd) -> None:
    read = mm.parse_ad(mm.dumps(ad, format_), format_)
    assert read == ad
    assert list(read) == list(ad)


@given(
    st.one_of(
        testing.expressions(),
        testing.number_expressions(testing.MACHINE, scope="MY"),
        testing.text_expressions(testing.MACHINE),
        testing.boolean_expressions(testing.QUEUE, scope="other"),
        testing.requirements(testing.MACHINE, testing.JOB),
        testing.ranks(testing.QUEUE),
    )
)
def test_expressions_read_back_as_themselves(expression: Expr) -> None:
    assert mm.parse_expr(str(expression)) is expression


@given(ANY_AD)
def test_failing_tests_print_what_reads_the_ad_back(ad: ClassAd) -> None:
    shown = pretty(ad)
    assert eval(shown, {"parse_ad": mm.parse_ad}) == ad  # noqa: S307 - our own text


def test_how_failing_tests_print() -> None:
    short, long = mm.parse_ad("[ a = 1 ]"), mm.parse_ad(f"[ a = \"{'x' * 60}\"; 'b c' = a ]")
    assert pretty(short) == "parse_ad('[ a = 1 ]')"
    assert pretty(long) == ("parse_ad(\n    '[ a = \"" + "x" * 60 + "\"; '\n    \"'b c' = a; ]\")")
    assert pretty(testing.Pair(short, short)) == (
        "Pair(\n    job=parse_ad('[ a = 1 ]'),\n    machine=parse_ad('[ a = 1 ]'),)"
    )
    assert pretty(mm.parse_expr("a+1")) == "parse_expr('a + 1')"


# --- what is promised -----------------------------------------------------------------------------

# Attributes of every type that a requirement can ask about.
TYPED: dict[str, Any] = {
    "n": st.integers(-5, 5),
    "x": st.floats(-5, 5),
    "s": testing.texts(),
    "b": st.booleans(),
    "l": st.lists(st.integers(0, 3) | st.sampled_from(["a", "b"]), max_size=3),
    "t": testing.times().filter(lambda time: not hasattr(time, "tzinfo")),
    "d": st.just(ClassAd({"z": 1})),
    "e": mm.parse_expr("n + 1"),
    "o": st.none() | st.just(3),
}
NUMBERS = {name: TYPED[name] for name in ("n", "x")}


@settings(max_examples=200)
@given(testing.requirements({**TYPED, "o": None}, NUMBERS), testing.ads(TYPED), testing.ads(TYPED))
def test_requirements_are_true_or_false(policy: Expr, my: ClassAd, target: ClassAd) -> None:
    assert policy.eval(my, target) in (True, False)
    assert opposite(policy).eval(my, target) is not policy.eval(my, target)


@settings(max_examples=200)
@given(testing.ranks(TYPED | {"o": 1}), testing.ads(TYPED | {"o": 1}))
def test_ranks_are_numbers(rank: Expr, target: ClassAd) -> None:
    value = rank.eval(target=target)
    assert isinstance(value, (int, float))
    assert not isinstance(value, bool)


@given(testing.text_expressions(TYPED), testing.ads(TYPED))
def test_text_expressions_are_strings(expression: Expr, ad: ClassAd) -> None:
    assert isinstance(expression.eval(ad), str)


@given(testing.number_expressions({**TYPED, "o": 3}), testing.ads({**TYPED, "o": 3}))
def test_number_expressions_are_numbers_or_errors(expression: Expr, ad: ClassAd) -> None:
    value = expression.eval(ad)
    assert isinstance(value, (int, float)) or mm.is_error(value)


@given(st.data())
def test_requirements_are_of_the_attributes_given(data: st.DataObject) -> None:
    policy = data.draw(testing.requirements({"n": 1, "b": True}, {"m": 2}, scope="other"))
    references = policy.references()
    assert set(references.target) <= {"n", "b"}
    assert set(references.my) <= {"m"}
    assert references.unscoped == ()
    assert "TARGET" not in str(policy)


@given(testing.requirements(testing.MACHINE, max_clauses=2))
def test_requirements_have_so_many_clauses(policy: Expr) -> None:
    # A clause may itself be a conjunction of two, or four.
    assert len(conjuncts(policy)) <= 8


def test_requirements_of_nothing_accept_everything() -> None:
    assert find(testing.requirements({}), lambda policy: policy.eval() is True) is not None


@given(testing.machines({"GPUs": None, "memory": 5, "Extra": st.sampled_from([1, None])}))
def test_own_attributes_come_instead(machine: ClassAd) -> None:
    assert "GPUs" not in machine
    assert machine.eval("Memory") == 5
    assert machine.eval("Extra") in (1, mm.UNDEFINED)
    assert set(machine) - {"memory", "Extra"} <= {*testing.MACHINE, "Requirements", "Rank"}


def test_requirements_of_both_sides_are_now_true_and_now_false() -> None:
    found: set[tuple[mm.Value, mm.Value]] = set()

    @settings(max_examples=100, derandomize=True, database=None)
    @given(testing.jobs(), testing.machines())
    def test(job: ClassAd, machine: ClassAd) -> None:
        match = mm.match(job, machine)
        found.add((match.left, match.right))

    test()
    assert found == {(True, True), (True, False), (False, True), (False, False)}


# --- pairs ----------------------------------------------------------------------------------------


def share(strategy: st.SearchStrategy[testing.Pair]) -> float:
    """The share of pairs that match among those generated."""
    found = [matched for number in range(3) for case in fresh(strategy, number) for matched in case]
    return found.count(True) / len(found)


def fresh(strategy: st.SearchStrategy[testing.Pair], number: int) -> list[list[bool]]:
    """Which pairs match, eight in a case.

    The first few cases of a run are the simplest, and those after the tenth are made from others.
    """
    cases: list[list[bool]] = []

    @seed(number)
    @settings(
        max_examples=10,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(strategy, min_size=8, max_size=8))
    def count(pairs: list[testing.Pair]) -> None:
        cases.append([mm.match(*pair).matched for pair in pairs])

    count()
    return cases[4:]


@pytest.mark.parametrize("wanted", [0, 0.2, 0.5, 0.8, 1])
def test_so_many_pairs_match(wanted: float) -> None:
    found = share(testing.pairs(matching=wanted))
    assert abs(found - wanted) <= (0.2 if 0 < wanted < 1 else 0)


POLICY = mm.parse_expr('TARGET.RequestMemory <= MY.Memory && TARGET.Owner != "ana"')


@pytest.mark.parametrize("wanted", [0, 0.5, 1])
def test_so_many_match_a_given_policy(wanted: float) -> None:
    found = share(testing.pairs(machine={"Requirements": POLICY}, matching=wanted))
    assert abs(found - wanted) <= (0.2 if 0 < wanted < 1 else 0)


@given(testing.pairs({"Owner": "ben", "Requirements": True}, {"Requirements": POLICY}))
def test_given_requirements_stay(pair: testing.Pair) -> None:
    assert pair.machine["Requirements"] is POLICY
    assert pair.job["Requirements"] is True
    assert pair.job.eval("Owner") == "ben"


@given(testing.pairs(testing.ads({"a": 1}), testing.ads({"b": 2}), matching=1))
def test_pairs_of_ads_that_have_nothing_else(pair: testing.Pair) -> None:
    assert mm.match(*pair).matched
    assert set(pair.job) == {"a", "Requirements"}


def test_pairs_that_match_may_have_requirements_of_several_clauses() -> None:
    pair = find(
        testing.pairs(testing.ads({"want": 1}), testing.ads({"have": 1, "os": "x"}), matching=1),
        lambda pair: len(conjuncts(pair.job.expr("Requirements"))) > 2 and pair.job.references().my,
    )
    assert mm.match(*pair).matched


@pytest.mark.parametrize("refusing", ["left", "right"])
def test_either_side_may_refuse(refusing: str) -> None:
    def refuses(pair: testing.Pair) -> bool:
        found = mm.match(*pair)
        one, other = (found.left, found.right)[:: 1 if refusing == "left" else -1]
        return one is False and other is True

    find(testing.pairs(testing.ads({"a": 1}), testing.ads({"b": "x"}), matching=0), refuses)


def test_a_share_that_cannot_be_is_told() -> None:
    @settings(max_examples=10, database=None)
    @given(testing.pairs(machine={"Requirements": False}, matching=1))
    def test(pair: testing.Pair) -> None:
        raise AssertionError

    with pytest.raises((FailedHealthCheck, Unsatisfiable)):
        test()


@pytest.mark.parametrize("wrong", [-0.1, 1.5, 50])
def test_a_share_is_one(wrong: float) -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        testing.pairs(matching=wrong)


@given(testing.pairs(matching=None))
def test_pairs_as_they_come(pair: testing.Pair) -> None:
    found = mm.match(*pair)
    assert found.left in (True, False)
    assert found.right in (True, False)
    assert pair == (pair.job, pair.machine)


# --- what is spoiled ------------------------------------------------------------------------------

WELL = testing.ads({"n": testing.integers(), "s": testing.texts(), "l": [1, "a"], "e": POLICY})


@pytest.mark.parametrize(
    ("fault", "expected"),
    [("missing", None), ("undefined", mm.UNDEFINED), ("error", mm.ERROR)],
)
def test_each_fault(fault: str, expected: mm.Value | None) -> None:
    @given(testing.spoiled(WELL, ["n"], faults=[fault]))
    def test(ad: ClassAd) -> None:
        assert ad.get("n") == expected
        assert {"s", "l", "e"} <= set(ad)

    test()


@given(testing.spoiled(WELL, faults=["mistyped"], most=1))
def test_what_is_mistyped_is_of_another_kind(ad: ClassAd) -> None:
    held = {name: ad[name] for name in ad}
    changed = [
        not isinstance(held["n"], int),
        not isinstance(held["s"], str),
        not isinstance(held["l"], list),
        held["e"] is not POLICY,
    ]
    assert changed.count(True) == 1


@given(testing.spoiled(testing.ads(dict.fromkeys("abcd", 1)), most=2))
def test_so_many_are_spoiled(ad: ClassAd) -> None:
    assert [ad.get(name) for name in "abcd"].count(1) in (2, 3)


@given(testing.spoiled(testing.ads({"n": 1}), ["other"]))
def test_an_ad_without_the_attribute_stays(ad: ClassAd) -> None:
    assert ad == ClassAd({"n": 1})


@given(st.data())
def test_the_sound_ad_is_left_alone(data: st.DataObject) -> None:
    sound = ClassAd({"n": 1, "d": ClassAd({"x": 1})})
    spoiled = data.draw(testing.spoiled(st.just(sound)))
    assert str(sound) == "[ n = 1; d = [ x = 1 ] ]"
    assert spoiled != sound or isinstance(spoiled["d"], ClassAd)


@pytest.mark.parametrize("faults", [["lost"], []])
def test_unknown_faults_are_refused(faults: list[str]) -> None:
    with pytest.raises(ValueError, match="missing, undefined, error, mistyped"):
        testing.spoiled(WELL, faults=faults)


# --- shrinking ------------------------------------------------------------------------------------


def test_a_bad_policy_shrinks_to_what_is_wrong_with_it() -> None:
    # Meant: machines that are idle. But a machine without a keyboard has no KeyboardIdle.
    policy = {"Requirements": mm.parse_expr("KeyboardIdle > 900 || LoadAvg < 0.3")}
    idle = st.none() | st.integers(0, 2000)
    machines = testing.ads({**policy, "KeyboardIdle": idle, "LoadAvg": testing.MACHINE["LoadAvg"]})
    pair = find(
        testing.pairs(testing.ads({}), machines, matching=None),
        lambda pair: mm.match(*pair).right is mm.UNDEFINED,
    )
    assert pair.job == ClassAd(Requirements=True)
    assert "KeyboardIdle" not in pair.machine
    assert pair.machine.eval("LoadAvg") in (0.5, 1.0)


def test_a_wrong_bound_shrinks_to_the_bound() -> None:
    jobs = testing.ads({"Want": st.integers(0, 10_000), "Owner": st.sampled_from(["ana", "ben"])})
    pair = find(
        testing.pairs(jobs, testing.ads({"Memory": st.integers(0, 10_000)}), matching=1),
        lambda pair: pair.job.eval("Want") > 4096,
    )
    assert str(pair.job) == '[ Want = 4097; Owner = "ana"; Requirements = true ]'
    assert str(pair.machine) == "[ Memory = 0; Requirements = true ]"


def test_expressions_shrink_to_their_smallest() -> None:
    sums = testing.number_expressions({"n": st.integers()}, scope="MY")
    total = find(sums, lambda e: "n" in e.references().my and "+" in str(e))
    assert len(list(postorder(total))) <= 4
    policy = find(testing.requirements(testing.MACHINE), lambda e: len(conjuncts(e)) == 2)
    assert len(str(policy)) < 100


def test_spoiled_ads_shrink_to_one_fault() -> None:
    ad = find(testing.spoiled(WELL, most=3), lambda ad: mm.is_error(ad.eval("n")) or "s" not in ad)
    assert len(ad) - mm.is_error(ad.eval("n")) == 3


START = mm.parse_expr('KeyboardIdle > 15 * 60 || TARGET.Owner == "ana"')
OWNERS = testing.ads({"Owner": testing.JOB["Owner"]})
KEYBOARD = {"START": START, "KeyboardIdle": st.none() | st.integers(0, 2000)}
FITS = {"Memory": 4096, "Requirements": mm.parse_expr("TARGET.RequestMemory <= MY.Memory")}
REQUESTS = testing.spoiled(testing.ads({"RequestMemory": testing.JOB["RequestMemory"]}))


@pytest.mark.parametrize(
    ("pairs", "attribute"),
    [
        (testing.pairs(REQUESTS, testing.ads(FITS), matching=None), "Requirements"),
        (testing.pairs(OWNERS, testing.ads(KEYBOARD)), "START"),
    ],
)
def test_a_policy_of_the_guide_shrinks_in_few_cases(
    pairs: st.SearchStrategy[testing.Pair], attribute: str
) -> None:
    cases = 0

    @settings(database=None, derandomize=True)
    @given(pairs)
    def test(pair: testing.Pair) -> None:
        nonlocal cases
        cases += 1
        assert pair.machine.eval(attribute, target=pair.job) in (True, False)

    with pytest.raises(AssertionError):
        test()
    assert cases < 500


# --- without Hypothesis ---------------------------------------------------------------------------


def test_without_hypothesis_the_error_names_the_extra() -> None:
    code = "import sys; sys.modules['hypothesis'] = None; import matchmaker.testing"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode != 0
    assert done.stderr.strip().splitlines()[-1] == (
        "ImportError: matchmaker.testing needs Hypothesis:"
        " pip install 'classad-matchmaker[testing]'"
    )


# --- the first example ----------------------------------------------------------------------------

# What properties of users ask, each of ads that other strategies than those of the loading made.
COLD = """
import sys
import matchmaker as mm
from matchmaker import testing

job = mm.parse_ad('[ Owner = "ben"; Requirements = TARGET.Disk > 7 && toUpper(TARGET.A) == "X" ]')
slot = mm.parse_ad('[ Name = "s"; Disk = 9; A = "x"; S = TARGET.Owner != "c"; Requirements = S ]')
queue = mm.parse_ad('[ CEid = "q"; LRMSType = "pbs"; GlueCEPolicyMaxCPUTime = 9 ]')
wanted = "other.GlueHostBenchmarkSI00 > 4 && other.GlueCEPolicyMaxCPUTime > 3"
asking = mm.parse_ad(f"[ Requirements = {wanted} ]")
questions = {
    "match": lambda: mm.match(job, slot),
    "pool": lambda: mm.Pool([slot]).match(job).keys,
    "assign": lambda: mm.Pool([slot]).assign([job]).placed,
    "explain": lambda: str(mm.Pool([slot]).explain(job)),
    "lint": lambda: mm.lint("[ a = Memroy; b = 1 + ]"),
    "regexp": lambda: mm.parse_expr('regexp("^b+", "bb")').eval(),
    "reduce": lambda: mm.reduce(asking, queue, mm.glue.scope).explain(),
    "flags": lambda: mm.batch.flags(mm.reduce(asking, queue, mm.glue.scope), lrms="slurm").argv,
    "broker": lambda: mm.broker.choose(asking, [queue]).chosen,
}
calls = 0
def count(frame, event, argument):
    global calls
    calls += event == "call"
loaded = set(sys.modules)
for name, ask in questions.items():
    sys.setprofile(count)
    ask()
    sys.setprofile(None)
    print(name, calls, *(set(sys.modules) - loaded))
    loaded, calls = set(sys.modules), 0
"""


def test_the_first_example_loads_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", COLD], capture_output=True, encoding="utf-8", check=True
    )
    asked = [line.split() for line in done.stdout.splitlines()]
    assert len(asked) == 9
    assert [line for line in asked if line[2:] or int(line[1]) > 10_000] == []

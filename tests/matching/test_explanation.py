from __future__ import annotations

import html
from html import escape
from itertools import combinations
from typing import get_type_hints

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchmaker import ClassAd, Pool, Shards, match, parse_ad, parse_ads, parse_expr
from matchmaker._limits import EXPLANATION_LIMITS as LIMITS
from matchmaker.classad import state
from matchmaker.classad.evaluate import evaluate
from matchmaker.classad.nodes import Expr
from matchmaker.classad.operators import truth
from matchmaker.classad.values import UNDEFINED, Value, is_error
from matchmaker.classad.walks import conjuncts
from matchmaker.matching.explanation import Explanation, PairExplanation
from matchmaker.matching.explanation.counts import Counts, minimal_conflicts
from matchmaker.shards.shards import Across
from tests.property.test_columns import jobs, pools

pytestmark = pytest.mark.slow


def explained(job: str, ads: str) -> Explanation:
    return Pool(parse_ads(ads)).explain(parse_ad(job))


AMISS = "is a string, which is true of no slot: write the expression without quotes"

MACHINES = """
[ Name = "a"; Cpus = 2; Memory = 2048; Arch = "X86_64" ]
[ Name = "b"; Cpus = 8; Memory = 4096; Arch = "X86_64"; START = TARGET.Owner != "ben";
  Requirements = START && TARGET.Want < 9 ]
[ Name = "c"; Cpus = 8; Memory = 6144; Arch = "aarch64"; START = TARGET.Owner == "ana";
  Requirements = START && TARGET.Want < 9 ]
[ Name = "d"; Cpus = 4; Memory = 6144; Arch = "X86_64"; START = true;
  Requirements = START && TARGET.Want < 9 ]
"""


def job_text(want: int = 1, memory: int = 8192) -> str:
    return f"""[ Owner = "ben"; Want = {want}; RequestMemory = {memory}; Requirements =
      TARGET.Cpus >= 4 && TARGET.Memory >= MY.RequestMemory && TARGET.Arch == "X86_64" ]"""


def test_each_clause_is_counted_alone_with_those_before_and_as_the_only_one_missed() -> None:
    found = explained(job_text(), MACHINES)
    assert [(c.text, c.matched, c.cumulative, c.near) for c in found.clauses] == [
        ("TARGET.Cpus >= 4", 3, 3, 0),
        ("TARGET.Memory >= MY.RequestMemory", 0, 0, 1),
        ('TARGET.Arch == "X86_64"', 3, 0, 0),
    ]
    assert (found.total, found.matched, found.refused_by_ads) == (4, 0, 0)


def test_the_change_that_helps_most_is_told() -> None:
    found = explained(job_text(), MACHINES)
    assert [str(s) for s in found.suggestions] == [
        "RequestMemory 8192 -> 6144 gains 1 slot",
        "dropping clause 2, TARGET.Memory >= MY.RequestMemory, gains 1 slot",
    ]
    assert str(found.suggestions[0].job["RequestMemory"]) == "6144"


def test_what_the_slots_require_is_followed_through_names() -> None:
    found = explained(job_text(want=10, memory=1), MACHINES)
    assert [(str(c), c.held, c.refused, c.suitable) for c in found.ad_clauses] == [
        ("TARGET.Want < 9", 3, 3, 2),
        ('START: TARGET.Owner != "ben"', 1, 1, 1),
        ('START: TARGET.Owner == "ana"', 1, 1, 0),
        ("START: true", 1, 0, 0),
    ]
    assert found.refused_by_ads == 2


def test_what_excludes_everything_is_the_smallest_sets() -> None:
    found = explained(job_text(want=10, memory=4000), MACHINES)
    assert [str(c) for c in found.conflicts] == [
        "every slot that satisfies clause 1 refuses the job",
        "every slot that satisfies clause 2 refuses the job",
    ]
    found = explained(
        "[ Requirements = other.Cpus > 4 && other.Memory < 4000 && true ]",
        """
        [ Name = 1; Cpus = 8; Memory = 8000 ] [ Name = 2; Cpus = 4; Memory = 1000 ]""",
    )
    assert [c.clauses for c in found.conflicts] == [(1, 2)]
    assert explained("[ Requirements = other.Cpus > 99 ]", MACHINES).conflicts[0].clauses == (1,)
    assert explained("[]", "[ Name = 1; Requirements = false ]").conflicts[0].ads
    assert explained("[]", MACHINES).conflicts == ()


def test_text_tells_it_all() -> None:
    found = explained(job_text(want=10), MACHINES)
    changes = "change RequestMemory 8192 -> 6144; change Want 10 -> 8"
    mended = job_text(want=8, memory=6144)
    assert "1 of 4 match" in str(explained(mended, MACHINES))
    assert str(found).splitlines() == [
        "   alone  so far  near misses  clause",
        "1      3       3            0  TARGET.Cpus >= 4",
        "2      0       0            0  TARGET.Memory >= MY.RequestMemory",
        '3      3       0            0  TARGET.Arch == "X86_64"',
        "0 of 4 match",
        "",
        "no slot satisfies clause 2",
        "every slot that satisfies clause 1 refuses the job",
        "",
        f"2 changes together gain 1 slot (fewer changes gain nothing): {changes}",
        "",
        "held by  refuses  suitable  clause of the slots",
        "      3        3         0  TARGET.Want < 9",
        '      1        1         0  START: TARGET.Owner != "ben"',
        '      1        1         0  START: TARGET.Owner == "ana"',
        "clauses not shown: 1 that refuse none",
    ]


def test_one_change_may_turn_clauses_of_both_sides() -> None:
    found = explained(
        "[ RequestMemory = 64; Requirements = TARGET.Memory >= RequestMemory ]",
        """[ Name = "a"; Memory = 32; Requirements = TARGET.RequestMemory <= MY.Memory - 16 ]
           [ Name = "b"; Memory = 20; Requirements = MY.Memory >= 2 * TARGET.RequestMemory ]""",
    )
    assert str(found.suggestions[0]) == "RequestMemory 64 -> 10 gains 2 slots"
    assert str(found.suggestions[1]) == "RequestMemory 64 -> 16 gains 1 slot"
    assert [c.near for c in found.clauses] == [0]


@pytest.mark.parametrize(
    ("job", "ads", "expected"),
    [
        ("TARGET.Memory > 4096", "Memory = 4000", "TARGET.Memory > 4096 -> 3999 gains 1 slot"),
        ("4096 < TARGET.Memory", "Memory = 4000", "TARGET.Memory > 4096 -> 3999 gains 1 slot"),
        ("TARGET.Load <= 0.25", "Load = 0.5", "TARGET.Load <= 0.25 -> 0.5 gains 1 slot"),
        ("TARGET.Load < 0.25", "Load = 0.5", "TARGET.Load < 0.25 -> 0.501 gains 1 slot"),
        ("TARGET.Load < 1 / 4", "Load = 7", "TARGET.Load < 1 / 4 -> 8 gains 1 slot"),
        ('TARGET.Os == "LINUX"', 'Os = "Darwin"', 'TARGET.Os == "LINUX" -> "Darwin" gains 1 slot'),
        ("TARGET.Gpus is true", "Gpus = false", "TARGET.Gpus =?= true -> false gains 1 slot"),
        ("TARGET.Memory * 2 >= Want", "Memory = 4", "Want 100 -> 8 gains 1 slot"),
        ("TARGET.Memory >= Want * 2 + 3", "Memory = 8", "Want 100 -> 2 gains 1 slot"),
        ("TARGET.Memory >= Want / 10", "Memory = 8", "Want 100 -> 80 gains 1 slot"),
        ("TARGET.Memory == Want / 4", "Memory = 8", "Want 100 -> 32 gains 1 slot"),
        ("TARGET.Memory <= 200 - Want", "Memory = 150", "Want 100 -> 50 gains 1 slot"),
        ("Fits", "Memory = 4", "Want 100 -> 4 gains 1 slot"),
        ("Fixed", "Memory = 4", "TARGET.Memory >= 50 -> 4 gains 1 slot"),
        ("TARGET.Memory - MY.Want > 0", "Memory = 4", "Want 100 -> 3 gains 1 slot"),
        ("2 * MY.Want <= TARGET.Memory", "Memory = 9", "Want 100 -> 4 gains 1 slot"),
        ("0 <= TARGET.Memory - (Want - 5)", "Memory = 4", "Want 100 -> 9 gains 1 slot"),
        ("3 * (TARGET.A - Want) > TARGET.A", "A = 9", "Want 100 -> 5 gains 1 slot"),
        ("TARGET.A + Want == TARGET.B - 2", "A = 1; B = 9", "Want 100 -> 6 gains 1 slot"),
        ("-(MY.Want - TARGET.A) * 2 >= 0.5", "A = 9", "Want 100 -> 8 gains 1 slot"),
        ("TARGET.A * MY.Two - Want >= 0", "A = 9", "Want 100 -> 18 gains 1 slot"),
        ("true", "A = 9; Requirements = MY.A - TARGET.Want > 2", "Want 100 -> 6 gains 1 slot"),
        ("TARGET.A || TARGET.Memory >= Want", "Memory = 4", "Want 100 -> 4 gains 1 slot"),
        ("TARGET.Want > MY.Missing", "Want = 4", "Missing undefined -> 3 gains 1 slot"),
        ("true", 'Requirements = TARGET.Team == "x"', 'Team undefined -> "x" gains 1 slot'),
    ],
)  # fmt: skip
def test_what_is_suggested(job: str, ads: str, expected: str) -> None:
    held = "Want = 100; Two = 2; Fits = TARGET.Memory >= Want; Fixed = TARGET.Memory >= 50"
    found = explained(f"[ {held}; Requirements = {job} ]", f"[ Name = 1; {ads} ]")
    assert expected in [str(one) for one in found.suggestions]


def test_what_a_job_is_is_not_suggested_otherwise() -> None:
    found = explained(job_text(memory=1), MACHINES)
    assert found.refused_by_ads == 1
    assert not [s for s in found.suggestions if s.what == "Owner"]


def test_the_nearest_value_that_gains_half_is_told_beside_the_one_that_gains_most() -> None:
    ads = "".join(f"[ Name = {n}; Memory = {m} ]" for n, m in enumerate([6, 6, 6, 4, 4, 1]))
    found = explained("[ Want = 8; Requirements = other.Memory >= Want ]", ads)
    assert [str(one) for one in found.suggestions] == [
        "Want 8 -> 1 gains 6 slots",
        "dropping clause 1, other.Memory >= Want, gains 6 slots",
        "Want 8 -> 6 gains 3 slots",
    ]


def test_what_differs_in_case_alone_is_suggested_beside_what_most_slots_have() -> None:
    ads = "".join(f'[ Name = {n}; Site = "{s}" ]' for n, s in enumerate(["fnal", "CERN", "fnal"]))
    found = explained('[ Requirements = TARGET.Site =?= "cern" ]', ads)
    assert [str(one) for one in found.suggestions][1:] == [
        'TARGET.Site =?= "cern" -> "fnal" gains 2 slots',
        'TARGET.Site =?= "cern" -> "CERN" gains 1 slot',
    ]
    loose = explained('[ Requirements = TARGET.Site == "cern" ]', ads)
    assert str(loose.suggestions[1]) == 'TARGET.Site == "cern" -> "fnal" gains 1 slot'


def test_no_job_is_told_to_request_nothing() -> None:
    ads = "".join(f"[ Name = {n}; Cpus = {c} ]" for n, c in enumerate([0, 0, 0, 1, 4]))
    found = explained("[ RequestCpus = 8; Requirements = TARGET.Cpus >= RequestCpus ]", ads)
    assert [str(one) for one in found.suggestions if one.after is not None] == [
        "RequestCpus 8 -> 1 gains 2 slots", "RequestCpus 8 -> 4 gains 1 slot",
    ]  # fmt: skip


def test_a_clause_said_twice_is_turned_once() -> None:
    clause = "TARGET.Memory >= Want"
    found = explained(f"[ Want = 9; Requirements = {clause} && {clause} ]", "[ Name=1; Memory=4 ]")
    assert [str(one) for one in found.suggestions] == ["Want 9 -> 4 gains 1 slot"]
    assert [c.near for c in found.clauses] == [0, 0]


def test_what_too_many_clauses_rest_on_is_left_alone() -> None:
    clauses = " && ".join(f"TARGET.Memory + {n} >= Want" for n in range(200))
    found = explained(f"[ Want = 9; Requirements = {clauses} ]", "[ Name = 1; Memory = 4 ]")
    assert found.suggestions == ()
    assert [c.matched for c in found.clauses] == [0] * 5 + [1] * 195


def test_clauses_that_lead_anywhere_are_counted_and_suggested_too() -> None:
    job = '[ Want = 9; Requirements = eval("TARGET.Memory > 1") && TARGET.Memory >= Want ]'
    found = explained(job, "[ Name = 1; Memory = 4 ] [ Name = 2; Memory = 1 ]")
    assert [(c.matched, c.near) for c in found.clauses] == [(1, 0), (0, 1)]
    assert str(found.suggestions[0]) == "Want 9 -> 4 gains 1 slot"


def test_a_notebook_gets_a_piece_of_a_page() -> None:
    pool = Pool(parse_ads(MACHINES))
    for found in (pool.explain(parse_ad(job_text())), pool.explain_pair(parse_ad(job_text()), "a")):
        shown = found._repr_html_()
        assert shown.startswith('<div class="mm">')
        assert "<html" not in shown
        assert shown in found.html()


# --- what is plainly amiss ------------------------------------------------------------------------


def test_what_a_clause_is_where_it_is_not_true() -> None:
    found = explained(
        "[ Requirements = TARGET.a > 1 && (TARGET.a < 9 || TARGET.b) ]",
        """[ Name = 1; a = 0 ] [ Name = 2 ] [ Name = 3; a = "x" ] [ Name = 4; a = 9; b = 7 ]""",
    )
    assert [(c.matched, c.false, c.undefined, c.error) for c in found.clauses] == [
        (1, 1, 1, 1),
        (2, 0, 1, 1),
    ]
    assert str(found).splitlines()[:3] == [
        "   alone  so far  near misses  undefined  error  clause",
        "1      1       1            1          1      1  TARGET.a > 1",
        "2      2       1            0          1      1  TARGET.a < 9 || TARGET.b",
    ]
    assert found.exceptional() == {"undefined": [1, 1], "error": [1, 1]}
    assert found.notes == (
        "clause 1 is an error for 1 slot: string > integer has no meaning",
        "clause 2 is an error for 1 slot: string < integer has no meaning",
    )


@pytest.mark.parametrize(
    ("job", "note"),
    [
        ("TARGET.Memroy > 1", "no slot has Memroy (clause 1); did you mean Memory?"),
        ("Memroy > 1", "neither the job nor any slot has Memroy (clause 1); did you mean Memory?"),
        ("1 > Wantd", "neither the job nor any slot has Wantd (clause 1); did you mean Wanted?"),
        ("TARGET.Cpus > MY.Wantd", "the job has no Wantd (clause 1); did you mean Wanted?"),
        ("TARGET.Wholly > 1", "no slot has Wholly (clause 1)"),
        # The job's names are no candidates for the slots' and the other way round.
        ("TARGET.Wantd > 1", "no slot has Wantd (clause 1)"),
        ("TARGET.Wholly > 1 && true && TARGET.WHOLLY < 9", "no slot has Wholly (clauses 1, 3)"),
        ("Through", "no slot has Memroy (clause 1); did you mean Memory?"),
        ("TARGET.Gone > 1", "no slot has Gone (clause 1)"),
        # Undefined in some slots only, asked whether it is there, or with a clause that holds.
        ("TARGET.Some > 1", ""),
        ("TARGET.Memroy is undefined", ""),
        ("TARGET.Memroy =!= undefined", ""),
        ("TARGET.Memroy > 1 || TARGET.Cpus > 0", ""),
        ('"TARGET.Cpus > 1"', f"the job's Requirements {AMISS}"),
        ('"TARGET.Cpus > 1" && true', f"clause 1 {AMISS}"),
        ("TARGET.Cpus > 0 && MY.Text", f"the job's Text (clause 2) {AMISS}"),
    ],
)  # fmt: skip
def test_names_that_nothing_has_and_strings(job: str, note: str) -> None:
    pool = Pool(
        parse_ads("""[ Name = 1; Cpus = 4; Memory = 9; Some = 4 ]
        [ Name = 2; Cpus = 4; memory = 9 ] [ Name = 3; Gone = 1; Cpus = 9 ]""")
    )
    pool.remove("3")
    found = pool.explain(parse_ad(
        f"""[ Wanted = 1; Through = Deep > 2; Deep = TARGET.Memroy;
        Text = "TARGET.Cpus > 1"; Requirements = {job} ]"""
    ))  # fmt: skip
    assert found.notes == ((note,) if note else ())
    assert note in str(found)
    assert html.escape(note) in found.html()


@pytest.mark.parametrize(
    ("clause", "note"),
    [
        ('TARGET.Cpus >= "1"', "integer >= string has no meaning; write TARGET.Cpus >= 1"),
        ('"1.5" < TARGET.Cpus', "string < integer has no meaning; write 1.5 < TARGET.Cpus"),
        ('!(TARGET.Cpus == "4")', "integer == string has no meaning; write !(TARGET.Cpus == 4)"),
        ('TARGET.Cpus > "many"', "integer > string has no meaning"),
        ("TARGET.Name > 1", "string > integer has no meaning"),
    ],
)
def test_why_a_clause_is_an_error_and_what_to_write(clause: str, note: str) -> None:
    found = explained(f"[ Requirements = true && {clause} ]", '[ Name = "a"; Cpus = 4 ]')
    assert found.notes == (f"clause 2 is an error for 1 slot: {note}",)


def test_many_names_that_nothing_has() -> None:
    clauses = " && ".join(f"TARGET.Missing{n * n} > 1" for n in range(30))
    found = explained(f"[ Requirements = {clauses} ]", "[ Name = 1 ]")
    assert found.notes[0] == "no slot has Missing0 (clause 1)"
    assert len(found.notes) == 9
    assert found.notes[-1] == "and 22 more of the kind"


def test_slots_that_say_in_a_string_what_they_require() -> None:
    found = explained(
        "[]",
        """[ Name = 1; Requirements = "TARGET.a" ] [ Name = 2; Requirements = "TARGET.b" ]
           [ Name = 3; Requirements = START; START = "TARGET.c" ] [ Name = 4 ]""",
    )
    assert found.notes == (
        "2 slots refuse every job: Requirements is a string there, and no expression",
        "1 slot refuse every job: START is a string there, and no expression",
    )


def test_what_takes_too_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state.Budget, "limit", 50)
    pool = Pool(ClassAd({"Name": str(n), "Cpus": n}) for n in range(40))
    hungry = " + ".join(["size(TARGET.Name)"] * 100)
    for clauses in (f"{hungry} > 0", f"TARGET.Cpus >= 0 && {hungry} > 0"):
        job = parse_ad(f"[ Requirements = {clauses} ]")
        found = pool.explain(job)
        assert found.matched == 0
        assert found.error is not None
        assert state.too_many_steps() in found.error
        said = f"0 of 40 match; not all could be evaluated: {found.error}"
        assert said in str(found).splitlines()
        assert escape(said) in found.html()
        assert found.clauses[-1].error == 40
    assert pool.explain(parse_ad("[ Requirements = TARGET.Cpus > 0 ]")).error is None


# --- a job's own names ----------------------------------------------------------------------------


def test_what_the_job_requires_is_followed_through_its_own_names() -> None:
    job = """[ Want = 8; Requirements = MY.Fits && TARGET.Cpus > 1 && Here;
        Fits = TARGET.Memory >= Want && Base; Base = TARGET.Cpus >= 4; Here = true ]"""
    found = explained(job, "[ Name = 1; Memory = 4; Cpus = 3 ] [ Name = 2; Memory = 9; Cpus = 2 ]")
    assert [(str(c), c.via, c.text, c.matched, c.near) for c in found.clauses] == [
        ("Fits: TARGET.Memory >= Want", ("Fits",), "TARGET.Memory >= Want", 1, 0),
        ("Fits: Base: TARGET.Cpus >= 4", ("Fits", "Base"), "TARGET.Cpus >= 4", 0, 1),
        ("TARGET.Cpus > 1", (), "TARGET.Cpus > 1", 2, 0),
        ("Here", (), "Here", 2, 0),
    ]
    assert [str(one) for one in found.suggestions] == [
        "TARGET.Cpus >= 4 -> 2 gains 1 slot",
        "dropping clause 2, TARGET.Cpus >= 4, gains 1 slot",
    ]
    changed, dropped = (one.job for one in found.suggestions)
    assert str(changed["Base"]) == "TARGET.Cpus >= 2"
    assert "Base" not in str(dropped["Requirements"])
    assert "<code>Fits: Base: TARGET.Cpus &gt;= 4</code>" in found.html()


def test_names_of_the_job_that_lead_in_a_circle_or_to_ever_more_are_left_whole() -> None:
    found = explained("[ Requirements = A; A = MY.B; B = MY.A ]", "[ Name = 1 ]")
    assert [str(c) for c in found.clauses] == ["A"]
    found = explained("[ Requirements = A; A = TARGET.b && MY.Requirements ]", "[ Name = 1 ]")
    assert [str(c) for c in found.clauses] == ["A"]
    ever = "; ".join(f"A{n} = A{n + 1} && A{n + 1} && true" for n in range(10))
    found = explained(f"[ Requirements = A0; {ever}; A10 = TARGET.x ]", "[ Name = 1; x = true ]")
    assert found.matched == 1
    assert 100 < len(found.clauses) <= 256


# --- against each pair ----------------------------------------------------------------------------


def condition(clause: Expr, job: ClassAd, ad: ClassAd) -> Value:
    return truth(evaluate(clause, job, ad, "requirements"))


def value_of(clause: Expr, job: ClassAd, ad: ClassAd) -> bool:
    return condition(clause, job, ad) is True


@given(jobs, pools())
@settings(max_examples=300)
def test_counts_are_those_of_the_pairs(job: ClassAd, ads: list[ClassAd]) -> None:
    pool = keyed(ads)
    ads = list(pool)
    found = pool.explain(job)
    # Those of the requirements, or of what they name: together they are true where these are.
    clauses = [parse_expr(clause.text) for clause in found.clauses]
    values = [[condition(clause, job, ad) for clause in clauses] for ad in ads]
    holds = [[value is True for value in row] for row in values]
    assert [all(row) for row in holds] == [match(job, ad).left is True for ad in ads]
    assert [(c.false, c.undefined, c.error) for c in found.clauses] == [
        (
            sum(row[place] is False for row in values),
            sum(row[place] is UNDEFINED for row in values),
            sum(is_error(row[place]) for row in values),
        )
        for place in range(len(clauses))
    ]
    accepts = [match(job, ad).right is True for ad in ads]
    assert found.total == len(ads)
    assert found.matched == sum(match(job, ad).matched for ad in ads) == len(pool.match(job))
    assert found.refused_by_ads == sum(
        all(h) and not a for h, a in zip(holds, accepts, strict=True)
    )
    assert [(c.matched, c.cumulative, c.near) for c in found.clauses] == [
        (
            sum(row[place] for row in holds),
            sum(all(row[: place + 1]) for row in holds),
            sum(
                accepted and not row[place] and sum(row) == len(row) - 1
                for row, accepted in zip(holds, accepts, strict=True)
            ),
        )
        for place in range(len(clauses))
    ]
    counts = Counts(pool.snapshot(), job)
    assert (counts.objecting == 0).tolist() == accepts


def keyed(ads: list[ClassAd]) -> Pool:
    ads = [ad.copy() for ad in ads]
    for number, ad in enumerate(ads):
        ad["Key of the row"] = number
    return Pool(ads, key="Key of the row")


@given(jobs, pools())
@settings(max_examples=300)
def test_suggestions_gain_what_they_say(job: ClassAd, ads: list[ClassAd]) -> None:
    pool = keyed(ads)
    found = pool.explain(job)
    gains = [one.gain for one in found.suggestions]
    assert gains == sorted(gains, reverse=True)
    for one in found.suggestions:
        assert one.gain > 0
        assert one.matched == len(pool.match(one.job)) == found.matched + one.gain
    # What the one clause less gains is known, and nothing less is told.
    drop = max((c.near for c in found.clauses), default=0)
    assert max(gains, default=0) >= drop


machines = st.lists(
    st.fixed_dictionaries(
        {
            "Memory": st.sampled_from([1, 2, 3, 4, 6, 8, 2.5, "4"]),
            "Cpus": st.integers(1, 4),
            "Arch": st.sampled_from(["X", "Y"]),
            "Requirements": st.sampled_from(
                ["true", "TARGET.RequestMemory < 6", "TARGET.RequestMemory <= MY.Memory"]
            ).map(parse_expr),
        }
    ).map(ClassAd),
    max_size=12,
)
requirements = st.lists(
    st.sampled_from([
        "TARGET.Memory >= RequestMemory", "TARGET.Memory > MY.RequestMemory", "TARGET.Cpus >= 3",
        'TARGET.Arch == "X"', "TARGET.Memory == RequestMemory", "RequestMemory < TARGET.Cpus + 3",
    ]),
    min_size=1, max_size=4,
)  # fmt: skip


@given(machines, requirements, st.integers(0, 9))
@settings(max_examples=300)
def test_no_other_value_of_an_attribute_gains_more(
    ads: list[ClassAd], clauses: list[str], memory: int
) -> None:
    pool = keyed(ads)
    job = parse_ad(f"[ RequestMemory = {memory}; Requirements = {' && '.join(clauses)} ]")
    found = pool.explain(job)
    gains = []
    for value in range(-1, 11):
        changed = job.copy()
        changed["RequestMemory"] = value
        gains.append(len(pool.match(changed)) - found.matched)
    told = [one.gain for one in found.suggestions if one.what == "RequestMemory"]
    assert max(told, default=0) == max(0, *gains)


# --- the smallest sets ----------------------------------------------------------------------------


def by_brute_force(signatures: list[int], conditions: int) -> set[tuple[int, ...]]:
    found: set[tuple[int, ...]] = set()
    for size in range(1, LIMITS.conflict + 1):
        for places in combinations(range(conditions), size):
            bits = sum(1 << place for place in places)
            within = any(set(one) < set(places) for one in found)
            if not within and not any(s & bits == bits for s in signatures):
                found.add(places)
    return found


@given(st.integers(1, 7), st.data())
def test_minimal_conflicts_are_those_of_brute_force(conditions: int, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(0, (1 << conditions) - 1), min_size=1))
    found = minimal_conflicts(np.array(rows, np.uint64), conditions)
    assert len(found) == len(set(found))
    assert set(found) == by_brute_force(rows, conditions)
    assert [len(one) for one in found] == sorted(len(one) for one in found)


@given(machines, requirements, st.integers(0, 9))
def test_conflicts_exclude_every_slot_and_no_fewer_clauses_do(
    ads: list[ClassAd], clauses: list[str], memory: int
) -> None:
    pool = keyed(ads)
    job = parse_ad(f"[ RequestMemory = {memory}; Requirements = {' && '.join(clauses)} ]")
    found = pool.explain(job)
    conditions = [
        {
            *(n for n, clause in enumerate(conjuncts(job.expr("Requirements")), 1)
              if value_of(clause, job, ad)),
            *([0] if match(job, ad).right is True else []),
        }
        for ad in pool
    ]  # fmt: skip
    expected: set[frozenset[int]] = set()
    for size in range(1, LIMITS.conflict + 1):
        for some in combinations(range(len(clauses) + 1), size):
            within = any(one < set(some) for one in expected)
            if ads and not within and not any(set(some) <= held for held in conditions):
                expected.add(frozenset(some))
    told = {frozenset({*c.clauses, *([0] if c.ads else [])}) for c in found.conflicts}
    assert told == expected
    assert bool(told) == (bool(ads) and not found.matched)


def test_many_clauses_and_many_patterns_come_to_an_end() -> None:
    rng = np.random.default_rng(7)
    rows = rng.integers(0, 1 << 62, 50_000, dtype=np.uint64) & rng.integers(
        0, 1 << 62, 50_000, dtype=np.uint64
    )
    for places in minimal_conflicts(rows, 63):
        bits = np.uint64(sum(1 << place for place in places))
        assert not (rows & bits == bits).any()


def test_more_clauses_than_a_signature_has_bits() -> None:
    clauses = " && ".join(f"other.n != {n}" for n in range(100)) + " && other.n < 100"
    ads = "".join(f"[ Name = {n}; n = {n} ]" for n in range(100))
    found = explained(f"[ Requirements = {clauses} ]", ads)
    assert found.matched == 0
    assert [c.near for c in found.clauses] == [1] * 100 + [0]
    assert all(len(c.clauses) <= LIMITS.conflict for c in found.conflicts)


# --- pools as they come ---------------------------------------------------------------------------


def test_slots_that_are_gone_count_for_nothing() -> None:
    pool = Pool(parse_ads(MACHINES))
    pool.remove("a")
    pool.remove("c")
    job = parse_ad(job_text(want=5, memory=5))
    fresh = Pool(ad for ad in parse_ads(MACHINES) if ad.eval("Name") in ("b", "d"))
    assert str(pool.explain(job)) == str(fresh.explain(job))
    assert pool.explain(job).total == 2


def test_more_kinds_of_requirements_than_are_told_apart() -> None:
    ads = "".join(
        f"[ Name = {n}; Requirements = START && TARGET.b; START = TARGET.a == {n} ]"
        for n in range(200)
    ) + "".join(f"[ Name = {n}; Requirements = TARGET.a == {n} ]" for n in range(200, 400))
    found = explained("[ a = 3; b = true ]", ads)
    assert (found.matched, found.refused_by_ads) == (1, 399)
    assert sum(c.held for c in found.ad_clauses) == 600
    assert sum(c.refused for c in found.ad_clauses) == 399
    lumped = [c for c in found.ad_clauses if c.lumped]
    assert [(c.text, c.via, c.held) for c in lumped] == [
        ("MY.Requirements", (), 137), ("START", (), 136),
    ]  # fmt: skip
    said = "MY.Requirements (others than the 64 most frequent, together)"
    assert str(lumped[0]) == said
    assert said in str(found)
    assert said in found.html()


def test_requirements_that_lead_in_a_circle_are_left_whole() -> None:
    found = explained("[]", "[ Name = 1; Requirements = START; START = MY.Requirements ]")
    assert (found.matched, found.refused_by_ads) == (0, 1)
    assert [str(c) for c in found.ad_clauses] == ["START"]


def test_an_empty_pool_and_a_job_without_requirements() -> None:
    assert explained(job_text(), "").conflicts == ()
    assert str(explained("[]", "")) == "0 of 0 match"
    assert str(explained("[]", "[ Name = 1 ]")) == "1 of 1 match\nnone says whether it is free"
    assert str(explained("[ Requirements = undefined ]", "[ Name = 1 ]")).startswith("   alone")


# --- one pair -------------------------------------------------------------------------------------


def test_a_pair_in_full() -> None:
    found = Pool(parse_ads(MACHINES)).explain_pair(parse_ad(job_text(want=10)), "b")
    assert not found.matched
    assert str(found).splitlines() == [
        "the job refuses b, and b refuses the job",
        "",
        "the job requires",
        "1     TARGET.Cpus >= 4 is true (Cpus = 8)",
        "2     TARGET.Memory >= MY.RequestMemory is false (Memory = 4096, RequestMemory = 8192)",
        '3     TARGET.Arch == "X86_64" is true (Arch = "X86_64")',
        "",
        "the slot requires",
        '1     START is false: TARGET.Owner != "ben" (Owner = "ben")',
        "2     TARGET.Want < 9 is false (Want = 10)",
    ]


def test_no_key_steers_who_reads_about_it() -> None:
    key = "a\x1b[31m\u202e\n\x9b"
    pool = Pool([ClassAd({"Name": key, "Cpus": 1})])
    job = parse_ad('[ Requirements = TARGET.Cpus == 1 && TARGET.Name != "x\u202e" ]')
    for found in (
        pool.explain_pair(job, key),
        pool.explain_pair(parse_ad("[]"), key),
        pool.explain(job),
    ):
        assert all(line.isprintable() for line in str(found).split("\n"))
    assert str(pool.explain_pair(job, key)).startswith("a?[31m??? matches;")
    assert pool.explain_pair(job, key).key == key
    assert repr(pool.match(job)) == "<Matches of 1: a?[31m???: 0>"


def test_a_pair_that_matches_has_its_rank() -> None:
    found = Pool(parse_ads(MACHINES)).explain_pair(parse_ad("[ Rank = TARGET.Cpus ]"), "a")
    assert found.matched
    assert str(found).splitlines()[0] == "a matches; the job's rank of it is 2"
    with pytest.raises(KeyError):
        Pool(parse_ads(MACHINES)).explain_pair(parse_ad(job_text(want=10)), "z")


def test_names_in_a_circle_come_to_an_end_in_a_pair() -> None:
    ad = parse_ad("[ Name = 1; Requirements = A && B; A = B && C; B = A && C; C = true ]")
    found = Pool([ad]).explain_pair(parse_ad("[]"), "1")
    assert found.ad_clauses[0].number == "1"
    assert len(found.ad_clauses) < 2000


@given(jobs, pools())
def test_a_pair_agrees_with_the_pool(job: ClassAd, ads: list[ClassAd]) -> None:
    pool = keyed(ads)
    total = pool.explain(job).matched
    keys = map(str, range(len(ads)))
    assert total == sum(pool.explain_pair(job, key).matched for key in keys)


@pytest.mark.parametrize(
    "before",
    ["target = 2", "My = 1", "other = TARGET.Cpus"],
)
def test_what_slots_had_once_changes_no_advice(before: str) -> None:
    job = parse_ad("[ Want = 2; Requirements = (TARGET.Cpus ?: 0) < 2 ]")
    slot = parse_ad('[ Name = "s0"; Requirements = TARGET.Cpus > 0 ]')
    pool = Pool([parse_ad(f'[ Name = "s0"; {before} ]'), parse_ad('[ Name = "s1" ]')])
    pool.update(slot)
    pool.remove("s1")
    found = str(pool.explain(job))
    assert found == str(Pool([slot]).explain(job))
    assert "gains 1 slot" in found


@pytest.mark.parametrize("kind", [Pool, Shards, Across])
def test_each_question_has_one_type_of_answer(kind: type) -> None:
    answers = {
        name: get_type_hints(getattr(kind, name))["return"] for name in ("explain", "explain_pair")
    }
    assert answers == {"explain": Explanation, "explain_pair": PairExplanation}

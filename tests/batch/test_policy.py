from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchmaker import ClassAd, Expr, batch, glue, parse_ad, parse_expr, reduce
from matchmaker.batch import NoFlagsError
from matchmaker.batch.policy import (
    NoPolicyError,
    carry,
    decoded,
    encoded,
    of_queued,
    required_policy,
)
from matchmaker.classad.nodes import Attr, Binary, Literal, Ternary, Unary
from matchmaker.classad.operators import truth
from tests.batch.systems import SYSTEMS

pytestmark = pytest.mark.slow


def scope(name: str) -> str:
    return "policy" if name.startswith("Max") else "host"


@pytest.mark.parametrize(
    ("requirement", "policy"),
    [
        ("other.MaxCPU > 1000", "other.MaxCPU > 1000"),
        ("other.MaxCPU / 2 > other.MaxWall", "other.MaxCPU / 2 > other.MaxWall"),
        ("other.MaxCPU > 1000 && other.SI00 > 5", "other.MaxCPU > 1000"),
        ("other.SI00 > 5 ? other.MaxCPU > 1000 : other.MaxCPU > 2000", "other.MaxCPU > 1000"),
        ("other.SI00 > 5 ? other.MaxCPU > 1000 : true", "true"),
        ("other.SI00 > 5", "true"),
        ("true", "true"),
        ("other.SI00 > 5 && other.MaxCPU > 3 || other.SI00 < 2 && other.MaxCPU < 1",
         "other.MaxCPU < 1 || other.MaxCPU > 3"),
    ],
)  # fmt: skip
def test_the_policy_part_of_a_requirement(requirement: str, policy: str) -> None:
    job = parse_ad(f"[ Requirements = {requirement} ]")
    assert str(required_policy(job, scope)) == policy


names = st.sampled_from(["SI00", "Ram", "MaxCPU", "MaxWall"])
leaves = st.builds(
    lambda op, n, v: Binary(op, Attr(Attr(None, "other", False), n, False), Literal(v)),
    st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), names, st.integers(-2, 2),
)  # fmt: skip
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(Binary, st.sampled_from(["&&", "||"]), inner, inner),
        st.builds(Unary, st.just("!"), inner),
        st.builds(Ternary, inner, inner, inner),
    ),
    max_leaves=6,
)
values = st.integers(-3, 3) | st.sampled_from(["a"])
queues = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(["SI00", "Ram", "MaxCPU", "MaxWall"], values)
)


@settings(max_examples=500)
@given(requirement=trees, several=st.lists(queues.map(ClassAd), min_size=1, max_size=6))
def test_no_queue_that_satisfies_a_job_is_ruled_out(
    requirement: Expr, several: list[ClassAd]
) -> None:
    policy = required_policy(ClassAd({"Requirements": requirement}), scope)
    assert "SI00" not in str(policy)
    for queue in several:
        if truth(requirement.eval(target=queue)) is True:
            limits = ClassAd({n: e for n, e in queue.items() if n.startswith("Max")})
            assert truth(policy.eval(target=limits)) is True, str(policy)


inside = st.fixed_dictionaries(
    {}, optional={name: st.integers(0, 2) for name in ("SI00", "MaxCPU", "Own")}
)
nested = st.sampled_from(
    [
        *("other.MaxAd.SI00 == 1", "other.MaxAd.Own == 1", "other.MaxAd.MaxAd.SI00 == 1"),
        *("other.MaxAds[0].SI00 == 1", 'other.MaxAd["SI00"] == 1', "other.Host.MaxCPU == 1"),
        *("other.MaxAd.SI00 + other.MaxCPU == 2", "other.MaxAds[other.SI00].SI00 == 1"),
    ]
).map(parse_expr)
conditions = st.recursive(
    nested | leaves,
    lambda inner: st.builds(Binary, st.sampled_from(["&&", "||"]), inner, inner),
    max_leaves=3,
)


@settings(max_examples=300)
@given(
    requirement=conditions,
    limits=inside,
    host=inside,
    ad=inside,
    ads=st.lists(inside, max_size=2),
)
def test_no_queue_is_ruled_out_for_what_its_ads_lack(
    requirement: Expr,
    limits: dict[str, int],
    host: dict[str, int],
    ad: dict[str, int],
    ads: list[dict[str, int]],
) -> None:
    job = ClassAd({"Requirements": requirement})
    policy = required_policy(job, scope)
    known = {"MaxCPU": limits.get("MaxCPU", 0), "MaxAd": {**ad, "MaxAd": {}}, "MaxAds": ads}
    whole = ClassAd({**known, "SI00": host.get("SI00", 1), "Host": host})
    if truth(requirement.eval(my=job, target=whole)) is True:
        assert truth(policy.eval(my=job, target=ClassAd(known))) is True, str(policy)


@pytest.mark.parametrize(
    ("requirement", "value"),
    [
        ('other.MaxP =?= "Zed" || other.Out', "2.5"),
        ('other.MaxP is "Zed" || other.Out && other.MaxQ > 5', "2.5"),
        ("other.MaxP is 5 || other.Out", '"x"'),
    ],
)
def test_a_fact_of_another_type_rules_no_queue_out(requirement: str, value: str) -> None:
    wanted = parse_expr(requirement)
    queue = parse_ad(f"[ Out = true; MaxQ = 9; MaxP = {value} ]")
    job = ClassAd({"Requirements": wanted})
    policy = required_policy(job, scope)
    assert truth(wanted.eval(target=queue)) is True
    assert truth(policy.eval(target=queue)) is True, str(policy)


@given(text=st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40))
def test_a_policy_travels_unharmed(text: str) -> None:
    policy = Binary("==", Attr(Attr(None, "other", False), "MaxX", False), Literal(text))
    word = encoded(policy)
    assert word.replace("classad1:", "").replace("-", "").replace("_", "").isalnum()
    assert decoded(f"  Comment={word[:20]}\n\t{word[20:]} Next=1") is policy


@given(requirement=trees, at=st.floats(0, 1, exclude_max=True))
def test_a_word_that_is_cut_is_no_policy(requirement: Expr, at: float) -> None:
    word = encoded(requirement)
    cut = word[: max(len("classad1:x"), int(len(word) * at))]
    with pytest.raises(ValueError, match="is no expression"):
        decoded(f"Comment={cut}\n    {word[len(cut) :]}")


def test_what_is_no_policy_is_none_or_an_error() -> None:
    assert decoded("Comment=hello") is None
    with pytest.raises(ValueError, match="is no expression"):
        decoded("classad1:" + "_" * 5)


CARRIED = {lrms: known.carried for lrms, known in SYSTEMS.items() if known.carried}
"""The directive that carries a policy."""


@pytest.mark.parametrize("lrms", CARRIED)
def test_where_each_system_carries_it(lrms: str) -> None:
    policy = parse_expr("other.MaxCPU > 1000")
    table = batch.load_mapping(lrms)
    made = batch.flags(reduce(ClassAd(), ClassAd(), glue.scope), lrms)
    told = carry(made, policy, table)
    wanted = CARRIED[lrms].replace("{word}", encoded(policy))
    assert told.directives == (table.directive.replace("{flag}", wanted),)
    assert " ".join(told.argv[len(table.submit) - 1 :]).removeprefix("-append ") == wanted
    assert decoded(" ".join(told.directives)) is policy


def test_blah_does_not_carry_it() -> None:
    policy = parse_expr("other.MaxCPU > 1000")
    made = batch.flags(reduce(ClassAd(), ClassAd(), glue.scope), "blah")
    with pytest.raises(NoFlagsError, match="no place"):
        carry(made, policy, batch.load_mapping("blah"))
    assert carry(made, parse_expr("true"), batch.load_mapping("blah")) is made


def test_a_policy_that_is_too_long_is_refused() -> None:
    with pytest.raises(NoFlagsError, match="takes 6681 characters, and there is room for 3000"):
        encoded(Literal("x" * 5000))


# --- queued jobs: each system's command, played by a script ---------------------------------------

POLICY = parse_expr("other.MaxCPU > 1000 && other.MaxWall >= 2000 && other.MaxTotal < 100000000")


def test_a_policy_that_no_text_stands_for_is_not_carried() -> None:
    with pytest.raises(NoFlagsError, match="cannot be carried as text"):
        encoded(Binary("==", Attr(None, "MaxCPU", False), Literal("\0")))


WORD = encoded(POLICY)


ANSWERS = [
    (lrms, command, answer) for lrms, known in SYSTEMS.items() for command, answer in known.answers
]


@pytest.mark.parametrize(("lrms", "command", "answer"), ANSWERS)
def test_a_policy_is_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lrms: str, command: str, answer: str
) -> None:
    for name, part in (("word", WORD), ("start", WORD[:9]), ("rest", WORD[9:])):
        answer = answer.replace(f"{{{name}}}", part)
    (tmp_path / "answer").write_text(answer)
    program = tmp_path / command
    answer_of_7 = f'case "$*" in *7*) cat {tmp_path}/answer; exit;; esac'
    program.write_text(f"#!/bin/sh\n{answer_of_7}\necho no such job >&2; exit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert of_queued(lrms, "7") is POLICY
    with pytest.raises(NoPolicyError, match=f"{command} shows no job 8: no such job"):
        of_queued(lrms, "8")
    (tmp_path / "answer").write_text("nothing of ours\n")
    with pytest.raises(NoPolicyError, match="job 7 carries no policy; classad flags --forward"):
        of_queued(lrms, "7")


def test_a_command_that_says_too_much_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "qstat"
    program.write_text("#!/bin/sh\nexec yes\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(ValueError, match="qstat: too much output: more than 4 MiB"):
        of_queued("sge", "7")


@pytest.mark.parametrize("job", ["", "-x", "7; id", "7 8", "7\n", "$(id)"])
def test_a_job_of_a_strange_name_is_not_asked_for(job: str) -> None:
    with pytest.raises(ValueError, match="not the name of a job"):
        of_queued("slurm", job)


@pytest.mark.parametrize("lrms", ["slurm", "pbspro", "lsf", "sge"])
def test_the_name_that_an_owner_gives_a_job_is_not_its_own(lrms: str) -> None:
    with pytest.raises(ValueError, match="not the name of a job"):
        of_queued(lrms, "simulation")


@pytest.mark.parametrize("job", ["ada", "7.x", "7.0.1", "-7"])
def test_to_condor_q_a_word_is_an_owner_and_no_job(job: str) -> None:
    with pytest.raises(ValueError, match="not the name of a job"):
        of_queued("htcondor", job)

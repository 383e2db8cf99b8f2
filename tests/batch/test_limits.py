"""Numbers, names and words that a batch system would take for something else, and are refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchmaker import ClassAd, Reduction, batch, parse_ad, parse_ads, parse_expr, reduce
from matchmaker.batch import MappingError, NoFlagsError, Resources, load_mapping
from matchmaker.batch.flags.render import directive
from matchmaker.batch.policy import carry
from tests.batch.systems import SYSTEMS
from tests.reduction.test_limits import calls

pytestmark = pytest.mark.slow

FLAGS = [lrms for lrms in batch.known_lrms() if load_mapping(lrms).style == "flags"]
SCRIPTED = [lrms for lrms in FLAGS if load_mapping(lrms).directive != "{flag}"]
ASKED = ("memory", "cpus", "disk", "gpus", "wall")


def reduction(requirement: str = "true", job: str = "[]") -> Reduction:
    ad = parse_ad(job)
    ad["Requirements"] = parse_expr(requirement)
    return reduce(ad, ClassAd(), lambda name: "host")


def site(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "site.toml"
    path.write_text(text)
    return path


# --- numbers --------------------------------------------------------------------------------------

LARGEST = {
    (lrms, name): known
    for lrms, expected in SYSTEMS.items()
    for name, known in expected.largest.items()
}


def test_every_table_says_the_largest_of_each_request() -> None:
    said = {
        (lrms, request.name)
        for lrms in batch.known_lrms()
        for request in load_mapping(lrms).requests.values()
        if request.kind == "number"
    }
    assert set(LARGEST) == said


@pytest.mark.parametrize(("lrms", "name"), LARGEST)
def test_the_largest_is_asked_for_and_more_is_refused(lrms: str, name: str) -> None:
    largest, words = LARGEST[lrms, name]
    made = batch.flags(reduction(), lrms, resources=Resources(**{name: largest}))
    assert " ".join(made.argv) == words
    for more in (largest + 1, 2**32 + 1 + largest, 2**63 - 1):
        with pytest.raises(NoFlagsError, match=f"{lrms} cannot be asked for [0-9]+ as in"):
            batch.flags(reduction(), lrms, resources=Resources(**{name: more}))


@pytest.mark.parametrize("lrms", batch.known_lrms())
@pytest.mark.parametrize("name", ASKED)
def test_nothing_is_ever_asked_for_as_zero(lrms: str, name: str) -> None:
    # Memory 0 is all of the node in Slurm, a time of 0 has no end in Slurm and LSF.
    made = batch.flags(reduction(), lrms, resources=Resources(**{name: 0}))
    assert made.directives == ()
    attribute = {"memory": "RequestMemory", "cpus": "RequestCpus", "disk": "RequestDisk",
                 "gpus": "RequestGPUs", "wall": "MaxWallTime"}[name]  # fmt: skip
    for little, written in (("0", False), ("0.0", False), ("1e-9", True), ("0.001", True)):
        found = batch.flags(reduction(job=f"[ {attribute} = {little} ]"), lrms)
        assert not re.search(r"[=: ]0(\D|$)", " ".join(found.argv))
        assert bool(found.directives) == (written and name in load_mapping(lrms).requests)


@pytest.mark.parametrize("lrms", [lrms for lrms in SYSTEMS if SYSTEMS[lrms].gigabytes])
def test_conditions_that_round_to_zero_ask_for_nothing(tmp_path: Path, lrms: str) -> None:
    words = SYSTEMS[lrms].gigabytes
    # The table of the system may ask for memory in the same way.
    table = f'[attributes.Ram]\nkind = "min"\nunit = 1024\n{words}\n'.replace('"maxmem', '"own')
    if words.startswith("flag"):
        table += '[attributes.GlueHostMainMemoryRAMSize]\nkind = "shell"\n[requests]\n'
    made = batch.flags(reduction("other.Ram >= 1000"), lrms, site(tmp_path, table))
    assert (made.argv, str(made.verdict)) == ((), "necessary")


@given(
    amount=st.integers(1, 10**8),
    name=st.sampled_from(ASKED),
    lrms=st.sampled_from([*FLAGS, "htcondor"]),
)
def test_what_is_written_is_as_much_as_asked_for_and_not_a_unit_more(
    amount: int, name: str, lrms: str
) -> None:
    request = load_mapping(lrms).requests.get(name)
    if request is None or amount > request.most * request.unit:
        return
    made = batch.flags(reduction(), lrms, resources=Resources(**{name: amount}))
    text = re.sub("select=1:|nodes=1:|hosts=1|nslots=1", "", " ".join(made.argv))
    number = int(re.findall(r"[0-9]+", text)[-1])
    assert number * request.unit >= amount
    assert (number - 1) * request.unit < amount


@pytest.mark.parametrize(
    "job",
    ["RequestCpus = 1e12", "RequestCpus = 1000000000000", "RequestMemory = 9007199254740993",
     "MaxWallTime = 71582789"],
)  # fmt: skip
@pytest.mark.parametrize("lrms", ["slurm", "lsf", "pbspro", "torque"])
def test_a_job_that_asks_for_too_much_is_refused(lrms: str, job: str) -> None:
    with pytest.raises(NoFlagsError, match="of the job comes to; the most is"):
        batch.flags(reduction(job=f"[ {job} ]"), lrms)


@pytest.mark.parametrize("value", [-1, True, 1.5, "3", 2**63])
def test_resources_are_whole_numbers(value: object) -> None:
    with pytest.raises(ValueError, match="memory must be a whole number, 0 or more"):
        Resources(memory=value)  # type: ignore[arg-type]


def test_a_site_that_changes_the_unit_keeps_the_largest_amount(tmp_path: Path) -> None:
    text = '[requests]\nwall = { flag = "--time=0-{value}", unit = 3600 }\n'
    table = load_mapping("slurm", site(tmp_path, text))
    assert table.requests["wall"].most == 35_000_000 // 60
    text = '[requests]\ncpus = { term = "slots={value}" }\n'
    text += 'wall = { term = "h_rt={value}", most = 9 }\n'
    table = load_mapping("sge", site(tmp_path, text))
    assert (table.requests["cpus"].most, table.requests["wall"].most) == (2_000_000_000, 9)


@pytest.mark.parametrize(
    ("unit", "bound", "flag", "loss"),
    [
        ("0.1", "100", "--x=1000", ""),
        ("0.3", "100", "--x=333", "X is rounded to 99.9"),
        ("0.333333333333333333", "7", "--x=21", "X is rounded to 7"),
        ("1e-12", "1", "--x=1000000000000", ""),
    ],
)
def test_units_are_the_decimals_that_are_written(
    tmp_path: Path, unit: str, bound: str, flag: str, loss: str
) -> None:
    path = site(tmp_path, f'[attributes.X]\nkind = "min"\nflag = "--x={{value}}"\nunit = {unit}\n')
    made = batch.flags(reduction(f"other.X >= {bound}"), "slurm", path)
    assert made.argv == (flag,)
    assert "".join(each.reason for each in made.dropped) == loss


@pytest.mark.parametrize("unit", ["0", "-1", "nan", "inf", "1e-13", "1e300", "true", '"1"'])
def test_a_unit_that_is_none_is_an_error(tmp_path: Path, unit: str) -> None:
    text = f'[attributes.X]\nkind = "min"\nflag = "--x={{value}}"\nunit = {unit}\n'
    with pytest.raises(MappingError, match="unit: expected a number above 0"):
        load_mapping("slurm", site(tmp_path, text))


def test_a_part_of_the_table_of_terms_leaves_the_rest_as_it_is(tmp_path: Path) -> None:
    before = load_mapping("lsf").terms
    after = load_mapping("lsf", site(tmp_path, "[terms]\nnested = false\n")).terms
    assert (after.and_, after.or_, after.not_, after.nested) == (
        before.and_, before.or_, before.not_, False,
    )  # fmt: skip


# --- names of hosts -------------------------------------------------------------------------------

HOSTILE = ["wn1+2", "a@b", "q@wn1", "!", "~wn1", "wn1 wn2", "wn1,wn2", "wn[1-3]", "wn*", "wn?",
           "a|b", "a&b", "@hosts", "-wn1", "", "wn1:ppn=2", "(wn1)", "a/b", "a=b", "wn1\n", ".",
           "é", "_", "wn1;id", "$(id)", "'wn1'"]  # fmt: skip
MEANING = {"lsf": ["all", "others", "OTHERS", "allremote"], "slurm": ["ALL", "all", "DEFAULT"]}
NAMING = ["slurm", "lsf", "sge"]


def named(lrms: str, name: str) -> list[ClassAd]:
    """Two nodes, of which the first must be named: LSF is told whom to use, others whom not."""
    return [ClassAd({"Name": name, "X": 9 if lrms == "lsf" else 1}),
            ClassAd({"Name": "n2", "X": 1 if lrms == "lsf" else 9})]  # fmt: skip


@pytest.mark.parametrize(
    ("lrms", "name"), [(lrms, n) for lrms in NAMING for n in (*HOSTILE, *MEANING.get(lrms, []))]
)
def test_hosts_are_named_by_plain_names_alone(lrms: str, name: str) -> None:
    with pytest.raises(ValueError, match="needs a plain name"):
        batch.flags(reduction("other.X > 5"), lrms, inventory=named(lrms, name))


@pytest.mark.parametrize("lrms", NAMING)
@pytest.mark.parametrize("name", ["wn1", "WN1.grid-a.org", "a_b", "7", "7up"])
def test_plain_names_are_taken_as_they_are(lrms: str, name: str) -> None:
    argv = batch.flags(reduction("other.X > 5"), lrms, inventory=named(lrms, name)).argv
    spelled = name.partition(".")[0] if "." in name else f"{name}.*"
    assert argv == {"slurm": (f"--exclude={name}",), "lsf": ("-m", name),
                    "sge": ("-l", f"hostname=!({name}|{spelled})")}[lrms]  # fmt: skip


@pytest.mark.parametrize("lrms", NAMING)
def test_names_that_differ_in_case_alone_are_of_one_host(lrms: str) -> None:
    nodes = list(parse_ads('[ Name = "WN1"; X = 1 ] [ Name = "wn1"; X = 9 ]'))
    with pytest.raises(ValueError, match="two nodes of the inventory are named"):
        batch.flags(reduction("other.X > 5"), lrms, inventory=nodes)


def test_hosts_of_two_domains_are_told_apart_by_them() -> None:
    def argv(one: str, other: str) -> tuple[str, ...]:
        nodes = [ClassAd({"Name": one, "X": 1}), ClassAd({"Name": other, "X": 9})]
        return batch.flags(reduction("other.X > 5"), "sge", inventory=nodes).argv

    assert argv("wn1.a", "wn1.b") == ("-l", "hostname=!(wn1.a)")
    for one, other in (("wn1", "wn1.a"), ("wn1.a", "wn1")):
        with pytest.raises(ValueError, match="may be one; only one will do"):
            argv(one, other)


# --- names of features ----------------------------------------------------------------------------

# What a system would act on where a feature stands.
MEANINGFUL = {
    "slurm": ["a&b", "a|b", "a*2", "[a", "(a)", "a,b", "a b", "!a"],
    "pbspro": ["a:b", "a+b", "a@b", "a=b", "a,b"],
    "torque": ["a:b", "a+b", "a@b", "a=b", "a,b"],
    "lsf": ["a-b", "a.b", "a+b", "a:b", "a@b", "any", "mem", "Type", "a=b", "a>b"],
    "sge": ["NONE", "none", "a*", "a?", "a|b", "!a", "a&b", "a,b", "a=b"],
}


@pytest.mark.parametrize(
    ("lrms", "name"), [(lrms, name) for lrms, names in MEANINGFUL.items() for name in names]
)
@pytest.mark.parametrize("kind", ["eq", "bucket", "bool", "member"])
def test_a_name_that_means_something_else_is_no_feature(
    tmp_path: Path, lrms: str, name: str, kind: str
) -> None:
    key = "buckets" if kind == "bucket" else "features"
    value = f'"{name}" = 5' if kind == "bucket" else f'true = "{name}"'
    with pytest.raises(MappingError, match=r"site.toml: \[attributes.X\]"):
        load_mapping(
            lrms, site(tmp_path, f'[attributes.X]\nkind = "{kind}"\n{key} = {{ {value} }}\n')
        )


# --- words of a site's own code in job scripts ----------------------------------------------------


@pytest.mark.parametrize(
    "lrms", [lrms for lrms in FLAGS if load_mapping(lrms).directive != "{flag}"]
)
@pytest.mark.parametrize(
    "word", ['a"b', "a'b", "a\\b", "a#b", "$HOME", "`id`", "a\nb", "a\tb", "\x1b[2J", "\u2028"]
)
def test_what_no_job_script_can_carry_is_refused(lrms: str, word: str) -> None:
    with pytest.raises(MappingError, match=f"no line of a job script of {lrms} can carry"):
        directive(("-x", word), load_mapping(lrms))


def test_blanks_are_quoted_where_the_reader_knows_quotes() -> None:
    for lrms in FLAGS:
        if load_mapping(lrms).quotes:
            assert directive(("--x=a b",), load_mapping(lrms)).endswith(' "--x=a b"')
        else:
            with pytest.raises(MappingError, match="can carry"):
                directive(("--x=a b",), load_mapping(lrms))


def test_slurm_has_room_for_a_short_policy_only() -> None:
    made = batch.flags(reduction(), "slurm")
    short = parse_expr(f'other.GlueCEPolicyX == "{"x" * 700}"')
    assert len(carry(made, short, load_mapping("slurm")).argv[0]) <= 1024 + len("--comment=")
    with pytest.raises(NoFlagsError, match="there is room for 1024"):
        carry(made, parse_expr(f'other.GlueCEPolicyX == "{"x" * 760}"'), load_mapping("slurm"))


# --- many clauses ---------------------------------------------------------------------------------


@pytest.mark.parametrize("lrms", ["slurm", "lsf", "htcondor", "blah"])
@pytest.mark.parametrize(
    "clause", ["other.A{0} > {0}", "other.A != {0}", "(other.A{0} || other.B)"]
)
def test_flags_for_twice_the_clauses_take_twice_the_work(clause: str, lrms: str) -> None:
    def work(count: int, first: int) -> int:
        wanted = " && ".join(clause.format(n) for n in range(first, first + count))
        made = reduction(wanted)
        return calls(lambda: batch.flags(made, lrms))

    assert work(400, 1000) < 3 * work(200, 2000)


def test_no_word_is_longer_than_a_command_can_be_given() -> None:
    cpus, ram = "other.GlueHostArchitectureSMPSize", "other.GlueHostMainMemoryRAMSize"
    several = [f"({ram} > {n} || {cpus} > {5000 - n})" for n in range(5000)]
    made = batch.flags(reduction(" && ".join([*several, f"{ram} > 9"])), "lsf")
    assert max(map(len, made.argv)) < 1 << 17
    assert made.verdict is batch.Fit.NECESSARY
    assert made.dropped[-1].reason == "its alternatives are too many to write"

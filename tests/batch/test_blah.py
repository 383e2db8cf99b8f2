"""BLAH both ways: what it reads of ours, and what we read of its variables, through bash."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchmaker import ClassAd, Expr, batch, parse_ad, parse_expr, reduce
from matchmaker._limits import BATCH_LIMITS as LIMITS
from matchmaker.batch import NoHostError
from matchmaker.batch.blah import (
    BlahDemands,
    Value,
    ce_requirements,
    demands,
    read_variables,
    submit_text,
)
from matchmaker.batch.flags.choose import Dropped
from matchmaker.batch.site_code import Constraint
from matchmaker.batch.site_code import variables as environment
from matchmaker.classad.nodes import Attr, Binary, Call, Literal, Unary
from matchmaker.classad.operators import truth
from matchmaker.classad.walks import conjuncts, disjuncts

pytestmark = pytest.mark.slow

# --- BLAH's unwinding: each recognised leaf is a line, whatever stands around it ------------------


def unwound(condition: Expr) -> list[str]:
    """The lines that BLAH makes of a condition; the structure is lost, as there."""
    if isinstance(condition, Unary):
        return unwound(condition.operand)
    if isinstance(condition, Binary) and condition.operator in ("&&", "||"):
        parts = conjuncts(condition) if condition.operator == "&&" else disjuncts(condition)
        return [line for part in parts for line in unwound(part)]
    if isinstance(condition, Binary):
        suffix = {">": "_Min", ">=": "_Min", "<": "_Max", "<=": "_Max", "==": "", "is": ""}
        value = condition.right.value if isinstance(condition.right, Literal) else None
        if not isinstance(condition.left, Attr) or condition.operator not in suffix:
            return []
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            return []
        text = f'"{value}"' if isinstance(value, str) else str(value)
        return [f"{condition.left.name}{suffix[condition.operator]}='{text}'"]
    if isinstance(condition, Call) and condition.function.lower() == "member":
        wanted, among = condition.arguments
        assert isinstance(wanted, Literal)
        assert isinstance(among, Attr)
        return [f"{among.name}[?]='\"{wanted.value}\"'"]
    return []


def lines_of(condition: Expr) -> list[str]:
    """The lines, with the places in arrays counted."""
    counts: dict[str, int] = {}
    lines = []
    for line in unwound(condition):
        name = line.partition("[?]")[0]
        if "[?]" in line:
            counts[name] = counts.get(name, -1) + 1
            line = line.replace("[?]", f"[{counts[name]}]")  # noqa: PLW2901
        lines.append(line)
    return lines


@pytest.mark.parametrize(
    ("requirement", "blah", "ours"),
    [
        # Strictness is lost: of whole numbers it need not be.
        ("other.A > 5", ["A_Min='5'"], ["A_Min='6'"]),
        ("5 < other.A", ["A_Min='5'"], ["A_Min='6'"]),
        ("other.A >= 5", ["A_Min='5'"], ["A_Min='5'"]),
        ("other.A < 5", ["A_Max='5'"], ["A_Max='4'"]),
        ("other.A <= 5", ["A_Max='5'"], ["A_Max='5'"]),
        ("other.A == 5", ["A='5'"], ["A='5'"]),
        ('other.Os == "CentOS"', ["Os='\"CentOS\"'"], ["Os='\"CentOS\"'"]),
        ('Member("X", other.L) && Member("Y", other.L)',
         ["L[0]='\"X\"'", "L[1]='\"Y\"'"], ["L[0]='\"X\"'", "L[1]='\"Y\"'"]),
        # Inverted, over-constrained, overwritten: what BLAH makes of more than its leaves.
        ("!(other.M >= 1024)", ["M_Min='1024'"], ["M_Max='1023'"]),
        ("other.M >= 1024 || other.P", ["M_Min='1024'"], []),
        ("other.M >= 2048 && other.M >= 1024", ["M_Min='2048'", "M_Min='1024'"], ["M_Min='2048'"]),
        ("other.A >= 5.5", [], ["A_Min='6'"]),
        ("other.A != 5", [], []),
        ("other.A + 1 > 5", [], []),
        ("other.A", [], []),
        # A host without the attribute will do, or one whose value is no number.
        ("other.A >= 5 || isUndefined(other.A)", ["A_Min='5'"], []),
        ("isString(other.A) || other.A <= 5", ["A_Max='5'"], []),
        ("!(other.A >= 5 && isList(other.A)) && other.A isnt undefined", ["A_Min='5'"], []),
    ],
)  # fmt: skip
def test_every_wrong_line_of_blah_is_right_or_not_carried(
    requirement: str, blah: list[str], ours: list[str]
) -> None:
    found = ce_requirements(parse_expr(requirement))
    assert lines_of(found.requirements) == ours
    assert bool(found.dropped) == (not ours)
    # The table that this is held against is BLAH's.
    mirrored = requirement.replace("5 < other.A", "other.A > 5")
    assert lines_of(parse_expr(mirrored)) == blah


def test_the_talks_ternary_leaves_what_the_queue_does_not_settle() -> None:
    wanted = "other.SI00 > 500 ? other.MaxCPUTime > 1000 : other.MaxCPUTime > 2000"
    job = parse_ad(f"[ Requirements = {wanted} ]")
    made = reduce(job, parse_ad("[ MaxCPUTime = 1500 ]"), lambda n: "host" if n == "SI00" else "")
    submission = batch.flags(made, "blah")
    assert submission.directives == ('CERequirements = "other.SI00 >= 501"',)
    assert submission.verdict == "exact"


def test_contradictory_bounds_are_of_no_host() -> None:
    with pytest.raises(NoHostError):
        ce_requirements(parse_expr("other.A > 5 && other.A < 3"))
    with pytest.raises(NoHostError):
        ce_requirements(parse_expr("!(other.A < 0) && !(other.A > -1)"))


@pytest.mark.parametrize(
    "condition",
    [
        Binary(">=", Attr(Attr(None, "other", False), "A; touch /tmp/x", False), Literal(5)),
        Binary(">=", Attr(Attr(None, "other", False), "A\n", False), Literal(5)),
        Binary("==", Attr(Attr(None, "other", False), "A", False), Literal("$(id)")),
        Binary("==", Attr(Attr(None, "other", False), "A", False), Literal("a'; id; '")),
        Binary("==", Attr(Attr(None, "other", False), "A", False), Literal("--wrap=id")),
        Binary("==", Attr(Attr(None, "other", False), "A", False), Literal("a\nb")),
        Binary("==", Attr(Attr(None, "other", False), "A", False), Literal('a"b')),
        Call("member", (Literal("`id`"), Attr(Attr(None, "other", False), "A", False))),
        Call("member", (Literal(""), Attr(Attr(None, "other", False), "A", False))),
    ],
)
def test_hostile_names_and_texts_are_not_carried(condition: Expr) -> None:
    found = ce_requirements(condition)
    assert lines_of(found.requirements) == []
    assert len(found.dropped) == 1


@pytest.mark.parametrize(
    "requirement",
    [
        "other.A >= 5 && other.A_Min == 3",
        "other.A <= 5 && other.A_Max >= 7",
        "other.UID == 0",
        'other.PATH == "/tmp"',
        "other.RANDOM == 3 && other.A == 1",
        'member("x", other.BASH_ENV)',
        "other.bls_opt_queue == 1",
    ],
)
def test_a_name_that_means_something_else_as_a_variable_is_not_carried(requirement: str) -> None:
    condition = parse_expr(requirement)
    found = ce_requirements(condition)
    assert found.dropped == (Dropped(conjuncts(condition)[-1 if "A_" in requirement else 0],
                                     found.dropped[0].reason),)  # fmt: skip
    assert "stand for something else" in found.dropped[0].reason


def test_a_variable_of_two_attributes_is_foreign() -> None:
    found = demands({"A_Min": "5"}, ["A", "A_Min"])
    assert (found.foreign, found.condition) == (("A_Min",), parse_expr("true"))


def test_a_program_gets_no_variable_of_two_attributes() -> None:
    listed = Constraint("A", has=("x",))
    with pytest.raises(ValueError, match="A_0"):
        environment([listed, Constraint("A_0", least=1, greatest=1)])
    with pytest.raises(ValueError, match="A_Min"):
        environment([Constraint("A_Min", least=1)])


# --- there and back -------------------------------------------------------------------------------

NAMES = ("A", "B", "L")
subjects = st.sampled_from(NAMES[:2]).map(lambda n: Attr(Attr(None, "other", False), n, False))
leaves = st.one_of(
    st.builds(Binary, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), subjects,
              (st.integers(-3, 3) | st.sampled_from([0.5, 2.0])).map(Literal)),
    st.sampled_from("xy").map(
        lambda t: Call("member", (Literal(t), Attr(Attr(None, "other", False), "L", False)))
    ),
)  # fmt: skip
trees = st.recursive(
    leaves,
    lambda inner: (
        st.builds(Binary, st.sampled_from(["&&", "&&", "||"]), inner, inner)
        | st.builds(Unary, st.just("!"), inner)
    ),
    max_leaves=6,
)
hosts = st.fixed_dictionaries(
    {"A": st.integers(-4, 4), "B": st.integers(-4, 4), "L": st.lists(st.sampled_from("xyz"))}
).map(ClassAd)


def variables(lines: list[str]) -> dict[str, Value | list[Value]]:
    found: dict[str, Value | list[Value]] = {}
    for line in lines:
        name, place, value = re.fullmatch(r"(\w+)(\[\d+\])?='(.*)'", line).groups()  # type: ignore[union-attr]
        if place:
            known = found.setdefault(name, [])
            assert isinstance(known, list)
            known.append(value)
        else:
            found[name] = value
    return found


@settings(max_examples=400)
@given(condition=trees, several=st.lists(hosts, min_size=1, max_size=5))
def test_what_blah_reads_is_what_was_meant(condition: Expr, several: list[ClassAd]) -> None:
    try:
        found = ce_requirements(condition)
    except NoHostError:
        assert not any(condition.eval(target=host) is True for host in several)
        return
    lines = lines_of(found.requirements)
    names = [line.partition("=")[0] for line in lines]
    assert len(set(names)) == len(names)
    assert parse_expr(str(found.requirements)) is found.requirements
    got_back = demands(variables(lines), list(NAMES))
    read = got_back.condition
    assert not got_back.foreign
    assert not got_back.requests
    for host in several:
        wanted = truth(condition.eval(target=host)) is True
        got = truth(read.eval(target=host)) is True
        assert got == wanted if not found.dropped else got >= wanted


def test_which_variables_are_bounds() -> None:
    declared = """declare -- Cpus_Min="4"
declare -- Os="\\"SL\\""
declare -a Tags=([0]="\\"A\\"" [1]="\\"B\\"")
declare -- Memory_Max="8"
declare -- Vendor="\\"x\\""
declare -- COLUMNS="80"
declare -- Empty=""
declare -- Broken=$'\\"\\n'
declare -- Foreign_Min="2"
"""
    names = ["Cpus", "Os", "Tags", "Memory", "Empty", "Broken"]
    found = demands(read_variables(declared), names)
    assert str(found.condition) == (
        'other.Cpus >= 4 && other.Os == "SL" && member("A", other.Tags) &&'
        ' member("B", other.Tags) && other.Memory <= 8'
    )
    # Bounds on other names, and values that cannot be read; a shell's own number is neither.
    assert found.foreign == ("Vendor", "Broken", "Foreign_Min")


@pytest.mark.parametrize("value", ["x", '"', "1.5", "-"])
def test_a_bound_without_a_value_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="Cpus_Min"):
        demands({"Cpus_Min": value}, ["Cpus"])


def test_endless_variables_are_refused() -> None:
    with pytest.raises(ValueError, match="characters of variables"):
        read_variables("x" * (LIMITS.variables + 1))


def test_a_condition_that_no_host_satisfies_is_refused() -> None:
    with pytest.raises(NoHostError, match="A < 2 with what else"):
        ce_requirements(parse_expr("other.A > 3 && other.A < 2"))


# --- through bash, as BLAH does it ----------------------------------------------------------------

SITE = """
[attributes.GlueHostOperatingSystemName]
kind = "eq"
features = { "SL" = "sl" }

[attributes.GlueHostApplicationSoftwareRunTimeEnvironment]
kind = "member"
features = { "APP1" = "app1", "APP2" = "app2" }
"""


def as_blah(folder: Path, lines: str, options: str = "") -> subprocess.CompletedProcess[str]:
    """Sources variables and a site's script in one bash, whose output goes to the submit file."""
    (folder / "site.toml").write_text(SITE)
    classad = folder / "classad"
    classad.write_text(f"#!{sys.executable}\nfrom matchmaker.cli import main\nmain()\n")
    classad.chmod(0o755)
    (folder / "variables").write_text(lines)
    script = folder / "slurm_local_submit_attributes.sh"
    script.write_text(
        "declare -p | ./classad blah-local-submit-attributes --lrms slurm"
        f" --mapping site.toml {options}\n"
    )
    bash = shutil.which("bash")
    assert bash is not None
    return subprocess.run(
        [bash, "-c", ". ./variables && . ./slurm_local_submit_attributes.sh"],
        cwd=folder, capture_output=True, text=True, check=False,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip


def test_a_local_script_prints_directives(tmp_path: Path) -> None:
    done = as_blah(
        tmp_path,
        "GlueHostMainMemoryRAMSize_Min='2000'\n"
        "GlueHostOperatingSystemName='\"SL\"'\n"
        "GlueHostApplicationSoftwareRunTimeEnvironment[0]='\"APP1\"'\n"
        "GlueHostApplicationSoftwareRunTimeEnvironment[1]='\"APP2\"'\n",
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "#SBATCH --mem=2000M", "#SBATCH --constraint=sl&app1&app2",
    ]  # fmt: skip
    assert done.returncode == 0


def test_what_cannot_be_carried_is_said_and_with_strict_refused(tmp_path: Path) -> None:
    lines = "GlueHostMainMemoryRAMSize_Max='2000'\nGlueHostBenchmarkSI00_Min='500'\n"
    done = as_blah(tmp_path, lines)
    assert (done.stdout, done.returncode) == ("", 0)
    assert "GlueHostMainMemoryRAMSize <= 2000" in done.stderr
    assert "GlueHostBenchmarkSI00_Min" in done.stderr
    strict = as_blah(tmp_path, lines, "--strict")
    # BLAH looks at what is printed alone: Slurm itself must say no.
    assert (strict.stdout, strict.returncode) == ("#SBATCH --refused-by-classad\n", 1)


def test_a_job_that_no_host_will_do_for_is_refused_by_what_is_printed(tmp_path: Path) -> None:
    lines = "GlueHostMainMemoryRAMSize_Min='2000'\nGlueHostOperatingSystemName='\"SL\"'\n"
    both = lines + "GlueHostMainMemoryRAMSize_Max='1000'\n"
    done = as_blah(tmp_path, both)
    assert (done.stdout, done.returncode) == ("#SBATCH --refused-by-classad\n", 1)
    no_file = as_blah(tmp_path, lines, "--mapping nosuch.toml")
    assert (no_file.stdout, no_file.returncode) == ("#SBATCH --refused-by-classad\n", 2)


@pytest.mark.parametrize(
    "lines",
    [
        "GlueHostOperatingSystemName='\"$(touch owned)\"'\n",
        "GlueHostOperatingSystemName='\"`touch owned`\"'\n",
        "GlueHostOperatingSystemName='\"SL; touch owned\"'\n",
        "GlueHostOperatingSystemName='\"SL\n#SBATCH --wrap=owned\"'\n",
        "GlueHostOperatingSystemName='\"SL\" --wrap=owned'\n",
        "GlueHostMainMemoryRAMSize_Min='5 --wrap=owned'\n",
        "GlueHostMainMemoryRAMSize_Min=$'5\\n#SBATCH --wrap=owned'\n",
        "X='declare -- GlueHostMainMemoryRAMSize_Min=\"7\"\nowned'\n",
        "GlueHostApplicationSoftwareRunTimeEnvironment[0]='\"APP1\"]=(owned)'\n",
    ],
)
def test_hostile_values_run_nothing_and_reach_no_directive(tmp_path: Path, lines: str) -> None:
    done = as_blah(tmp_path, lines)
    assert "owned" not in done.stdout
    assert not (tmp_path / "owned").exists()
    assert all(
        re.fullmatch(r"#SBATCH --(mem=\d+M|constraint=[a-z0-9&]+|refused-by-classad)", line)
        for line in done.stdout.splitlines()
    )


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        ("Unknown_List[0]='\"XX\"'\n", "Unknown_List"),
        ("Unknown='\"XX\"'\n", "Unknown"),
        ("Unknown=$'\"X\\nX\"'\n", "Unknown"),
        ("Unknown_Min=5.5\n", "Unknown_Min"),
        ("Unknown='5'\n", "Unknown"),
        ("GlueHostOperatingSystemName=$'\"a\\nb\"'\n", "GlueHostOperatingSystemName"),
        ("GlueHostOperatingSystemName=$'\"\\303\\251\"'\n", "GlueHostOperatingSystemName"),
        ("GlueHostApplicationSoftwareRunTimeEnvironment[0]=$'\"\\303\"'\n",
         "GlueHostApplicationSoftwareRunTimeEnvironment"),
    ],
)  # fmt: skip
def test_no_clause_is_lost_in_silence(tmp_path: Path, lines: str, name: str) -> None:
    done = as_blah(tmp_path, lines)
    assert (done.stdout, done.returncode) == ("", 0)
    assert f"not carried: {name}: " in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert as_blah(tmp_path, lines, "--strict").returncode == 1


def test_a_shells_own_variables_are_no_bounds(tmp_path: Path) -> None:
    done = as_blah(
        tmp_path,
        "IFS=$' \\t\\n'\nPS4=$'\\001'\nexport N=5\ndeclare -i M=5\nL=(1 2)\nOPTIND=2\n",
        "--strict",
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_a_submit_line_is_a_string_that_reads_back() -> None:
    wanted = parse_expr('other.Os == "SL" && other.A >= 5')
    line = submit_text(wanted)
    text = parse_ad(f"[ {line} ]").eval("CERequirements")
    assert isinstance(text, str)
    assert parse_expr(text) is wanted


def test_variables_that_are_no_bounds_are_an_error() -> None:
    with pytest.raises(ValueError, match="A_Min"):
        demands(read_variables('declare -- A_Min="five"'), ["A"])


def test_too_many_variables_are_an_error() -> None:
    with pytest.raises(ValueError, match="more than"):
        read_variables("x" * (5 << 20))


def test_without_variables_there_is_no_condition() -> None:
    for text in ("", "\n", "declare", "\0\xff"):
        assert read_variables(text) == {}
        assert demands(read_variables(text), ["A"]) == BlahDemands(Literal(True), ClassAd())

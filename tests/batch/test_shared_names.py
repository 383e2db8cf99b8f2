"""Names that stand for more than one thing: features of several texts, options asked for twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from matchmaker import ClassAd, batch, parse_ad, parse_expr, reduce
from matchmaker.batch import Fit, MappingError, NoFlagsError, Submission, load_mapping

EXAMPLES = Path(__file__).parents[2] / "examples" / "mappings"

FAMILIES = """
[attributes.Os]
kind = "eq"
{more}
features = {{ SL = "rhel", CentOS = "rhel", Debian = "deb" }}

[attributes.Tags]
kind = "member"
{more}
features = {{ A = "ab", B = "ab", C = "c" }}
"""


def planned(  # noqa: PLR0917
    requirement: str,
    lrms: str,
    site: str,
    folder: Path,
    want: Fit = Fit.NECESSARY,
    job: str = "[]",
) -> Submission:
    path = folder / f"{lrms}.toml"
    path.write_text(site)
    ad = parse_ad(job)
    ad["Requirements"] = parse_expr(requirement)
    reduction = reduce(ad, ClassAd(), lambda _: "host")
    return batch.flags(reduction, lrms, load_mapping(lrms, path), want=want)


# --- a feature of several texts -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requirement", "argv", "verdict"),
    [
        ('other.Os == "SL"', ["--constraint=rhel"], "necessary"),
        ('other.Os == "SL" || other.Os == "CentOS"', ["--constraint=rhel"], "exact"),
        ('other.Os == "Debian"', ["--constraint=deb"], "exact"),
        ('other.Os == "SL" || other.Os == "Debian"', ["--constraint=deb|rhel"], "necessary"),
        ('member("A", other.Tags)', ["--constraint=ab"], "necessary"),
        ('member("C", other.Tags)', ["--constraint=c"], "exact"),
    ],
)
def test_a_feature_that_other_texts_have_too_is_necessary_only(
    tmp_path: Path, requirement: str, argv: list[str], verdict: str
) -> None:
    submission = planned(requirement, "slurm", FAMILIES.format(more=""), tmp_path)
    assert list(submission.argv) == argv
    assert submission.verdict == verdict
    assert all("stands for another" in dropped.reason for dropped in submission.dropped)


def test_nor_does_it_make_sure(tmp_path: Path) -> None:
    site = FAMILIES.format(more="")
    for requirement in ('other.Os == "SL"', 'member("A", other.Tags)'):
        with pytest.raises(NoFlagsError, match="stands for another"):
            planned(requirement, "slurm", site, tmp_path, Fit.SUFFICIENT)
    either = planned('other.Os == "SL" || other.Os == "Debian"', "slurm", site, tmp_path,
                  Fit.SUFFICIENT)  # fmt: skip
    assert (either.argv, either.verdict) == (("--constraint=deb",), Fit.SUFFICIENT)


def test_negated_it_would_refuse_hosts_that_will_do(tmp_path: Path) -> None:
    site = FAMILIES.format(more="")
    for requirement in ('other.Os != "SL"', '!member("A", other.Tags)'):
        submission = planned(requirement, "lsf", site, tmp_path)
        assert (submission.argv, submission.verdict) == ((), Fit.NECESSARY)
        sure = planned(requirement, "lsf", site, tmp_path, Fit.SUFFICIENT)
        assert sure.argv in (("-R", "select[!rhel]"), ("-R", "select[!ab]"))
        assert sure.verdict is Fit.SUFFICIENT
    both = planned('other.Os != "SL" && other.Os != "CentOS"', "lsf", site, tmp_path)
    assert (both.argv, both.verdict) == (("-R", "select[!rhel]"), Fit.EXACT)


@pytest.mark.parametrize(
    ("lrms", "argv"), [("lsf", ("-R", "select[!el5]")), ("sge", ("-l", "os=!el5"))]
)
@pytest.mark.parametrize("unknown", ["6.0", "4.9"])
@pytest.mark.parametrize("order", [1, -1])
def test_every_clause_on_an_attribute_is_carried_or_checked_again(
    lrms: str, argv: tuple[str, ...], unknown: str, order: int
) -> None:
    name = "other.GlueHostOperatingSystemRelease"
    clauses = [f'{name} != "{unknown}"', f'{name} != "5.2"'][::order]
    job = parse_ad(f"[ Requirements = {' && '.join(clauses)} ]")
    submission = batch.flags(
        reduce(job, ClassAd(), lambda _: "host"), lrms, EXAMPLES / f"{lrms}-site.toml"
    )
    assert submission.argv == argv
    assert str(submission.recheck) == f'{name} != "{unknown}"'
    assert [str(dropped.clause) for dropped in submission.dropped] == [str(submission.recheck)]


def test_what_no_term_can_exclude_is_checked_again_whole() -> None:
    name = "other.GlueHostOperatingSystemRelease"
    wanted = f'{name} != "6.0" && {name} != "5.2"'
    job = parse_ad(f"[ Requirements = {wanted} ]")
    reduction = reduce(job, ClassAd(), lambda _: "host")
    submission = batch.flags(reduction, "slurm", EXAMPLES / "slurm-site.toml")
    assert (submission.argv, str(submission.recheck)) == ((), wanted)
    assert len(submission.dropped) == 2


def test_a_feature_for_both_yes_and_no_is_none(tmp_path: Path) -> None:
    site = '[attributes.Out]\nkind = "bool"\nfeatures = { true = "x", false = "x" }'
    with pytest.raises(MappingError, match="different names for true and false"):
        planned("other.Out", "slurm", site, tmp_path)


# --- one option, one resource: one value ----------------------------------------------------------

ONE_COMPLEX = """
[attributes.Tags]
kind = "member"
term = "tag={value}"
features = { A = "ta", B = "tb" }

[attributes.Os]
kind = "eq"
term = "tag={value}"
features = { SL = "sl" }
"""


@pytest.mark.parametrize(
    ("requirement", "argv"),
    [
        ('member("A", other.Tags) && member("B", other.Tags)', "tag=ta"),
        ('other.Os == "SL" && member("B", other.Tags)', "tag=sl"),
    ],
)
def test_a_second_value_does_not_undo_the_first(
    tmp_path: Path, requirement: str, argv: str
) -> None:
    for lrms, flags in (("sge", ("-l", argv)), ("pbspro", ("-l", f"select=1:{argv}"))):
        submission = planned(requirement, lrms, ONE_COMPLEX, tmp_path)
        assert (submission.argv, submission.verdict) == (flags, Fit.NECESSARY)
        assert "tag in one way only" in submission.dropped[-1].reason
        with pytest.raises(NoFlagsError, match="tag in one way only"):
            planned(requirement, lrms, ONE_COMPLEX, tmp_path, Fit.SUFFICIENT)


@pytest.mark.parametrize(
    ("lrms", "template", "argv"),
    [
        ("slurm", 'flag = "--mem={value}G"', ("--mem=100000M",)),
        ("pbspro", 'term = "mem={value}gb"', ("-l", "select=1:mem=100000mb")),
        ("torque", 'flag = ["-l", "mem={value}gb"]', ("-l", "mem=100000mb")),
        ("sge", 'term = "h_vmem={value}G"', ("-l", "h_vmem=100000M")),
    ],
)
def test_a_condition_in_another_unit_does_not_undo_the_jobs_request(
    tmp_path: Path, lrms: str, template: str, argv: tuple[str, ...]
) -> None:
    site = f'[attributes.Ram]\nkind = "min"\nunit = 1024\n{template}\n'
    if lrms != "sge":
        site = site.replace("Ram", "GlueHostMainMemoryRAMSize")
    wanted = "other.Ram >= 4096" if lrms == "sge" else "other.GlueHostMainMemoryRAMSize >= 4096"
    submission = planned(wanted, lrms, site, tmp_path, job="[ RequestMemory = 100000 ]")
    assert (submission.argv, submission.verdict) == (argv, Fit.NECESSARY)
    assert str(submission.recheck) == wanted
    assert planned(wanted, lrms, site, tmp_path).verdict is Fit.EXACT


def test_nor_does_an_exclusion_undo_a_condition(tmp_path: Path) -> None:
    path = tmp_path / "sge.toml"
    path.write_text(
        '[attributes.Place]\nkind = "eq"\nterm = "hostname={value}"\nfeatures = { here = "n1" }'
    )
    nodes = [ClassAd({"Name": name, "Place": place}) for name, place in
             (("n1", "here"), ("n2", "there"))]  # fmt: skip
    job = parse_ad('[ Requirements = other.Place == "here" ]')
    reduction = reduce(job, ClassAd(), lambda _: "host")
    submission = batch.flags(reduction, "sge", load_mapping("sge", path), nodes)
    assert submission.argv == ("-l", "hostname=!(n2|n2.*)")
    assert submission.verdict is Fit.EXACT


def test_the_share_of_a_slot_is_the_whole_where_no_slots_are_asked_for(tmp_path: Path) -> None:
    job = "[ RequestMemory = 3001; RequestCpus = 4 ]"
    assert planned("true", "sge", "", tmp_path, job=job).argv == ("-l", "h_vmem=3001M")
    site = '[requests]\ncpus = { flag = ["-pe", "smp", "{value}"] }'
    assert planned("true", "sge", site, tmp_path, job=job).argv == (
        "-pe", "smp", "4", "-l", "h_vmem=751M"
    )  # fmt: skip

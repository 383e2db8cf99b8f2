"""Names that stand for more than one thing: features of several texts, options asked for twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from matchmaker import ClassAd, batch, parse_ad, parse_expr, reduce
from matchmaker.batch import Fit, MappingError, NoFlagsError, Submission, load_mapping

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


def told(  # noqa: PLR0917
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
    submission = told(requirement, "slurm", FAMILIES.format(more=""), tmp_path)
    assert list(submission.argv) == argv
    assert submission.verdict == verdict
    assert all("stands for another" in dropped.reason for dropped in submission.dropped)


def test_nor_does_it_make_sure(tmp_path: Path) -> None:
    site = FAMILIES.format(more="")
    for requirement in ('other.Os == "SL"', 'member("A", other.Tags)'):
        with pytest.raises(NoFlagsError, match="stands for another"):
            told(requirement, "slurm", site, tmp_path, Fit.SUFFICIENT)
    either = told('other.Os == "SL" || other.Os == "Debian"', "slurm", site, tmp_path,
                  Fit.SUFFICIENT)  # fmt: skip
    assert (either.argv, either.verdict) == (("--constraint=deb",), Fit.SUFFICIENT)


def test_negated_it_would_refuse_hosts_that_will_do(tmp_path: Path) -> None:
    site = FAMILIES.format(more="")
    for requirement in ('other.Os != "SL"', '!member("A", other.Tags)'):
        submission = told(requirement, "lsf", site, tmp_path)
        assert (submission.argv, submission.verdict) == ((), Fit.NECESSARY)
        sure = told(requirement, "lsf", site, tmp_path, Fit.SUFFICIENT)
        assert sure.argv in (("-R", "select[!rhel]"), ("-R", "select[!ab]"))
        assert sure.verdict is Fit.SUFFICIENT
    both = told('other.Os != "SL" && other.Os != "CentOS"', "lsf", site, tmp_path)
    assert (both.argv, both.verdict) == (("-R", "select[!rhel]"), Fit.EXACT)


def test_a_feature_for_both_yes_and_no_is_none(tmp_path: Path) -> None:
    site = '[attributes.Out]\nkind = "bool"\nfeatures = { true = "x", false = "x" }'
    with pytest.raises(MappingError, match="cannot stand for both"):
        told("other.Out", "slurm", site, tmp_path)

"""Why a clause is dropped: each reason that a batch system cannot be asked for a condition."""

from __future__ import annotations

from pathlib import Path

import pytest

from matchmaker import ClassAd, batch, parse_ad, reduce
from matchmaker.batch import Fit, NoFlagsError

TABLE = """
[attributes.Size]
kind = "min"
flag = "--mem={value}M"
unit = 1024
rounding = "down"

[attributes.Speed]
kind = "min"
flag = "--mincpus={value}"
most = 100

[attributes.Gpu]
kind = "bool"
features = { true = "gpu" }

[attributes.Class]
kind = "bucket"
buckets = { slow = [1, 10], fast = [11, 20] }
complete = true

[attributes.System]
kind = "eq"
features = { SL = "sl", Debian = "deb" }

[attributes.Tags]
kind = "member"
features = { A = "a", B = "b" }
"""


def flags(tmp_path: Path, clause: str, want: Fit | None = None) -> batch.Submission:
    site = tmp_path / "site.toml"
    site.write_text(TABLE)
    job = parse_ad(f"[ Requirements = {clause} ]")
    reduction = reduce(job, ClassAd(), lambda _: "host")
    if want is None:
        return batch.flags(reduction, "slurm", mapping=site)
    return batch.flags(reduction, "slurm", mapping=site, want=want)


@pytest.mark.parametrize(
    ("clause", "reason"),
    [
        ("other.Size <= 2048", "a minimum of Size"),
        ("other.Speed >= 101", "cannot be asked for 101"),
        ('other.Color == "red"', "no flag for Color"),
        ('member("A", other.Color)', "Color"),
        ('member("C", other.Tags)', "no feature for Tags"),
        ('other.System == "Arch"', "no feature for System"),
        ("other.Class is undefined", "Class"),
        ("other.Class > 30", "no host with values"),
    ],
)  # fmt: skip
def test_a_clause_is_dropped_with_its_reason(tmp_path: Path, clause: str, reason: str) -> None:
    made = flags(tmp_path, clause)
    assert made.argv == ()
    [dropped] = made.dropped
    assert reason in dropped.reason


@pytest.mark.parametrize(
    ("clause", "argv"),
    [
        ("other.Gpu", ("--constraint=gpu",)),
        ("other.Class >= 11 && other.Class <= 20", ("--constraint=fast",)),
        ("other.Class >= 5", ("--constraint=slow|fast",)),
        ('other.System == "SL" || other.System == "Debian"', ("--constraint=deb|sl",)),
        ('member("A", other.Tags) && member("B", other.Tags)', ("--constraint=a&b",)),
        ("other.Size >= 2048", ("--mem=2M",)),
        ("other.Size >= 2500", ("--mem=2M",)),
        ("other.Speed >= 100", ("--mincpus=100",)),
    ],
)
def test_a_clause_is_asked_for(tmp_path: Path, clause: str, argv: tuple[str, ...]) -> None:
    assert flags(tmp_path, clause).argv == argv


@pytest.mark.parametrize(
    "clause", ["other.Size >= 2500", "other.Class is undefined", "other.Class > 15"]
)
def test_what_is_not_sure_is_refused(tmp_path: Path, clause: str) -> None:
    with pytest.raises(NoFlagsError):
        flags(tmp_path, clause, Fit.SUFFICIENT)


@pytest.mark.parametrize(
    ("last", "more", "argv", "verdict"),
    [
        ("[11, 20]", "", (), "necessary"),
        ("[11, inf]", "", ("--constraint=fast",), "exact"),
        ("[11, 20]", "complete = true", ("--constraint=fast",), "exact"),
        ("[12, inf]", "", (), "necessary"),
    ],
)
def test_a_bucket_that_ends_loses_what_is_beyond(
    tmp_path: Path, last: str, more: str, argv: tuple[str, ...], verdict: str
) -> None:
    """A host of 25 satisfies the clause, and has no feature where the last bucket ends at 20."""
    site = tmp_path / "site.toml"
    site.write_text(
        f'[attributes.Class]\nkind = "bucket"\n{more}\n'
        f"buckets = {{ slow = [1, 10], fast = {last} }}"
    )
    job = parse_ad("[ Requirements = other.Class >= 11 ]")
    made = batch.flags(reduce(job, ClassAd(), lambda _: "host"), "slurm", mapping=site)
    assert (made.argv, str(made.verdict)) == (argv, verdict)
    assert all("no bucket of Class stands for" in each.reason for each in made.dropped)
    # What helps is an open end, or a bucket over the gap.
    helps = "the last one end with inf" if "20" in last else "let one include it"
    assert all(helps in each.reason for each in made.dropped)

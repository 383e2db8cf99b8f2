"""Directives of job scripts against the flags."""

from __future__ import annotations

import pytest

from matchmaker import parse_ad, reduce
from matchmaker.batch import flags, load_mapping
from matchmaker.batch.flags.submission import contradictions

JOB = "[ RequestMemory = 2000; MaxWallTime = 90 ]"


@pytest.mark.parametrize(
    ("lrms", "directive", "found"),
    [
        ("slurm", "#SBATCH --partition=short",
         ["line 2 has --partition=short, and the flags --partition=long"]),
        ("slurm", "#SBATCH -p short", ["line 2 has -p short, and the flags --partition=long"]),
        ("slurm", "#SBATCH -pshort", ["line 2 has -pshort, and the flags --partition=long"]),
        ("slurm", "#SBATCH --partition short # quick",
         ["line 2 has --partition short, and the flags --partition=long"]),
        ("slurm", "#SBATCH --mem=5G -p long", ["line 2 has --mem=5G, and the flags --mem=2000M"]),
        ("slurm", "#SBATCH --partition=long --job-name=x", []),
        ("slurm", "# SBATCH -p short", []),
        ("slurm", "#SBATCH --job-name='x", []),
        ("pbspro", "#PBS -q short", ["line 2 has -q short, and the flags -q long"]),
        ("pbspro", "#PBS -l walltime=60,cput=5",
         ["line 2 has -l walltime=60, and the flags -l walltime=5400"]),
        ("sge", "#$ -l h_rt=5400", []),
        ("sge", "#$ -l h_rt=60 -q long", ["line 2 has -l h_rt=60, and the flags -l h_rt=5400"]),
        ("lsf", "#BSUB -q short -R select[x]",
         ["line 2 has -q short, and the flags -q long"]),
    ],
)  # fmt: skip
def test_a_script_that_contradicts_its_flags(lrms: str, directive: str, found: list[str]) -> None:
    anywhere = reduce(parse_ad(JOB), parse_ad("[]"), lambda name: "host")
    made = flags(anywhere, lrms, queue="long")
    script = f"#!/bin/sh\n{directive}\nsleep 1\n"
    assert contradictions(script, made, load_mapping(lrms)) == found

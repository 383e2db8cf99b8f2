"""Every subcommand has ``--json``, and a schema that its output keeps to.

The fixtures that run the command hold whatever a test prints with ``--json`` to its schema. Here
are the subcommands that no other test runs so.
"""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest

from tests.cli.conftest import EXAMPLES, Run
from tests.cli.outputs import check_output, schema, subcommands


def test_every_subcommand_has_json_and_a_schema() -> None:
    names = dict(subcommands())
    without = [
        name for name, command in names.items()
        if not any("--json" in one.opts for one in command.params)
    ]  # fmt: skip
    assert without == []
    assert names.keys() <= schema()["$defs"].keys()


def test_a_schema_refuses_what_it_does_not_name() -> None:
    with pytest.raises(jsonschema.ValidationError):
        check_output(["policy", "--json"], 0, '{"lrms": "slurm", "job": "1", "polcy": "true"}')
    with pytest.raises(jsonschema.ValidationError):
        check_output(["policy", "--json"], 0, '{"lrms": "slurm"}')


JOB, SITE = EXAMPLES / "job.jdl", EXAMPLES / "site.ldif"
AT = ("--at", "2005-10-03T15:05:00Z")


@pytest.mark.parametrize(
    "words",
    [
        ("completion", "bash"),
        ("convert", JOB),
        ("publish", "--ce", EXAMPLES / "atlfarm006.ad", "--site", "S"),
        ("reduce", JOB, "--ldif", SITE, *AT),
        ("lint", JOB),
        ("eval", "1 / 0", "{ real(1.5), [ a = b ] }", "--trace"),
        ("ces", "--ldif", SITE, "--check"),
        ("nodes", "--lrms", "slurm", "--formats"),
    ],
    ids=lambda words: words[0],
)
def test_what_is_printed_keeps_to_the_schema(classad: Run, words: tuple[object, ...]) -> None:
    done = classad(*words, "--json")
    assert done.status in (0, 1), done.err
    assert done.out[0] in "[{"


def test_directives_for_blah(classad: Run) -> None:
    done = classad(
        "blah-local-submit-attributes", "--lrms", "slurm", "--json",
        stdin='declare -- GlueHostMainMemoryRAMSize_Min="2000"\n',
    )  # fmt: skip
    assert done.status == 0, done.err
    assert "--mem" in done.out


def test_nothing_to_reconcile(classad: Run, tmp_path: Path) -> None:
    done = classad("reconcile", "--ledger", tmp_path / "jobs.db", "--json")
    assert (done.status, done.out) == (0, "[]\n")

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Run

SERVICE = """{ "ComputingService": { "ID": "s", "ComputingShare": [ { "ID": "q",
  "MappingPolicy": { "ID": "p", "Rule": "VO:cms" } } ] } }"""
CUT = "<Domains><AdminDomain><ID>S</ID><ComputingService><ID>t</ID></ComputingService>"
JOB = '[ VirtualOrganisation = "cms"; Requirements = true; Rank = 1 ]'


def test_a_source_that_broke_off_is_left_out_whole(classad: Run, tmp_path: Path) -> None:
    whole, cut, job = (tmp_path / name for name in ("whole.json", "cut.xml", "job.ad"))
    for path, text in ((whole, SERVICE), (cut, CUT), (job, JOB)):
        path.write_text(text)
    assert classad("broker", job, "--dump", whole).status == 0
    given = ["broker", job, "--dump", whole, "--dump", cut]
    without = classad(*given)
    assert without.status == 0
    assert f"{cut}: source.partial: it broke off, so it is left out whole" in without.err
    alone = classad("broker", job, "--dump", cut)
    assert alone.status == 2
    assert "--accept-partial" in alone.err
    accepted = classad(*given, "--accept-partial")
    assert accepted.status == 0
    assert "document.partial" in accepted.err


def test_queues_without_rules_are_last_or_left_out(classad: Run, tmp_path: Path) -> None:
    known, unknown, job = (tmp_path / name for name in ("known.json", "unknown.json", "job.ad"))
    bare = '{ "ComputingService": { "ID": "u", "ComputingShare": [ { "ID": "a" } ] } }'
    for path, text in ((known, SERVICE), (unknown, bare), (job, JOB)):
        path.write_text(text)
    given = ["--dump", unknown, "--dump", known]
    for access, order in (("known", ["q"]), ("published", ["q", "a"]), ("any", ["a", "q"])):
        done = classad("broker", job, *given, "--access", access)
        assert done.status == 0
        rows = [line.split()[1] for line in done.out.splitlines() if line[:1].isdigit()]
        assert [name for name in rows if name in ("a", "q")] == order
        listed = classad("ces", *given, "--vo", "atlas", "--access", access)
        names = {"known": set(), "published": {"a"}, "any": {"a", "q"}}[access]
        assert {name for name in ("a", "q") if f"\n{name} " in listed.out} == names

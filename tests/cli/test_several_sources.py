from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Run

SERVICE = """{ "ComputingService": { "ID": "s", "ComputingShare": [ { "ID": "q",
  "MappingPolicy": { "ID": "p", "Rule": "VO:cms" } } ] } }"""
CUT = "<Domains><AdminDomain><ID>S</ID><ComputingService><ID>t</ID></ComputingService>"
JOB = '[ VirtualOrganisation = "cms"; Requirements = true; Rank = 1 ]'


def test_what_one_source_lost_may_deny_the_queues_of_another(classad: Run, tmp_path: Path) -> None:
    whole, cut, job = (tmp_path / name for name in ("whole.json", "cut.xml", "job.ad"))
    for path, text in ((whole, SERVICE), (cut, CUT), (job, JOB)):
        path.write_text(text)
    assert classad("broker", job, "--dump", whole).status == 0
    given = ["broker", job, "--dump", whole, "--dump", cut]
    closed = classad(*given)
    assert closed.status == 1
    assert f"{cut}: source.partial: a part is missing that may deny" in closed.err
    accepted = classad(*given, "--accept-partial")
    assert accepted.status == 0
    assert "document.partial" in accepted.err

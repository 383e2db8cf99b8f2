"""Reads submit files with HTCondor's own library: JSON requests in, JSON answers out.

A script for a process of its own, as ``worker`` is. One line is a list of requests; each is a list
of the lines of a submit file, the job's ad and the ads of machines, as text. One line for each is
its answer: what the file's entries come to, and the value of its requirements with each machine.

``condor_submit`` expands each entry, reads it as an expression of the old syntax, and puts it into
the job's ad; so does this, with the library's own ``Submit`` and its own reader.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ["TZ"] = "UTC"
os.environ["CONDOR_CONFIG"] = "ONLY_ENV"

# First, because it gives the process the semantics that users of HTCondor see.
import htcondor2  # isort: skip
import classad2  # isort: skip


def answer(lines: list[str], job: str, machines: list[str]) -> list[Any]:
    """The entries, and the value with each machine: true, false or another's name."""
    submit = htcondor2.Submit("\n".join([*lines, "executable = /bin/true", "queue 1"]) + "\n")
    entries = {name: submit.expand(name) for name in submit if name != "executable"}
    ad = classad2.ClassAd(job)
    if "requirements" in entries:
        read = list(classad2.parseAds(f"Requirements = {entries['requirements']}\n\n",
                                      classad2.ParserType.Old))  # fmt: skip
        if len(read) != 1 or len(read[0]) != 1:
            return ["unreadable", entries]
        ad["Requirements"] = read[0].lookup("Requirements")
    else:
        ad["Requirements"] = True
    values = [
        classad2.ExprTree("MY.Requirements").eval(ad, classad2.ClassAd(machine))
        for machine in machines
    ]
    return [[value if isinstance(value, bool) else str(value) for value in values], entries]


def main() -> None:
    """Answers until the input ends."""
    for line in sys.stdin:
        for request in json.loads(line):
            print(json.dumps(answer(*request)), flush=True)  # noqa: T201 - its output


if __name__ == "__main__":
    main()

"""A job's whole way, on real servers of this machine's own: ``make loop`` runs it.

Slurm describes itself, the description is published in GLUE on an LDAP server, the broker chooses
the queue from there, the requirement is reduced to a condition on hosts and to flags, the job is
handed over in two phases, lands on a node that satisfies the requirement, leaves a record of its
end, and its owner acknowledges the result. Each step prints a line.
"""

from __future__ import annotations

import io
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from matchmaker import ClassAd, batch, broker, glue, parse_ad
from matchmaker.batch.policy import required_policy
from matchmaker.delegation.commands import Commands
from matchmaker.delegation.control import load_control
from matchmaker.delegation.delegate import Delegator
from matchmaker.delegation.ledger import Ledger
from matchmaker.delegation.record import Deadlines
from tests.services.slapd import server
from tests.services.slurm import SlurmNode, farm

NODES = [
    SlurmNode("n1", cpus=1, memory_mb=1000),
    SlurmNode("n2", cpus=2, memory_mb=2000),
    SlurmNode("n3", cpus=2, memory_mb=4000),
    SlurmNode("n4", cpus=1, memory_mb=8000),
]

JOB = """
[
  Executable = "hello.sh";
  VirtualOrganisation = "egee";
  Requirements =
    (other.GlueHostArchitectureSMPSize >= 2 ? other.GlueHostMainMemoryRAMSize > 3000
                                            : other.GlueHostMainMemoryRAMSize > 9000)
    && other.GlueCEStateStatus == "Production";
  Rank = other.GlueCEStateFreeCPUs;
]
"""


def largest(subclusters: Sequence[glue.SubCluster]) -> glue.SubCluster | None:
    """The kind of nodes that stands for a queue: the one with the most memory and processors."""
    return max(
        subclusters,
        key=lambda sub: (
            sub.values["GlueHostArchitectureSMPSize"],
            sub.values["GlueHostMainMemoryRAMSize"],
        ),
        default=None,
    )


def loop(folder: Path, say: Callable[[str, str], None]) -> str:
    """Takes the job all the way. Returns the name of the node that it ran on."""
    job = parse_ad(JOB)
    with farm(NODES) as slurm:
        environment = slurm.oracle.environment

        def ask(argv: Sequence[str]) -> str:
            return subprocess.run(
                argv, capture_output=True, text=True, check=True, env=environment
            ).stdout

        found = batch.describe("slurm", ask)
        say("describe", f"Slurm has {len(found.nodes)} nodes in {len(found.queues)} queue")

        placed = glue.place(found.queues, "ce.s.grid:8443/cream", site="S", vos=["egee"])
        text = io.StringIO()
        glue.write_ldif(glue.describe_site(placed, found.nodes, split=True), text)
        say("publish", f"{text.getvalue().count('dn: ')} entries of GLUE 1.3 and 2.0")

        with server(text.getvalue()) as url:
            read = glue.read_ldap(url, timeout=30)
            queues = read.computing_elements(largest)
            say("read", f"{len(queues)} queue over {url}")
            table = batch.load_mapping("slurm")
            hosts = [in_glue(ad) for ad in found.nodes]
            route = broker.route(job, queues, broker.Hosts(nodes=hosts, mapping=table))
        assert route.queue is not None
        assert route.reduction is not None
        assert route.submission is not None
        say("broker", f"chosen: {route.queue.name}")
        say("reduce", f"on hosts: {route.reduction.residual}")
        say("flags", f"{' '.join(route.submission.argv)} ({route.submission.verdict})")

        script = folder / "hello.sh"
        script.write_text(f'#!/bin/sh\nprintf %s "$SLURMD_NODENAME" >{folder}/landed\n')
        delegator = Delegator(
            Ledger(folder / "jobs.db"),
            Commands(load_control("slurm"), environment=environment),
            folder / "spool",
            deadlines=Deadlines(settle=6.0),
        )
        policy = required_policy(job, glue.scope)
        words = (*route.submission.argv, "--output=/dev/null")
        record = delegator.submit(job, script, words, key="hello", policy=policy)
        say("submit", f"{record.name} is job {record.remote_id} of Slurm: {record.state}")
        while record.state.live:
            time.sleep(0.2)
            for _, moved in delegator.reconcile().moved:
                end = "" if moved.exit is None else f", exit status {moved.exit}"
                say("reconcile", f"{moved.name}: {moved.state}{end}")
            record = delegator.job("hello")
        node = (folder / "landed").read_text()
        (host,) = (ad for ad in hosts if ad.eval("Name") == node)
        good = route.reduction.residual.eval(my=job, target=host)
        say("landed", f"on {node}, of which the condition is {str(good).lower()}: {host}")
        assert good is True
        say("acknowledge", str(delegator.acknowledge("hello").state))
        return node


def in_glue(node: ClassAd) -> ClassAd:
    """A node as Slurm describes it, by the names of GLUE."""
    return ClassAd({
        "Name": node.eval("Name"),
        "GlueHostArchitectureSMPSize": node.eval("Cpus"),
        "GlueHostMainMemoryRAMSize": node.eval("Memory"),
    })  # fmt: skip


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="loop-") as name:
        loop(Path(name), lambda step, what: print(f"{step:<12} {what}", flush=True))

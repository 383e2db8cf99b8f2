"""Describe a batch system: its worker nodes and queues as ads, and the changes between two times.

``describe`` runs the batch system's own commands, ``read_description`` reads saved output. Each
batch system has a module that reads its output; ``records`` has the nodes and queues that all of
them make.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import attrs

from matchmaker._diagnostics import Diagnostic
from matchmaker._limits import BATCH_LIMITS as LIMITS
from matchmaker.batch.description import gridengine, htcondor, lsf, pbs, slurm
from matchmaker.batch.description.records import NodeRecord, SystemReader
from matchmaker.batch.description.texts import LINE, DescriptionError, Output, OutputFormat
from matchmaker.batch.mapping import unknown
from matchmaker.batch.programs import NoProgramError, ProgramError, run
from matchmaker.classad import ClassAd

Ask: TypeAlias = Callable[[Sequence[str]], str]

_READERS: Final = (
    *gridengine.READERS, *htcondor.READERS, *lsf.READERS, *pbs.READERS, *slurm.READERS,
)  # fmt: skip
_SYSTEMS: Final = {reader.lrms: reader for reader in _READERS}


@attrs.frozen(slots=True)
class Description:
    """A batch system at one moment: the ads of its nodes and queues, and findings on its output."""

    lrms: str
    nodes: tuple[ClassAd, ...]
    queues: tuple[ClassAd, ...]
    issues: tuple[Diagnostic, ...] = ()


def describable() -> tuple[str, ...]:
    """Return the names of the batch systems whose descriptions can be read.

    >>> "slurm" in describable()
    True
    """
    return tuple(sorted(_SYSTEMS))


def commands(lrms: str) -> tuple[tuple[str, ...], ...]:
    """Return the commands that describe a batch system; raise ValueError for an unknown one.

    >>> commands("torque")
    (('pbsnodes', '-x'), ('qstat', '-Q', '-f'))
    """
    return _system(lrms).commands


def shell_line(lrms: str) -> str:
    """Join the commands that describe a batch system to a line for a shell.

    >>> shell_line("torque")
    'pbsnodes -x; qstat -Q -f'
    """
    return "; ".join(map(shlex.join, commands(lrms)))


def formats(lrms: str) -> tuple[OutputFormat, ...]:
    """Return the outputs that the reader of a batch system was tested with, and their versions.

    >>> [known.versions for known in formats("torque") if known.output == "pbsnodes -x"]
    [('2.5', '4.2', '6.1')]
    """
    return _system(lrms).formats


def ask(argv: Sequence[str]) -> str:
    """Run a command of a batch system in the C locale, and return its output.

    Raises DescriptionError if it is not installed, fails, prints too much or takes too long.

    >>> ask(["printf", "%s", "n1"])
    'n1'
    """
    name = argv[0]
    try:
        ended = run(
            argv,
            seconds=LIMITS.describe_seconds,
            most=LIMITS.describe_output,
            env={**os.environ, "LC_ALL": "C"},
        )
    except NoProgramError:
        raise DescriptionError(
            f"{name}: no such command here; save elsewhere what {shlex.join(argv)!r} and the"
            " others print, and give the files (--saved)"
        ) from None
    except ProgramError as error:
        raise DescriptionError(f"{name}: {error}") from None
    if ended.status != 0:
        lines = ended.complaint.decode("utf-8", "replace").split("\n")
        said = "; ".join(line.strip() for line in lines if line.strip())[: LIMITS.complaint]
        raise DescriptionError(
            f"{' '.join(argv)}: it failed with status {ended.status}: {said or 'silent'}"
        )
    return ended.output.decode("utf-8", "replace")


def describe(lrms: str, ask: Ask = ask) -> Description:
    """Describe the batch system that is installed here.

    ``ask`` runs a command, a list of words, and returns its output. Raises ValueError for an
    unknown batch system, and DescriptionError if a command fails or its output cannot be read.

    >>> lines = {"node": "NodeName=n1 CPUTot=4 State=IDLE Partitions=main",
    ...          "partition": "PartitionName=main State=UP MaxTime=1-00:00:00"}
    >>> found = describe("slurm", lambda argv: lines.get(argv[-1], ""))
    >>> found.nodes[0].eval("Cpus"), found.queues[0].eval("GlueCEPolicyMaxWallClockTime")
    (4, 1440)
    """
    optional = _system(lrms).optional
    outputs = []
    for argv in commands(lrms):
        try:
            outputs.append((" ".join(argv), ask(argv)))
        except DescriptionError:
            if argv not in optional:
                raise
    return read_description(lrms, outputs)


def read_description(lrms: str, outputs: Iterable[tuple[str, str]]) -> Description:
    """Describe a batch system by the named outputs of its commands, in any order.

    Raises ValueError for an unknown batch system, and DescriptionError for output of something
    else, and for nodes or queues with the same name or an unreadable one.
    """
    texts = [Output(content, source) for source, content in outputs]
    for text in texts:
        if len(text.content) > LIMITS.describe_output:
            raise text.error(f"it has more than {LIMITS.describe_output >> 20} million characters")
    system = _system(lrms)
    if texts and not any(text.content.strip() for text in texts):
        sources = ", ".join(text.source for text in texts)
        raise DescriptionError(
            f"{sources}: the output is empty; expected is the output of: {shell_line(lrms)}"
        )
    nodes, queues = system.read(texts)
    if texts and not (nodes or queues):
        for text in texts:
            told = [issue.message for issue in text.skipped if issue.rule != LINE]
            if told:
                raise text.error(told[0])
            if text.skipped:
                raise text.error(
                    f"no line is an output of {lrms}; expected is the output of:"
                    f" {shell_line(lrms)}; {text.skipped[0].message}"
                )
    known = {queue.name: queue for queue in queues}
    ads = [node.ad(known) if isinstance(node, NodeRecord) else node for node in nodes]
    return Description(
        lrms,
        _named(lrms, "node", ads),
        _named(lrms, "queue", [queue.ad() for queue in queues]),
        tuple(issue for text in texts for issue in text.skipped),
    )


def _named(lrms: str, kind: str, ads: list[ClassAd]) -> tuple[ClassAd, ...]:
    known: set[str] = set()
    for number, ad in enumerate(ads, 1):
        name = ad.eval("Name")
        if not isinstance(name, str) or not name:
            raise DescriptionError(f"{lrms}: {kind} {number} has no name")
        if not name.isprintable() or "\ufffd" in name:
            raise DescriptionError(
                f"{lrms}: {kind} {number} has a name that cannot be read: {name!a}"
            )
        if name in known:
            raise DescriptionError(
                f"{lrms}: two {kind}s are named {name}; were outputs given twice?"
            )
        known.add(name)
    return tuple(ads)


def _system(lrms: str) -> SystemReader:
    if lrms not in _SYSTEMS:
        raise unknown(lrms, describable())
    return _SYSTEMS[lrms]


@attrs.frozen(slots=True)
class Change:
    """A node or queue that is new (``before`` is None), gone (``after`` is None) or changed."""

    name: str
    before: ClassAd | None
    after: ClassAd | None

    def attributes(self) -> list[str]:
        """List the attributes that changed, in the order of the ads, without nested ads.

        >>> before, after = ClassAd({"Name": "n", "FreeCpus": 4}), ClassAd({"Name": "n", "Free": 4})
        >>> Change("n", before, after).attributes()
        ['FreeCpus', 'Free']
        """
        if self.before is None or self.after is None:
            return []
        names = dict.fromkeys([*self.before, *self.after])
        return [
            name
            for name in names
            if self.before.get(name) != self.after.get(name)
            and not isinstance(self.before.eval(name), ClassAd)
        ]


def changes(before: Iterable[ClassAd], after: Iterable[ClassAd]) -> Iterator[Change]:
    """Compare two sets of ads by ``Name``; yield each ad that is new, gone or changed.

    >>> from matchmaker import Pool
    >>> old = [ClassAd({"Name": "a"}), ClassAd({"Name": "b"})]
    >>> new = [ClassAd({"Name": "b"}), ClassAd({"Name": "c", "Cpus": 2})]
    >>> pool = Pool(old)
    >>> for change in changes(old, new):
    ...     print(change.name, "gone" if change.after is None else "here")
    ...     pool.remove(change.name) if change.after is None else pool.update(change.after)
    c here
    a gone
    >>> sorted(pool.keys())
    ['b', 'c']
    """
    left = {str(ad.eval("Name")): ad for ad in before}
    for ad in after:
        name = str(ad.eval("Name"))
        known = left.pop(name, None)
        if known is None or known != ad:
            yield Change(name, known, ad)
    for name, ad in left.items():
        yield Change(name, ad, None)


__all__ = [
    "Change",
    "Description",
    "DescriptionError",
    "Format",
    "changes",
    "commands",
    "describable",
    "describe",
    "formats",
    "read_description",
    "shell_line",
]

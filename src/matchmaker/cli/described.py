"""Asking a batch system for its nodes and queues, and printing or watching them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import attrs
import click

from matchmaker import ClassAd, write_ads
from matchmaker.batch import (
    Description,
    DescriptionError,
    describe,
    load_mapping,
    read_description,
)
from matchmaker.batch.check import with_attributes
from matchmaker.batch.description import Change, changes, spoken
from matchmaker.classad.values import UNDEFINED
from matchmaker.cli import inputs
from matchmaker.cli.output import count, plain, print_json, printable, show, table, warn
from matchmaker.glue import UNLIMITED
from matchmaker.glue.publish.local_access import admits_nobody
from matchmaker.matching.pair import value_text

NODE_COLUMNS = {
    "Name": "name", "NodeState": "state", "Available": "available", "FreeCpus": "free cpus",
    "Cpus": "cpus", "FreeMemory": "free MB", "Memory": "MB", "GPUs": "gpus",
}  # fmt: skip
QUEUE_COLUMNS = {
    "Name": "name", "GlueCEStateStatus": "status", "GlueCEStateFreeCPUs": "free cpus",
    "GlueCEInfoTotalCPUs": "cpus", "GlueCEStateRunningJobs": "running",
    "GlueCEStateWaitingJobs": "waiting", "GlueCEPolicyMaxWallClockTime": "wall minutes",
}  # fmt: skip
"""Main attributes, and the headings of their columns."""


def description(lrms: str, saved: tuple[str, ...], mapping: str | None = None) -> Description:
    """Asks the batch system, or reads saved outputs. Findings go to standard error.

    With a site's ``mapping``, nodes have the attributes that their features stand for.
    """
    table = None if mapping is None else load_mapping(lrms, mapping)
    if saved:
        found = read_description(lrms, [(path, _text(path)) for path in saved])
    else:
        found = describe(lrms)
    for issue in found.issues:
        warn(f"{issue.source}: {issue.message}")
    if table is not None:
        nodes, findings = with_attributes(found.nodes, table)
        found = attrs.evolve(found, nodes=tuple(nodes))
        for finding in findings:
            warn(f"{finding.attribute}: {finding.message}")
    return found


def local_names(words: Iterable[str]) -> dict[str, list[str]]:
    """The local names of ``--local VO=NAME``, by VO. Raises UsageError for another form."""
    found: dict[str, list[str]] = {}
    for word in words:
        vo, equals, name = word.rpartition("=")
        if not (vo.strip() and equals and name.strip()):
            raise click.UsageError(f"--local {word}: expected VO=NAME, such as cms=cmsgrp")
        found.setdefault(vo.strip(), []).append(name.strip())
    return found


def report_closed(queues: Iterable[ClassAd]) -> None:
    """Reports queues that the batch system keeps for others than the VOs, on standard error."""
    for ad in queues:
        if admits_nobody(ad):
            name, lists = str(ad.eval("Name")), value_text(ad.eval("LocalAccess"))
            warn(
                f"{name} admits nobody: the batch system admits {lists}; say with --vo and --local"
                " VO=NAME which VOs run under these names"
            )


def nothing(lrms: str, what: str = "queues") -> str:
    """The message for a batch system that described no nodes or queues."""
    return f"{lrms} described no {what}; it was asked with {spoken(lrms)}"


def _text(path: str) -> str:
    with inputs.opened(path) as file:
        return file.read().decode("utf-8-sig", "replace")


def print_ads(
    ads: tuple[ClassAd, ...], noun: str, columns: Mapping[str, str], as_json: bool
) -> None:
    """Prints the main attributes of the ads as a table, or all attributes as JSON."""
    if as_json:
        print_json([{name: plain(ad.eval(name)) for name in ad} for ad in ads])
        return
    print(count(len(ads), noun))
    if not ads:
        return
    rows = [[_cell(ad, name) for name in columns] for ad in ads]
    show(table(tuple(columns.values()), rows, right=range(3, len(columns)), whole=(0,)))


def _cell(ad: ClassAd, name: str) -> object:
    value = ad.eval(name)
    if value == UNLIMITED and name.startswith("GlueCEPolicy"):
        return "unlimited"
    return "-" if value is UNDEFINED else value if isinstance(value, str) else value_text(value)


def watch(
    look: Callable[[], tuple[ClassAd, ...]],
    every: float,
    output: str | None,
    *,
    as_json: bool = False,
) -> None:
    """Asks repeatedly, prints the changes, and keeps a file of the ads up to date.

    If the batch system does not answer, an error is printed and the last ads stay.
    """
    before: Iterable[ClassAd] = ()
    while True:
        try:
            now = look()
        except DescriptionError as error:
            warn(str(error))
        else:
            found = list(changes(before, now))
            if output is not None and (found or not before):
                write_ads(now, output)
            now_is = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
            for change in found:
                said = json.dumps(_data(change, now_is)) if as_json else f"{now_is} {_line(change)}"
                print(said, flush=True)
            before = now
        time.sleep(every)


def _data(change: Change, moment: str) -> dict[str, Any]:
    """A change as a record for one line of JSON: the new ad, or null if it is gone."""
    after = None
    if change.after is not None:
        after = {name: plain(change.after.eval(name)) for name in change.after}
    changed = change.attributes()
    return {"time": moment, "name": change.name, "changed": changed, "ad": after}


def _line(change: Change) -> str:
    if change.after is None:
        return f"{printable(change.name)} is gone"
    if change.before is None:
        return f"{printable(change.name)} is here"
    parts = [
        f"{name} {value_text(change.before.eval(name))} -> {value_text(change.after.eval(name))}"
        for name in change.attributes()
    ]
    return printable(f"{change.name}: {', '.join(parts) or 'what it says of itself'}")

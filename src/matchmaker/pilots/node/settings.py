"""A pilot's settings, its report to a factory, and the token that a job gets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import attrs

from matchmaker.classad import ClassAd
from matchmaker.pilots.node.accounts import Accounts
from matchmaker.pilots.node.direct import Wall
from matchmaker.pilots.node.slots import Node
from matchmaker.pilots.node.task import Task
from matchmaker.pilots.store.places import Store
from matchmaker.pilots.wire.connect import Place


@attrs.frozen(slots=True, kw_only=True)
class Settings:
    """A pilot's settings.

    Attributes:
        place: the binder, with a pilot's token.
        directory: where its tasks run.
        node: the resources for jobs, and the site's policy.
        machine: the ad of its machine.
        applications: names, and the program with its first words of each.
        idle: after how many seconds without a job it ends; None for never.
        wall: how many seconds it may run; None for no limit.
        least: how many seconds must be left for it to offer a slot.
        report: the file in which a factory looks for its state; None for no factory.
        doors: where clients may talk to it directly; None for nowhere.
        token_file: the file with its token, which it removes when the token is used.
        accounts: those that jobs run under, each under its own; None for the pilot's account.
        output: a store for output files that are too large for the binder; None for none.
        mixed: whether it takes jobs of several owners though its token names none; its jobs then
            share its account, or run under accounts of their own.
        ca: the authority that signed the binder's certificate, in PEM; None without one.
    """

    place: Place
    directory: Path
    node: Node
    machine: ClassAd
    applications: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    idle: float | None = None
    wall: float | None = None
    least: float = 0.0
    report: Path | None = None
    doors: Wall | None = None
    ca: Path | None = None
    token_file: Path | None = None
    mixed: bool = False
    accounts: Accounts | None = None
    output: Store | None = None

    def granted(self, task: Task, token: str) -> Task:
        """A task that gets the binder's address, and a token for it."""
        there = {"CLASSAD_BINDER": self.place.address}
        if self.ca is not None:
            there["CLASSAD_BINDER_CA"] = str(self.ca.absolute())
        return attrs.evolve(task, env={**task.env, **there}, token=token)


def write_report(file: Path, state: str, ad: ClassAd) -> None:
    """Writes what a pilot reports, whole: its state, and its ad. Raises OSError."""
    new = file.with_name(f".{file.name}.new")
    new.unlink(missing_ok=True)
    opened = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(opened, "w", encoding="utf-8") as stream:
        stream.write(f"{state}\n{ad}\n")
    new.replace(file)

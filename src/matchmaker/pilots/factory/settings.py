"""What a factory's file says: its settings, checked, with what is wrong said in a sentence.

The tables of the file (TOML) and their keys are the classes below and their fields;
docs/factory.md explains them. Sources are read in :mod:`matchmaker.pilots.factory.sources`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import attrs

from matchmaker.classad import ClassAd, Expr, parse_ad, parse_expr
from matchmaker.classad.errors import closest, printable
from matchmaker.classad.values import is_integer, is_number
from matchmaker.delegation.record import Deadlines, check_key

_MOST_BYTES: Final = 1 << 20


class SettingsError(ValueError):
    """A factory's file cannot be used; the message says where, what was found and expected."""


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ValueError("a text on one line")
    return value


def _name(value: Any) -> str:
    try:
        return check_key(_text(value))
    except ValueError:
        raise ValueError("a name of 1 to 64 letters, digits, '_', '.' or '-'") from None


def _words(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(w, str) for w in value):
        raise ValueError('a list of texts, such as ["--partition=grid"]')
    return tuple(value)


def _seconds(value: Any) -> float:
    if not is_number(value) or not 0 < value <= 10**9:
        raise ValueError("a number of seconds above 0")
    return float(value)


def _rate(value: Any) -> float:
    if not is_number(value) or not 0 < value <= 10**9:
        raise ValueError("a number of submissions a second above 0")
    return float(value)


def _count(value: Any) -> int:
    if not is_integer(value) or not 0 <= value <= 10**9:
        raise ValueError("a whole number of at least 0")
    return value


def _port(value: Any) -> int:
    if not is_integer(value) or not 0 < value < 65_536:
        raise ValueError("a number of a port, from 1 to 65535")
    return value


def _ad(value: Any) -> ClassAd:
    if not isinstance(value, str):
        raise ValueError('the text of an ad, such as "[ Memory = 2000 ]"')  # noqa: TRY004
    return parse_ad(value)


def _expression(value: Any) -> Expr:
    if not isinstance(value, str):
        raise ValueError('the text of an expression, such as "MaxWallTime * 60"')  # noqa: TRY004
    return parse_expr(value)


def _of(kind: Callable[[Any], Any], **how: Any) -> Any:
    """A field whose value is checked and made by a function."""
    return attrs.field(metadata={"kind": kind}, **how)


def _part(read: Callable[[Any, str, Path], Any], **how: Any) -> Any:
    """A field whose tables are read by a function, with their key and the file's folder."""
    return attrs.field(metadata={"part": read}, **how)


def _table(kind: type, **how: Any) -> Any:
    """A field that is a table."""
    return _part(lambda table, key, folder: _made(kind, table, f"[{key}] ", folder), **how)


def _tables(kind: type, *one_of: str, **how: Any) -> Any:
    """A field of several tables, each with exactly one of some keys."""

    def read(tables: Any, key: str, folder: Path) -> tuple[Any, ...]:
        if not isinstance(tables, list) or not tables:
            raise SettingsError(f"{key}: found {tables!r:.80}; expected tables [[{key}]]")
        made = []
        for number, table in enumerate(tables, 1):
            place = f"[[{key}]] {number}"
            one = _made(kind, table, f"{place} ", folder)
            given = [each for each in one_of if getattr(one, each) is not None]
            if one_of and len(given) != 1:
                names, keys = " and ".join(given) or "none", ", ".join(one_of)
                raise SettingsError(f"{place}: found {names} of {keys}; give one")
            made.append(one)
        return tuple(made)

    return _part(read, **how)


def _deadlines(table: Any, _: str, __: Path) -> Deadlines:
    if not isinstance(table, dict):
        raise SettingsError("deadlines: expected a table [deadlines]")
    names = [field.name for field in attrs.fields(Deadlines)]
    for key in table.keys() - set(names):
        raise _unknown("[deadlines] ", key, names)
    try:
        return Deadlines(**table)
    except (ValueError, TypeError) as error:
        raise SettingsError(f"[deadlines] {error}") from None


@attrs.frozen(slots=True, kw_only=True)
class PilotSettings:
    """The table ``[pilot]``: what is submitted.

    Attributes:
        script: the pilot's script.
        reports: the directory in which pilots report their states; None where they do not.
        wall: how long a pilot may run at a queue that says nothing else, in seconds.
        ad: attributes of every pilot's ad, which jobs match.
        request: the pilot as a job: what it requests of a queue that a source describes.
        early: a pilot that fails within this many seconds of its start was lost by its queue.
        binder: the binder that the pilots serve, ``HOST:PORT``; it is asked for a token for each.
        token: the file with the factory's own token.
        ca: who signed the binder's certificate.
    """

    script: str = _of(_text)
    reports: str | None = _of(_text, default=None)
    wall: float = _of(_seconds, default=86_400.0)
    ad: ClassAd = _of(_ad, factory=ClassAd)
    request: ClassAd = _of(_ad, factory=ClassAd)
    early: float = _of(_seconds, default=300.0)
    binder: str | None = _of(_text, default=None)
    token: str | None = _of(_text, default=None)
    ca: str | None = _of(_text, default=None)


@attrs.frozen(slots=True, kw_only=True)
class PolicySettings:
    """The table ``[policy]``: the policy ad, in a file or as a text."""

    file: str | None = _of(_text, default=None)
    ad: ClassAd | None = _of(_ad, default=None)


@attrs.frozen(slots=True, kw_only=True)
class CapSettings:
    """The table ``[caps]``: how many pilots the ledger may have at once, of all its services."""

    pilots: int | None = _of(_count, default=None)
    queued: int | None = _of(_count, default=None)


@attrs.frozen(slots=True, kw_only=True)
class MetricsSettings:
    """The table ``[metrics]``: where Prometheus finds the numbers, on this machine alone."""

    port: int = _of(_port)


@attrs.frozen(slots=True, kw_only=True)
class DemandSource:
    """A table ``[[demand]]``: where jobs are read. One of the first four is given.

    Attributes:
        file: a file of job ads.
        command: a command that prints job ads.
        condor: words for ``condor_q``, whose queue is read; empty for the local one.
        ledger: the ledger of delegated jobs; ``.`` is the factory's own.
        wall: on a job's ad, how long it runs at most, in seconds.
        group: on a job's ad, whose it is.
        timeout: how many seconds a command may take.
    """

    file: str | None = _of(_text, default=None)
    command: tuple[str, ...] | None = _of(_words, default=None)
    condor: tuple[str, ...] | None = _of(_words, default=None)
    ledger: str | None = _of(_text, default=None)
    wall: Expr = _of(_expression, factory=lambda: parse_expr("0"))
    group: Expr = _of(
        _expression,
        factory=lambda: parse_expr("MY.AccountingGroup ?: MY.VirtualOrganisation ?: MY.Owner"),
    )
    timeout: float = _of(_seconds, default=60.0)


@attrs.frozen(slots=True, kw_only=True)
class QueueSettings:
    """A table ``[[queue]]``: a queue that pilots are submitted to.

    Attributes:
        name: names the queue.
        lrms: its batch system.
        site: the site that it belongs to.
        cluster: which of several batch systems of its kind it is at.
        words: options of the command that submits.
        ad: attributes of the ads of its pilots.
        wall: how long a pilot may run there, in seconds.
        max_pilots: how many pilots may be there.
        max_queued: how many pilots may wait there.
        rate: how many submissions a second its batch system takes.
    """

    name: str = _of(_text)
    lrms: str = _of(_text)
    site: str = _of(_text, default="")
    cluster: str | None = _of(_name, default=None)
    words: tuple[str, ...] = _of(_words, default=())
    ad: ClassAd = _of(_ad, factory=ClassAd)
    wall: float | None = _of(_seconds, default=None)
    max_pilots: int | None = _of(_count, default=None)
    max_queued: int | None = _of(_count, default=None)
    rate: float = _of(_rate, default=1.0)


@attrs.frozen(slots=True, kw_only=True)
class QueueSource:
    """A table ``[[source]]``: what describes queues. One of the first four is given.

    Attributes:
        ldif: a dump of GLUE.
        ldap: the URL of a server.
        ads: a file with the ads of queues.
        describe: the name of a batch system that is asked for its queues.
        site: the site of queues that do not name theirs.
        lrms: the batch system of queues that do not name theirs.
        cluster: which of several batch systems of its kind they are at.
        words: options of the command that submits, beside those that follow from the request.
        mapping: a site's mapping of requests to options.
        only: the names of the queues that are used; all without it.
        max_pilots: how many pilots may be at each queue.
        max_queued: how many pilots may wait at each queue.
        rate: how many submissions a second each queue's batch system takes.
        timeout: how many seconds a server may take.
    """

    ldif: str | None = _of(_text, default=None)
    ldap: str | None = _of(_text, default=None)
    ads: str | None = _of(_text, default=None)
    describe: str | None = _of(_text, default=None)
    site: str = _of(_text, default="")
    lrms: str = _of(_text, default="")
    cluster: str | None = _of(_name, default=None)
    words: tuple[str, ...] = _of(_words, default=())
    mapping: str | None = _of(_text, default=None)
    only: tuple[str, ...] = _of(_words, default=())
    max_pilots: int | None = _of(_count, default=None)
    max_queued: int | None = _of(_count, default=None)
    rate: float = _of(_rate, default=1.0)
    timeout: float = _of(_seconds, default=30.0)


@attrs.frozen(slots=True, kw_only=True)
class FactorySettings:
    """A factory's file.

    Attributes:
        name: of the service; the file's name without its ending if it is not given.
        ledger: the ledger's file or URL.
        spool: the spool's directory; beside the ledger's file if it is not given.
        cycle: seconds between decisions.
        beat: seconds between heartbeats.
        lease: how long pilots live after the factory's last renewal, in seconds.
        stale: how many seconds queues whose source is silent stay open as they were.
        pilot, policy, caps, demand, queue, source, metrics, deadlines: the tables.
    """

    name: str = _of(_name)
    ledger: str = _of(_text)
    spool: str | None = _of(_text, default=None)
    cycle: float = _of(_seconds, default=120.0)
    beat: float = _of(_seconds, default=30.0)
    lease: float = _of(_seconds, default=172_800.0)
    stale: float = _of(_seconds, default=1800.0)
    pilot: PilotSettings = _table(PilotSettings)
    policy: PolicySettings = _table(PolicySettings, factory=PolicySettings)
    caps: CapSettings = _table(CapSettings, factory=CapSettings)
    demand: tuple[DemandSource, ...] = _tables(DemandSource, "file", "command", "condor", "ledger")
    queue: tuple[QueueSettings, ...] = _tables(QueueSettings, default=())
    source: tuple[QueueSource, ...] = _tables(
        QueueSource, "ldif", "ldap", "ads", "describe", default=()
    )
    metrics: MetricsSettings | None = _table(MetricsSettings, default=None)
    deadlines: Deadlines = _part(_deadlines, factory=Deadlines)


_PATHS: Final = frozenset(
    {"file", "script", "reports", "ldif", "ads", "mapping", "spool", "token", "ca"}
)


def read_settings(path: Path) -> FactorySettings:
    """The settings in a factory's file. Paths in it start at its folder.

    Raises:
        OSError: it cannot be read.
        SettingsError: it is no TOML, or something in it is unknown, missing or wrong.
    """
    with path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise SettingsError(f"{path}: larger than {_MOST_BYTES} bytes; a factory's file is short")
    try:
        return settings(content.decode(), path.absolute().parent, name=path.stem)
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: not UTF-8, which TOML is") from None
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from None


def settings(text: str, folder: Path, *, name: str = "factory") -> FactorySettings:
    """The settings in the text of a file.

    Args:
        text: TOML.
        folder: where paths start.
        name: of the service, if the text gives none.

    Raises:
        SettingsError: it is no TOML, or something in it is unknown, missing or wrong.

    >>> settings("cycel = 60", Path("/etc"))
    Traceback (most recent call last):
    ...
    matchmaker...SettingsError: no key is called 'cycel'; perhaps cycle is meant
    """
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"not TOML: {error}") from None
    made: FactorySettings = _made(FactorySettings, {"name": name, **found}, "", folder)
    if not made.queue and not made.source:
        raise SettingsError("no queue: give a table [[queue]] or [[source]]")
    pilot = made.pilot
    if (pilot.binder is None) != (pilot.token is None):
        raise SettingsError("[pilot] found one of binder and token; give both or none")
    if pilot.binder is not None and pilot.reports is None:
        raise SettingsError("[pilot] reports is missing: each pilot's token is put there")
    names = [queue.name for queue in made.queue]
    for twice in {each for each in names if names.count(each) > 1}:
        raise SettingsError(f"two queues are called {twice!r}")
    if "://" not in made.ledger:
        made = attrs.evolve(made, ledger=str(folder / made.ledger))
    elif made.spool is None:
        raise SettingsError("spool is missing: a ledger of PostgreSQL has none beside it")
    return made


def _made(kind: Any, table: Any, place: str, folder: Path) -> Any:
    """A table as its class. Raises SettingsError with the place, what was found and expected."""
    if not isinstance(table, dict):
        raise SettingsError(f"{place}found {table!r:.80}; expected a table")
    fields = {field.name: field for field in attrs.fields(kind)}
    values = {}
    for key, value in table.items():
        if key not in fields:
            raise _unknown(place, key, fields)
        values[key] = _value(fields[key], value, place, folder)
    for field in fields.values():
        if field.default is attrs.NOTHING and field.name not in values:
            what = f"the table {field.name!r}" if "part" in field.metadata else field.name
            raise SettingsError(f"{place}{what} is missing")
    return kind(**values)


def _value(field: attrs.Attribute[Any], value: Any, place: str, folder: Path) -> Any:
    if "part" in field.metadata:
        return field.metadata["part"](value, field.name, folder)
    try:
        made = field.metadata["kind"](value)
    except ValueError as error:
        found, expected = printable(repr(value))[:80], str(error).splitlines()[0]
        raise SettingsError(f"{place}{field.name}: found {found}; expected {expected}") from None
    return str(folder / made) if field.name in _PATHS else made


def _unknown(place: str, key: str, names: Iterable[str]) -> SettingsError:
    near = closest(key, {name: name for name in names})
    meant = f"perhaps {near} is meant" if near else f"expected are {', '.join(names)}"
    return SettingsError(f"{place}no key is called {printable(key)[:60]!r}; {meant}")

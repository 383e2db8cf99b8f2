"""The settings of a factory, read from its file; a fault is a sentence with its place.

The tables of the file (TOML) and their keys are the classes below and their fields; a field's type
says which values are taken. docs/factory.md explains the keys.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, get_args, get_origin

import attrs

from matchmaker.classad import ClassAd, Expr, parse_ad, parse_expr
from matchmaker.classad.errors import closest, printable
from matchmaker.classad.values import is_integer, is_number
from matchmaker.delegation.record import Deadlines, check_key

if TYPE_CHECKING:
    import cattrs

_MOST_BYTES: Final = 1 << 20
"""Bytes of a factory's file: one of a thousand queues has a tenth of it."""


class SettingsError(ValueError):
    """A factory's file cannot be used; the message says where, what was found and expected."""


class _WrongError(ValueError):
    """A value is not of its type; the text tells the expected one."""

    def __init__(self, value: object, expected: str) -> None:
        super().__init__(expected)
        self.value = value


# --- values ---------------------------------------------------------------------------------------

# Each function takes a value of TOML, and returns it or raises ValueError: the expected value.


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


def _above_0(value: Any, what: str) -> float:
    if not is_number(value) or not 0 < value <= 10**9:
        raise ValueError(f"a number of {what} above 0, at most 1000000000")
    return float(value)


def _count(value: Any) -> int:
    if not is_integer(value) or not 0 <= value <= 10**9:
        raise ValueError("a whole number from 0 to 1000000000")
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


Line: TypeAlias = Annotated[str, _text]
Key: TypeAlias = Annotated[str, _name]
# A path is read as a text and begins at the file's folder.
FilePath: TypeAlias = Annotated[str, Path]
Words: TypeAlias = Annotated[tuple[str, ...], _words]
Seconds: TypeAlias = Annotated[float, partial(_above_0, what="seconds")]
Rate: TypeAlias = Annotated[float, partial(_above_0, what="submissions and cancellations a second")]
Count: TypeAlias = Annotated[int, _count]
Port: TypeAlias = Annotated[int, _port]
AdText: TypeAlias = Annotated[ClassAd, _ad]
ExprText: TypeAlias = Annotated[Expr, _expression]


def _one_of(table: DemandSource | QueueSource, keys: tuple[str, ...]) -> None:
    given = [key for key in keys if getattr(table, key) is not None]
    if len(given) != 1:
        raise ValueError(f"found {' and '.join(given) or 'none'} of {', '.join(keys)}; give one")


# --- tables ---------------------------------------------------------------------------------------


@attrs.frozen(slots=True, kw_only=True)
class ScriptSettings:
    """The table ``[pilot]``: the job that is submitted.

    Attributes:
        script: the pilot's script.
        reports: the directory in which pilots report their states; None if they do not.
        wall: how long a pilot may run at a queue that says nothing else, in seconds.
        ad: attributes of every pilot's ad, which jobs match.
        request: the pilot as a job, with its requests of a queue that a source describes.
        early: a pilot that fails within this many seconds of its start was lost by its queue.
        binder: the binder that the pilots serve, ``HOST:PORT``; it is asked for a token for each.
        token: the file with the factory's own token.
        ca: who signed the binder's certificate.
    """

    script: FilePath
    reports: FilePath | None = None
    wall: Seconds = 86_400.0
    ad: AdText = attrs.field(factory=ClassAd)
    request: AdText = attrs.field(factory=ClassAd)
    early: Seconds = 300.0
    binder: Line | None = None
    token: FilePath | None = None
    ca: FilePath | None = None


@attrs.frozen(slots=True, kw_only=True)
class PolicySettings:
    """The table ``[policy]``: the policy ad, in a file or as a text."""

    file: FilePath | None = None
    ad: AdText | None = None


@attrs.frozen(slots=True, kw_only=True)
class CapSettings:
    """The table ``[caps]``: how many pilots the ledger may have at once, of all its services."""

    pilots: Count | None = None
    queued: Count | None = None


@attrs.frozen(slots=True, kw_only=True)
class MetricsSettings:
    """The table ``[metrics]``: the port of the numbers for Prometheus, on this machine alone."""

    port: Port


@attrs.frozen(slots=True, kw_only=True)
class DemandSource:
    """A table ``[[demand]]``: a source of jobs. One of the first four is given.

    Attributes:
        file: a file of job ads.
        command: a command that prints job ads.
        condor: words for ``condor_q``, whose queue is read; empty for the local one.
        ledger: the ledger of delegated jobs; ``.`` is the factory's own.
        wall: the longest time that a job runs, in seconds, from its ad.
        group: the owner or VO of a job, from its ad.
        timeout: how many seconds a command may take.
    """

    file: FilePath | None = None
    command: Words | None = None
    condor: Words | None = None
    ledger: Line | None = None
    wall: ExprText = attrs.field(factory=lambda: parse_expr("0"))
    group: ExprText = attrs.field(
        factory=lambda: parse_expr("MY.AccountingGroup ?: MY.VirtualOrganisation ?: MY.Owner"),
    )
    timeout: Seconds = 60.0

    def __attrs_post_init__(self) -> None:
        _one_of(self, ("file", "command", "condor", "ledger"))


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
        rate: how many submissions and cancellations a second its batch system takes.
    """

    name: Line
    lrms: Line
    site: Line = ""
    cluster: Key | None = None
    words: Words = ()
    ad: AdText = attrs.field(factory=ClassAd)
    wall: Seconds | None = None
    max_pilots: Count | None = None
    max_queued: Count | None = None
    rate: Rate = 1.0


@attrs.frozen(slots=True, kw_only=True)
class QueueSource:
    """A table ``[[source]]``: a source that describes queues. One of the first four is given.

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
        rate: how many of both a second the batch system of each queue takes.
        timeout: how many seconds a server may take.
    """

    ldif: FilePath | None = None
    ldap: Line | None = None
    ads: FilePath | None = None
    describe: Line | None = None
    site: Line = ""
    lrms: Line = ""
    cluster: Key | None = None
    words: Words = ()
    mapping: FilePath | None = None
    only: Words = ()
    max_pilots: Count | None = None
    max_queued: Count | None = None
    rate: Rate = 1.0
    timeout: Seconds = 30.0

    def __attrs_post_init__(self) -> None:
        _one_of(self, ("ldif", "ldap", "ads", "describe"))


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

    name: Key
    ledger: Line
    spool: FilePath | None = None
    cycle: Seconds = 120.0
    beat: Seconds = 30.0
    lease: Seconds = 172_800.0
    stale: Seconds = 1800.0
    pilot: ScriptSettings
    policy: PolicySettings = attrs.field(factory=PolicySettings)
    caps: CapSettings = attrs.field(factory=CapSettings)
    demand: tuple[DemandSource, ...]
    queue: tuple[QueueSettings, ...] = ()
    source: tuple[QueueSource, ...] = ()
    metrics: MetricsSettings | None = None
    deadlines: Deadlines = attrs.field(factory=Deadlines)


# --- reading --------------------------------------------------------------------------------------


def read_settings(path: Path) -> FactorySettings:
    """Read the settings in a factory's file. Paths in it start at its folder.

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
    """Read the settings in the text of a file.

    Args:
        text: TOML.
        folder: the folder at which paths start.
        name: of the service, if the text does not name it.

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
    made = _structured({"name": name, **found}, folder)
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


def _structured(document: Mapping[str, Any], folder: Path) -> FactorySettings:
    """Make the settings of a document. Raises SettingsError for the first fault, with its place."""
    import cattrs

    try:
        return _converter(folder).structure(document, FactorySettings)
    except cattrs.BaseValidationError as error:
        raise _fault(error) from None


def _converter(folder: Path) -> cattrs.Converter:
    """Make a converter that checks each value by the function in its type."""
    import cattrs
    from cattrs.gen import make_dict_structure_fn

    made = cattrs.Converter(forbid_extra_keys=True)

    def value(found: Any, kind: Any) -> Any:
        check = kind.__metadata__[0]
        try:
            return str(folder / _text(found)) if check is Path else check(found)
        except ValueError as error:
            raise _WrongError(found, str(error).splitlines()[0]) from None

    def table(kind: type[attrs.AttrsInstance]) -> Callable[[Any, Any], Any]:
        structure = make_dict_structure_fn(kind, made, _cattrs_forbid_extra_keys=True)

        def read(found: Any, _: Any) -> Any:
            if not isinstance(found, dict):
                raise _WrongError(found, "a table")
            return structure(found, kind)

        return read

    def tables(found: Any, kind: Any) -> tuple[Any, ...]:
        if not isinstance(found, list) or not found:
            raise _WrongError(found, "tables [[{key}]]")
        several: Any = list.__class_getitem__(get_args(kind)[0])
        return tuple(made.structure(found, several))

    made.register_structure_hook_factory(attrs.has, table)
    made.register_structure_hook_func(_is(tuple), tables)
    made.register_structure_hook_func(_is(Annotated), value)
    # The class of deadlines checks the sizes of its values.
    made.register_structure_hook(float, lambda found, _: _number(found, is_number, "a number"))
    made.register_structure_hook(int, lambda found, _: _number(found, is_integer, "a whole number"))
    return made


def _number(found: Any, is_one: Callable[[Any], bool], expected: str) -> Any:
    if not is_one(found):
        raise _WrongError(found, expected)
    return found


def _is(origin: Any) -> Callable[[Any], bool]:
    return lambda kind: get_origin(kind) is origin


def _fault(error: BaseException) -> SettingsError:
    """Describe the first fault of those that were found, by its place in the file."""
    import cattrs
    from cattrs import AttributeValidationNote, IterableValidationNote

    place: list[str | int] = []
    kind: Any = None
    while isinstance(error, cattrs.BaseValidationError):
        kind = error.cl
        # A key that is unknown may be meant for one that is missing.
        error = min(
            error.exceptions, key=lambda one: not isinstance(one, cattrs.ForbiddenExtraKeysError)
        )
        for note in getattr(error, "__notes__", ()):
            if isinstance(note, AttributeValidationNote):
                place.append(note.name)
            elif isinstance(note, IterableValidationNote):
                place.append(int(note.index))
    if isinstance(error, cattrs.ForbiddenExtraKeysError):
        return _unknown(_placed(place), min(error.extra_fields), attrs.fields_dict(kind))
    if isinstance(error, KeyError):
        *inside, key = place
        what = f"the table {key!r}" if key in _TABLES else str(key)
        return SettingsError(f"{_placed(inside)}{what} is missing")
    if isinstance(error, _WrongError):
        found = printable(repr(error.value))[:80]
        *inside, key = place
        where = _placed(place).rstrip() if isinstance(key, int) else f"{_placed(inside)}{key}"
        expected = str(error).replace("{key}", str(key))
        return SettingsError(f"{where}: found {found}; expected {expected}")
    # The fault of a table as a whole begins with its keys.
    mark = ":" if place and isinstance(place[-1], int) else ""
    return SettingsError(f"{_placed(place).rstrip()}{mark} {error}")


_TABLES: Final = frozenset({"pilot", "policy", "caps", "demand", "metrics", "deadlines"})


def _placed(place: Sequence[str | int]) -> str:
    """Write the place of a table as its heading; of several, with the number.

    >>> _placed(()), _placed(("pilot",)), _placed(("queue", 0))
    ('', '[pilot] ', '[[queue]] 1 ')
    """
    if not place:
        return ""
    return f"[{place[0]}] " if len(place) == 1 else f"[[{place[0]}]] {int(place[1]) + 1} "


def _unknown(place: str, key: str, names: Iterable[str]) -> SettingsError:
    near = closest(key, {name: name for name in names})
    meant = f"perhaps {near} is meant" if near else f"expected are {', '.join(names)}"
    return SettingsError(f"{place}no key is called {printable(key)[:60]!r}; {meant}")

"""Read the table of a batch system's commands, and an owner's order by it.

A table is a TOML file of ``systems``: the commands that park, list, release and end jobs, and the
options that carry metadata. A word with a slot, such as ``{name}``, stays one word after filling;
``{words}`` and ``{metadata}`` stand for any number of words. :func:`invocation_of` reads how a job
description (JDL of gLite and DIRAC) calls its script. :func:`own_options` gathers the owner's
options: from the command line, from variables such as ``SBATCH_PARTITION``, and from lines of the
script such as ``#SBATCH``. Each option is honoured, left out with a reason, or refused by name.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any, Final

import attrs

from matchmaker.batch import known_lrms
from matchmaker.classad import ClassAd
from matchmaker.delegation.readers import READERS
from matchmaker.delegation.readers.reading import Reader
from matchmaker.delegation.record import Invocation, RefusedError

_SLOT: Final = re.compile(r"\{([A-Za-z]+)\}")


@attrs.frozen(slots=True)
class SystemCommand:
    """A command, and the meaning of its error messages.

    Attributes:
        argv: its words, with slots.
        each: the text for each job in place of ``{jobs}``.
        join: the separator of these; empty if each is a word.
        count: the command for the number of jobs, asked if the answer is empty.
        none: a pattern for the whole complaint of a command that finds none of the jobs.
        by_id, by_name: its further words for jobs by their ids, or by their names, with ``{list}``;
            empty if it is asked for all of our jobs.
        done: a pattern for each line of a complaint that does no harm, with slots.
        check: whether the command knows ids alone, so that the name is looked up before.
    """

    argv: tuple[str, ...]
    each: str = "{id}"
    join: str = ""
    count: tuple[str, ...] = ()
    none: str = ""
    by_id: tuple[str, ...] = ()
    by_name: tuple[str, ...] = ()
    done: str = ""
    check: bool = False


@attrs.frozen(slots=True)
class Carrier:
    """The place for metadata of a job in a batch system.

    Attributes:
        argv: the option, with ``{entries}``; empty if each entry is a line.
        entry: one entry, with ``{name}``, ``{Name}`` or ``{NAME}``, and ``{value}``.
        join: the separator of entries.
        line: one entry as a line of the submit description.
        room: how many characters there are for all entries.
    """

    room: int
    argv: tuple[str, ...] = ()
    entry: str = ""
    join: str = ""
    line: str = ""


@attrs.frozen(slots=True)
class Options:
    """The options of the command for submissions that a caller may give.

    Any other word could take the place of the script, or undo what fences it.

    Attributes:
        none: those without a value; the long ones may have one after ``=``.
        one: those with a value in the next word; of the long ones also after ``=``.
        two: those with values in the next two words.
        value: a pattern of all values; empty if they may be anything.
    """

    none: tuple[str, ...] = ()
    one: tuple[str, ...] = ()
    two: tuple[str, ...] = ()
    value: str = ""

    def wrong(self, words: Sequence[str]) -> str:
        """Return the first word that is not such an option, and why; empty if all are.

        >>> options = Options(none=("-x",), one=("--mem", "-n"))
        >>> options.wrong(["--mem=5M", "-n", "5", "-x"]), options.wrong(["-x", "job.sh"])
        ('', "'job.sh' is none of the options that may be given")
        """
        left = list(words)
        while left:
            word = left.pop(0)
            name, given, value = word.partition("=") if word.startswith("--") else (word, "", "")
            values = [value] if given else []
            number = 2 * (name in self.two) + (name in self.one)
            if not number and name not in self.none:
                return f"{word[:80]!r} is none of the options that may be given"
            values += [left.pop(0) for _ in range(number - len(values)) if left]
            if len(values) < number:
                return f"the option {name} lacks its value"
            for one in values if self.value else ():
                if not re.fullmatch(self.value, one):
                    return f"{one[:80]!r} is no value of the option {name} that may be given"
        return ""


@attrs.frozen(slots=True)
class OrderTable:
    """How owners give options of their own, and what becomes of each.

    Options that are neither here nor in :class:`Options` are refused.

    Attributes:
        directive: how a line of a script begins that has options; empty if there are none.
        leading: whether lines count only before the first command of a script.
        letters: the long names of short options.
        alike: options of which only one may be given.
        several: options that may be given several times.
        left: options that have no effect for a job with a key, and why.
        refused: options that a job with a key cannot have, and why.
        valued: those of the last two that have a value in the next word.
        input_variables: how variables begin that the batch system's command reads options from.
        variables: the option of each such variable.
    """

    directive: str = ""
    leading: bool = False
    letters: Mapping[str, str] = attrs.Factory(dict)
    alike: tuple[tuple[str, ...], ...] = ()
    several: tuple[str, ...] = ()
    left: Mapping[str, str] = attrs.Factory(dict)
    refused: Mapping[str, str] = attrs.Factory(dict)
    valued: tuple[str, ...] = ()
    input_variables: tuple[str, ...] = ()
    variables: Mapping[str, str] = attrs.Factory(dict)


@attrs.frozen(slots=True)
class Control:
    """The table of one batch system.

    Attributes:
        lrms: the name of the batch system.
        reader: how its answers are read.
        park: the submission of a job that cannot start yet.
        description: the text of a submit description, for a command that takes one.
        look, recall, release, cancel: the commands; ``recall`` is None without accounting.
        metadata: the place for metadata.
        options: the words that a caller may add to ``park``.
        orders: how owners give options of their own.
        refused: parts of definite refusals of a submission; any other error may pass.
        spaces: whether its commands take paths with spaces.
        since: the form of a moment in ``recall``, in UTC, as ``strftime`` takes it; seconds
            since 1970 if empty.
        environment: variables that its commands run with.
        without: how names of variables begin that they run without.
        client: how names of variables begin that are the client's own: of whoever runs a command,
            not of the job's order.
        chdir: the options that say in which directory a job runs.
    """

    lrms: str
    reader: Reader
    park: tuple[str, ...]
    look: SystemCommand
    release: SystemCommand
    cancel: SystemCommand
    metadata: Carrier
    options: Options
    orders: OrderTable = OrderTable()
    refused: tuple[str, ...] = ()
    spaces: bool = False
    recall: SystemCommand | None = None
    description: str = ""
    since: str = ""
    environment: Mapping[str, str] = attrs.Factory(dict)
    without: tuple[str, ...] = ()
    client: tuple[str, ...] = ()
    chdir: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The names of all options that the table knows."""
        known, orders = self.options, self.orders
        return frozenset((*known.none, *known.one, *known.two, *orders.left, *orders.refused))

    def takes_value(self, option: str) -> bool:
        """Whether an option has one value in the next word."""
        return option in self.options.one or option in self.orders.valued

    def sets_directory(self, words: Sequence[str]) -> bool:
        """Whether some words have an option, or a line of a description, for the job's directory.

        >>> load_control("htcondor").sets_directory(["-a", "InitialDir = /tmp"])
        True
        """
        names = (word.partition("=")[0].strip() for word in words)
        # HTCondor takes the names of its lines in any case; options of a command have one.
        folded = {name if name.startswith("-") else name.lower() for name in names}
        return not folded.isdisjoint(self.chdir)

    def refuses(self, said: str) -> bool:
        """Whether the complaint of a submission says that the same again would be refused.

        >>> load_control("slurm").refuses("sbatch: error: Invalid partition name specified")
        True
        """
        return any(words in said for words in self.refused)


@cache
def load_control(lrms: str) -> Control:
    """The table of a batch system, by a name that ``matchmaker.batch.flags`` knows.

    Raises ValueError for a batch system that has none.

    >>> load_control("slurm").release.argv[:2]
    ('scontrol', 'update')
    """
    folder = files("matchmaker.delegation").joinpath("systems")
    place = folder.joinpath(f"{lrms}.toml")
    if lrms not in known_lrms() or not place.is_file():
        known = sorted(p.name[:-5] for p in folder.iterdir() if p.name.endswith(".toml"))
        raise ValueError(f"jobs cannot be handed over to {lrms!r}; known are {', '.join(known)}")
    table = _tuples(tomllib.loads(place.read_text("utf-8")))
    table["reader"] = READERS[table["reader"]]
    table["metadata"] = Carrier(**_tuples(table["metadata"]))
    table["options"] = Options(**_tuples(table["options"]))
    table["orders"] = OrderTable(**_tuples(table.get("orders", {})))
    for name in {"look", "recall", "release", "cancel"} & table.keys():
        table[name] = SystemCommand(**_tuples(table[name]))
    return Control(**table)


def _tuples(table: Mapping[str, Any]) -> dict[str, Any]:
    return {n: _tuple(v) if isinstance(v, list) else v for n, v in table.items()}


def _tuple(value: Any) -> Any:
    return tuple(map(_tuple, value)) if isinstance(value, list) else value


def filled(template: str, values: Mapping[str, str]) -> str:
    """A template with its slots filled; other braces stay.

    >>> filled("JobName={name}", {"name": "mm-{x}-1"})
    'JobName=mm-{x}-1'
    """
    return _SLOT.sub(lambda slot: values.get(slot[1], slot[0]), template)


# --- the job's ad ---------------------------------------------------------------------------------

_EXECUTABLE: Final = ("Executable", "Cmd")
_ARGUMENTS: Final = ("Arguments", "Args")
_ENVIRONMENT: Final = ("Environment", "Env")
_FILES: Final = {
    "stdin": ("StdInput", "In"), "stdout": ("StdOutput", "Out"), "stderr": ("StdError", "Err"),
}  # fmt: skip
_MOVED: Final = ("InputSandbox", "OutputSandbox")
_WITHOUT_EFFECT: Final = (
    "OutputSandboxBaseDestURI", "OutputSandboxDestURI", "InputSandboxBaseURI", "RetryCount",
    "ShallowRetryCount", "MyProxyServer", "PerusalFileEnable", "LBAddress", "ExpiryTime",
)  # fmt: skip
_REFUSED: Final = ("Prologue", "Epilogue", "DataRequirements")
_SIMPLE: Final = ("job", "normal")
"""The types of jobs (``Type``, ``JobType``) that are one program with one key."""


@attrs.frozen(slots=True, kw_only=True)
class DescribedJob:
    """The program of a job description.

    Attributes:
        script: the path of the script, or its content; None if the description names no program.
        invocation: how it is called.
        left_out: attributes that have no effect here, each with the reason.
    """

    script: str | bytes | None
    invocation: Invocation
    left_out: tuple[str, ...] = ()


def invocation_of(
    job: ClassAd, folder: Path, directory: str, script: str | None = None,
    arguments: Sequence[str] | None = None,
) -> DescribedJob:  # fmt: skip
    r"""Read how a job is called: its program, arguments, files and variables.

    The attributes are those of the JDL (gLite WMS, "Job Description Language Attributes", 4.2):
    ``Executable``, ``Arguments``, ``StdInput``, ``StdOutput``, ``StdError``, ``Environment``; or
    ``Cmd``, ``Args``, ``In``, ``Out``, ``Err``, ``Env`` of HTCondor's job ads. Arguments in one
    text are separated as a POSIX shell does. An absolute ``Executable`` is a program of the node;
    any other is a file beside the description.

    Args:
        job: the job's ad.
        folder: the folder of the description.
        directory: the job's directory; empty for the choice of the batch system.
        script: the path of a script in place of the job's own program.
        arguments: arguments in place of the job's own.

    Raises:
        ValueError: an attribute has a value of another kind.
        RefusedError: the description asks for a service that is missing here, such as a
            ``Prologue``.

    >>> from matchmaker import parse_ad
    >>> job = parse_ad('[ Executable = "/bin/echo"; Arguments = "a \'b c\'"; StdOutput = "o" ]')
    >>> found = invocation_of(job, Path("/home/ana"), "/home/ana")
    >>> found.script, found.invocation.arguments, found.invocation.stdout
    (b'#!/bin/sh\nexec /bin/echo "$@"\n', ('a', 'b c'), 'o')
    """
    for name in ("Type", "JobType"):
        value = _texts(job, (name,))
        for kind in value or ():
            if kind.lower() not in _SIMPLE:
                raise RefusedError(
                    f"{name} = {kind!r}: a key is one job of one program; hand over each part by a"
                    " key of its own"
                )
    for name in _REFUSED:
        if name in job:
            raise RefusedError(f"{name}: nothing is done for it here; do it within the script")
    left = [f"{name}: it has no effect here" for name in _WITHOUT_EFFECT if name in job]
    executable = _text(job, _EXECUTABLE)
    found: str | bytes | None = script
    if script is None and executable:
        found = _program(executable, folder)
    elif script is not None and executable:
        left.append(f"Executable: the script {script} takes its place")
    where = directory or "the directory that the batch system chooses"
    for name in _MOVED:
        others = {Path(text).name for text in _texts(job, (name,)) or ()}
        if others - {Path(executable).name}:
            left.append(f"{name}: no file is moved; the job finds and leaves them in {where}")
    own = tuple(_texts(job, _ARGUMENTS, split=True) or ()) if arguments is None else arguments
    call = Invocation(
        arguments=tuple(own), directory=directory, exports=tuple(_variables(job)),
        **{name: _text(job, names) for name, names in _FILES.items()},
    )  # fmt: skip
    for text in (
        *call.arguments,
        call.stdin,
        call.stdout,
        call.stderr,
        *dict(call.exports).values(),
    ):
        if "\0" in text or "\n" in text:
            raise ValueError(f"a line break or null byte within {text[:40]!r}: no argument has one")
    return DescribedJob(script=found, invocation=call, left_out=tuple(left))


def _program(executable: str, folder: Path) -> str | bytes:
    if executable.startswith("/"):
        # The node's own program, which this machine need not have.
        return f'#!/bin/sh\nexec {shlex.quote(executable)} "$@"\n'.encode()
    path = folder / executable
    if not path.is_file():
        raise ValueError(
            f"Executable: there is no file {path}; name one beside the description, a program of"
            " the node by its whole path, or give --script FILE"
        )
    return str(path)


def _text(job: ClassAd, names: Iterable[str]) -> str:
    found = _texts(job, names) or ("",)
    if len(found) != 1:
        raise ValueError(f"{next(n for n in names if n in job)} of the job must be one text")
    return found[0]


def _texts(job: ClassAd, names: Iterable[str], *, split: bool = False) -> Sequence[str] | None:
    """The texts of the first of some attributes that the job has; one text may be split."""
    name = next((name for name in names if name in job), None)
    if name is None:
        return None
    value = job.eval(name)
    if isinstance(value, str):
        try:
            return shlex.split(value) if split else [value]
        except ValueError as error:
            raise ValueError(f"{name} of the job: {error} in {value[:80]!r}") from None
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return [str(each) for each in value]
    raise ValueError(f"{name} of the job must be a text or a list of texts, not {job.expr(name)}")


def _variables(job: ClassAd) -> Iterator[tuple[str, str]]:
    """The variables of a list of ``NAME=value``, of a text of several, or of an ad."""
    name = next((name for name in _ENVIRONMENT if name in job), None)
    if name is None:
        return
    value = job.eval(name)
    if isinstance(value, ClassAd):
        for variable in value:
            yield variable, _text(value, (variable,))
        return
    for text in _texts(job, (name,), split=True) or ():
        variable, equals, content = text.partition("=")
        if not equals or not variable.isidentifier() or not variable.isascii():
            raise ValueError(f"{name} of the job: NAME=value was expected, not {text[:80]!r}")
        yield variable, content


CALL: Final = (
    *_EXECUTABLE, *_ARGUMENTS, *_ENVIRONMENT, *chain.from_iterable(_FILES.values()), *_MOVED,
    *_WITHOUT_EFFECT, "Key",
)  # fmt: skip
"""The attributes of a job that say how it is called and named, and nothing of where it may run."""


# --- options for the batch system -----------------------------------------------------------------


@attrs.frozen(slots=True, kw_only=True)
class OwnOptions:
    """The options of an order that its owner gave.

    Attributes:
        words: those that are part of the order: of the command line and of the script's lines.
        passing: those of variables, which are not.
        left_out: those that have no effect, each with its place and the reason.
    """

    words: tuple[str, ...] = ()
    passing: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


@attrs.frozen(slots=True)
class _Given:
    """An option with its words and its place."""

    name: str
    words: tuple[str, ...]
    place: str
    rank: int

    @property
    def text(self) -> str:
        return " ".join(self.words)


# By the batch systems' own rule the command line counts before variables, and these before lines.
_SCRIPT, _VARIABLES, _COMMAND = range(3)


def own_options(
    control: Control, script: bytes, environment: Mapping[str, str], given: Sequence[str],
    found: Sequence[str] = (),
) -> OwnOptions:  # fmt: skip
    r"""Gather an owner's options from the command line, variables and the script's lines.

    Of several with one meaning the command line counts before variables, and these before the
    script, as for the batch system itself. Flags that were found for the job's requirements count
    before variables and lines.

    Args:
        control: the table of the batch system.
        script: the content of the script.
        environment: the caller's variables.
        given: the options on the command line.
        found: the flags that were found for the job.

    Raises RefusedError, which names the option and its place, for one that is unknown, that cannot
    be honoured for a job with a key, or that contradicts the job's requirements.

    >>> from matchmaker.delegation.control import load_control
    >>> script = b"#!/bin/sh\n#SBATCH -t 5 -J sim\n"
    >>> made = own_options(load_control("slurm"), script, {}, ["-n2"])
    >>> made.words, made.left_out
    (('-t', '5', '-n', '2'), ('line 2: -J sim: the batch system knows the job by its key',))
    """
    every = [*_lines(control, script), *_of_variables(control, environment)]
    every += _options(control, given, "the command line", _COMMAND)
    needed = {one.name: one for one in _options(control, found, "", _COMMAND)}
    left: list[str] = []
    chosen: dict[str, _Given] = {}
    for one in every:
        place = f"{one.place}: {one.text}"
        if one.name in control.orders.refused:
            raise RefusedError(f"{place}: {control.orders.refused[one.name]}")
        if one.name in control.orders.left:
            left.append(f"{place}: {control.orders.left[one.name]}")
            continue
        if control.metadata.entry.startswith("CLASSAD_") and _FORGED.search(one.text):
            raise RefusedError(f"{place}: by this variable the job's key is known: leave it out")
        wrong = control.options.wrong(one.words)
        if wrong:
            raise RefusedError(f"{one.place}: {wrong}")
        need = needed.get(one.name)
        if need is not None and need.words == one.words:
            continue
        if need is not None and one.name not in control.orders.several:
            why = f"the job's requirements ask for {need.text}"
            if one.rank == _COMMAND:
                raise RefusedError(f"{place}: {why}; change the one or the other")
            left.append(f"{place}: {why}")
            continue
        before = chosen.get(one.name)
        if before is not None and one.name not in control.orders.several:
            if before.words != one.words:
                left.append(f"{before.place}: {before.text}: {one.place} has {one.text}")
            del chosen[one.name]
        chosen[
            one.name if one.name not in control.orders.several else f"{one.name} {len(chosen)}"
        ] = one
    return OwnOptions(
        words=tuple(w for one in chosen.values() if one.rank != _VARIABLES for w in one.words),
        passing=tuple(w for one in chosen.values() if one.rank == _VARIABLES for w in one.words),
        left_out=tuple(left),
    )


def _lines(control: Control, script: bytes) -> Iterator[_Given]:
    """The options in lines of a script."""
    for number, line in enumerate(script.decode("utf-8", "replace").splitlines(), 1):
        if control.orders.directive and line.startswith(control.orders.directive):
            text = line[len(control.orders.directive) :]
            place = f"line {number}"
            if text[:1].isalnum():
                continue  # Another word, such as #SBATCHES.
            try:
                words = shlex.split(text, comments=True)
            except ValueError as error:
                raise RefusedError(f"{place}: {error} in {line.strip()[:80]!r}") from None
            yield from _options(control, words, place, _SCRIPT)
        elif control.orders.leading and line.strip() and not line.startswith("#"):
            # After the first command the batch system reads no more of them either.
            return


def _of_variables(control: Control, environment: Mapping[str, str]) -> Iterator[_Given]:
    """The options in variables of the caller that the batch system's command would read."""
    for variable, value in sorted(environment.items()):
        if not control.orders.input_variables or not variable.startswith(
            control.orders.input_variables
        ):
            continue
        option = control.orders.variables.get(variable)
        if option is None:
            raise RefusedError(
                f"{variable}={value[:80]}: no option of {control.lrms} is known for this variable;"
                " unset it, or give the option itself"
            )
        flag = option in control.options.none and (not value or value.lower() in _YES)
        words = [option] if flag else [f"{option}={value}"]
        yield from _options(control, words, variable, _VARIABLES)


_FORGED: Final = re.compile(r"\bCLASSAD_(?:JOB|MARK|ATTEMPT|KEY)\b")
_YES: Final = ("1", "yes", "true", "y")


def _options(control: Control, words: Sequence[str], place: str, rank: int) -> Iterator[_Given]:
    """The options among some words, each by its long name, ``-l`` by each resource."""
    left = list(words)
    while left:
        word = left.pop(0)
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if word[:1] == "-" and word[:2] != "--" and len(word) > 2 and word not in control.names:
            # The short form with its value: -n2.
            name, equals, value = word[:2], " ", word[2:]
        own = [name, *([value] if equals and not name.startswith("--") else [])]
        if equals and name.startswith("--"):
            own = [word]
        wanted = 2 if name in control.options.two else int(control.takes_value(name))
        for _ in range(wanted - bool(equals)):
            if left:
                own.append(left.pop(0))
        long = control.orders.letters.get(name, name)
        long = next((group[0] for group in control.orders.alike if long in group), long)
        if name == "-l" and len(own) == 2:
            for each in own[1].split(","):
                resource = each.partition("=")[0]
                yield _Given(f"-l {resource}", ("-l", each), place, rank)
            continue
        yield _Given(long, tuple(own), place, rank)

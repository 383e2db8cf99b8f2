"""An order as its owner wrote it: the job's ad, lines of its script, variables, options.

:func:`invocation_of` reads how a job description (JDL of gLite and DIRAC) says that the job is
called. :func:`own_options` gathers the options for the batch system that its owner gave on the
command line, in variables such as ``SBATCH_PARTITION``, and in lines of the script such as
``#SBATCH``. Each is honoured, left out with a reason, or refused by name: none is lost without a
word. The tables of both are in ``systems/*.toml``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

import attrs

from matchmaker.classad import ClassAd
from matchmaker.delegation.control import Control
from matchmaker.delegation.errors import RefusedError
from matchmaker.delegation.record import Invocation

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
        directory: where the job runs; empty for the choice of the batch system.
        script: the path of a script in place of the job's own program.
        arguments: arguments in place of the job's own.

    Raises:
        ValueError: an attribute has a value of another kind.
        RefusedError: the description asks for what is not done here, such as a ``Prologue``.

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
    """An option with its words, and where it stands."""

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
    script, as for the batch system itself. What was found for the job's requirements counts before
    variables and lines.

    Args:
        control: the table of the batch system.
        script: the content of the script.
        environment: the caller's variables.
        given: the options on the command line.
        found: the flags that were found for the job.

    Raises RefusedError, which names the option and its place, for one that is not known, that
    cannot be honoured for a job with a key, or that contradicts what the job's requirements need.

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

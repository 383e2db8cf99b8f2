"""The commands for a job's life on each batch system: one table for each, in ``systems``.

A table is TOML beside the tables of flags in ``matchmaker.batch``: the command that parks a job,
the one that lists the queue, the accounting, the ones that release and end a job, and the options
that carry metadata. A word with a slot, such as ``{name}``, stays one word whatever fills it;
``{words}`` and ``{metadata}`` stand for any number of words.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

import attrs

from matchmaker.batch import known_lrms
from matchmaker.delegation.readers import READERS
from matchmaker.delegation.readers.reading import Reader

_SLOT: Final = re.compile(r"\{([A-Za-z]+)\}")


@attrs.frozen(slots=True)
class Call:
    """A command, and the meaning of its error messages.

    Attributes:
        argv: its words, with slots.
        each: what ``{jobs}`` among its words has for each job.
        join: what stands between these; where it is empty, each is a word.
        count: the command for the number of jobs, asked where the answer is empty.
        none: a pattern for the whole complaint of a command that says that there are no such jobs.
        by_id, by_name: its further words for jobs by their ids, or by their names, with ``{list}``;
            empty where it is asked for all jobs of ours.
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
    """Where a batch system keeps metadata of a job.

    Attributes:
        argv: the option, with ``{entries}``; empty where each entry is a line.
        entry: one entry, with ``{name}``, ``{Name}`` or ``{NAME}``, and ``{value}``.
        join: what stands between entries.
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
        """The first of some words that is no such option, and why; empty if all are.

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
        description: the text of a submit description, where the command takes one.
        look, recall, release, cancel: the commands; ``recall`` is None without accounting.
        metadata: where metadata go.
        options: the words that a caller may add to ``park``.
        orders: how owners give options of their own.
        refused: parts of what its command for submissions says where it will not take such a job,
            now or later; whatever else it says may pass.
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
    look: Call
    release: Call
    cancel: Call
    metadata: Carrier
    options: Options
    orders: OrderTable = OrderTable()
    refused: tuple[str, ...] = ()
    spaces: bool = False
    recall: Call | None = None
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
        table[name] = Call(**_tuples(table[name]))
    return Control(**table)


def _tuples(table: Mapping[str, Any]) -> dict[str, Any]:
    return {n: _tuple(v) if isinstance(v, list) else v for n, v in table.items()}


def _tuple(value: Any) -> Any:
    return tuple(map(_tuple, value)) if isinstance(value, list) else value


def filled(template: str, values: Mapping[str, str]) -> str:
    """A template with its slots filled; braces that are no slot stay.

    >>> filled("JobName={name}", {"name": "mm-{x}-1"})
    'JobName=mm-{x}-1'
    """
    return _SLOT.sub(lambda slot: values.get(slot[1], slot[0]), template)

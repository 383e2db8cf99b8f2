"""The directives in a job script, compared with the flags that it is submitted with."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping

from matchmaker._limits import BATCH_LIMITS as LIMITS
from matchmaker.batch.flags import Submission
from matchmaker.batch.mapping import Mapping as Table
from matchmaker.batch.templates import REPEATED


def contradictions(script: str, submission: Submission, table: Table) -> list[str]:
    r"""The directives of a script that contradict the flags, and the lines that it lacks.

    A batch system takes the option on the command line and ignores the one in the script.

    >>> from matchmaker import parse_ad, reduce
    >>> from matchmaker.batch import flags, load_mapping
    >>> anywhere = reduce(parse_ad("[]"), parse_ad("[]"), lambda name: "host")
    >>> made = flags(anywhere, "slurm", queue="long")
    >>> contradictions("#!/bin/sh\n#SBATCH -p short\n", made, load_mapping("slurm"))
    ['line 2 has -p short, and the flags --partition=long']
    """
    ours = {name: text for name, _, text in _options(submission.argv, table.letters)}
    values = {name: value for name, value, _ in _options(submission.argv, table.letters)}
    prefix = table.directive.replace("{flag}", "")
    found: list[str] = []
    lines = script[: LIMITS.script].splitlines()
    for number, line in enumerate(lines, 1):
        if not prefix or not line.startswith(prefix):
            continue
        try:
            words = shlex.split(line[len(prefix) :], comments=True)
        except ValueError:
            continue
        for name, value, text in _options(words, table.letters):
            if values.get(name, value) != value and name not in REPEATED:
                found.append(f"line {number} has {text}, and the flags {ours[name]}")
    return [*found, *lacking(script, submission)]


def lacking(script: str, submission: Submission) -> list[str]:
    r"""Name the lines that the script lacks, such as ``module load`` for a feature.

    >>> import attrs
    >>> from matchmaker import parse_ad, reduce
    >>> from matchmaker.batch import flags
    >>> made = flags(reduce(parse_ad("[]"), parse_ad("[]"), lambda name: "host"), "slurm")
    >>> lacking("#!/bin/sh\n", attrs.evolve(made, lines=("module load gcc",)))
    ['it lacks the line module load gcc']
    """
    known = {line.strip() for line in script[: LIMITS.script].splitlines()}
    return [f"it lacks the line {line}" for line in submission.lines if line not in known]


def _options(words: Iterable[str], letters: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """The long name of each option or resource, its value, and the words for both."""
    parts: list[list[str]] = []
    for word in words:
        if word.startswith("-") or not parts:
            parts.append([word])
        else:
            parts[-1].append(word)
    for option, *values in parts:
        name, equals, value = option.partition("=")
        if not equals and option[:2] in letters and len(option) > 2:
            name, value = option[:2], option[2:]
        text = " ".join([option, *values])
        if name == "-l":
            for each in ",".join(values).split(","):
                resource, _, amount = each.partition("=")
                yield resource, amount, f"-l {each}"
        else:
            yield letters.get(name, name), " ".join([*([value] if value else []), *values]), text

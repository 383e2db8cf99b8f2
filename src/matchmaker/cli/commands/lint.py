"""``classad lint``: find mistakes in ads and expressions, and probable ones."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import click
from rich.cells import cell_len

from matchmaker import ClassAd, ParseError, __version__
from matchmaker._diagnostics import Diagnostic
from matchmaker.classad.errors import shorten
from matchmaker.cli import inputs
from matchmaker.cli.output import count, in_colour, print_json, printable, raw_stream
from matchmaker.glue.schema import attributes
from matchmaker.linting import FORMATS, RULES, lint

SCHEMAS = {"glue": lambda: [known.name for known in attributes().values()]}


@click.command("lint")
@click.argument("files", metavar="FILE…", nargs=-1)
@click.option("-e", "--expr", "expressions", multiple=True, help="Check this expression too.")
@click.option(
    "--target", "target_files", multiple=True, metavar="FILE", help="Ads that FILE is to match."
)
@click.option("--schema", type=click.Choice(sorted(SCHEMAS)), help="Names that are known.")
@click.option(
    "--format", "format_", type=click.Choice(("auto", *FORMATS)), default="auto", show_default=True
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--sarif", "as_sarif", is_flag=True, help="Print SARIF 2.1.0, for code review tools.")
def lint_command(
    *, files: tuple[str, ...], expressions: tuple[str, ...], target_files: tuple[str, ...],
    schema: str | None, format_: str, as_json: bool, as_sarif: bool,
) -> int:  # fmt: skip
    """Find mistakes in the ads or the expression of each FILE.

    Exit status: 0 nothing found but notes, 1 warnings or errors, 2 a file that is not text.
    """
    if not files and not expressions:
        raise click.UsageError("nothing to check: give FILE or --expr EXPR")
    if any(not text.strip() for text in expressions):
        raise click.UsageError("--expr is empty: there is nothing to check in it")
    if as_json and as_sarif:
        raise click.UsageError("--json and --sarif exclude each other")
    targets: list[ClassAd] = [ad for path in target_files for ad in inputs.ads(path)]
    texts = [(path, _text(path), format_) for path in files]
    texts += [("expression", text, "expression") for text in expressions]
    known = SCHEMAS[schema] if schema else None
    found = [
        (finding, text)
        for name, text, kind in texts
        for finding in lint(text, schema=known, targets=targets, format=kind, name=name)
    ]
    findings = [finding for finding, _ in found]
    if as_json:
        print_json([_data(finding) for finding in findings])
    elif as_sarif:
        print_json(sarif(findings))
    else:
        paint = click.style if sys.stdout.isatty() and in_colour() else _plain
        same: dict[tuple[str, ...], list[tuple[Diagnostic, str]]] = {}
        for finding, text in found:
            key = (finding.source, finding.rule, finding.message, finding.raw)
            same.setdefault(key, []).append((finding, text))
        for (finding, text), *others in same.values():
            parts = [*_lines(finding, text, paint), *_also([other.line for other, _ in others])]
            print("\n".join(parts), file=raw_stream(sys.stdout))
        print(_summary(findings))
    return 1 if any(finding.severity != "note" for finding in findings) else 0


def _text(path: str) -> str:
    with inputs.opened(path) as file:
        inputs.refuse_ldif(path, file)
        data = file.read()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ParseError(
            f"byte {data[error.start]:#04x} is not UTF-8 text", source=path, line=line
        ) from None


# --- for people -----------------------------------------------------------------------------------

# Where the output has no terminal, a line of code review still fits.
_WIDTH = 100


_COLOURS: Final = {"error": "red", "warning": "yellow", "note": "cyan"}


def _plain(text: str, **_: Any) -> str:
    return text


def _lines(finding: Diagnostic, text: str, paint: Callable[..., str]) -> Iterable[str]:
    """A finding with its line of the text and a mark below the part that it is about."""
    place = printable(f"{finding.source}:{finding.line}:{finding.column}")
    colour = _COLOURS[finding.severity]
    kind = paint(f"{finding.severity} {finding.rule}", fg=colour, bold=True)
    yield f"{paint(place, bold=True)}: {kind}: {printable(finding.message)}"
    line = text.split("\n")[finding.line - 1].replace("\t", " ").rstrip("\r")
    # A window of the line, so that the mark is seen however long the line is.
    start = max(0, finding.column - 1 - _WIDTH // 2) if len(line) > _WIDTH else 0
    shown = printable(line[start : start + _WIDTH])
    if shown.strip():
        end = finding.end_column - 1 if finding.end_line == finding.line else len(line)
        marked = printable(line[finding.column - 1 : min(end, start + _WIDTH)])
        before = cell_len(shown[: finding.column - 1 - start])
        yield f"    {shown}"
        yield f"    {' ' * before}{paint('^' + '~' * (cell_len(marked) - 1), fg=colour)}"
    if finding.fix:
        fix = shorten(printable(" ".join(finding.fix.split())), _WIDTH)
        yield f"    {paint('fix', fg='green')}: {fix}"


# A mistake in each of a million ads is one line, not a million.
_MOST_LINES: Final = 10


def _also(numbers: Sequence[int]) -> Iterable[str]:
    """Say which other lines have a finding."""
    if numbers:
        shown = ", ".join(map(str, list(dict.fromkeys(numbers))[:_MOST_LINES]))
        more = f" …, {len(numbers)} times" if len(numbers) > _MOST_LINES else ""
        yield f"    also on line{'s' if len(set(numbers)) > 1 else ''} {shown}{more}"


def _summary(findings: Sequence[Diagnostic]) -> str:
    parts = [
        count(number, severity)
        for severity in ("error", "warning", "note")
        if (number := sum(finding.severity == severity for finding in findings))
    ]
    return ", ".join(parts) or "nothing found"


# --- as data --------------------------------------------------------------------------------------


def _data(finding: Diagnostic) -> dict[str, Any]:
    place = ("line", "column", "end_line", "end_column")
    return {
        "code": finding.rule, "severity": finding.severity, "message": finding.message,
        "source": finding.source, **{name: getattr(finding, name) for name in place},
        "text": finding.raw, "fix": finding.fix,
    }  # fmt: skip


def sarif(findings: Iterable[Diagnostic]) -> dict[str, Any]:
    """Findings as a log of the Static Analysis Results Interchange Format, version 2.1.0."""
    codes = list(RULES)
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "classad lint",
                        "version": __version__,
                        "semanticVersion": __version__,
                        "rules": [
                            {
                                "id": rule.code,
                                "shortDescription": {"text": rule.title},
                                "defaultConfiguration": {"level": rule.severity},
                            }
                            for rule in RULES.values()
                        ],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_result(finding, codes.index(finding.rule)) for finding in findings],
            }
        ],
    }


def _result(finding: Diagnostic, rule: int) -> dict[str, Any]:
    artifact = {"uri": _uri(finding.source)}
    region: dict[str, Any] = {
        "startLine": finding.line, "startColumn": finding.column, "endLine": finding.end_line,
        "endColumn": finding.end_column,
    }  # fmt: skip
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": rule,
        "level": finding.severity,
        "message": {"text": finding.message},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": artifact,
                    "region": {**region, "snippet": {"text": finding.raw}},
                }
            }
        ],
    }
    if finding.fix:
        replacement = {"deletedRegion": region, "insertedContent": {"text": finding.fix}}
        change = {"artifactLocation": artifact, "replacements": [replacement]}
        result["fixes"] = [{"artifactChanges": [change]}]
    return result


def _uri(source: str) -> str:
    """A file's name as a URI; a relative one stays relative."""
    if source == "-":
        return "stdin"
    path = Path(source)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())

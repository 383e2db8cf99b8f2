"""``classad eval``: evaluates expressions in ads, and traces them."""

from __future__ import annotations

import sys
from itertools import islice
from typing import Any

import click

import matchmaker as mm
from matchmaker import ClassAd, Expr, ParseError, parse_expr
from matchmaker.classad.printer import brief
from matchmaker.cli import inputs
from matchmaker.cli.output import plain, print_json, print_trace, printable, show, table
from matchmaker.matching.pair import value_text


class _Command(click.Command):
    """A command that explains how to write an argument that begins with a minus."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name.startswith("--"):
                raise
            raise click.UsageError(
                f"{error.format_message()} Expressions that begin with a minus come after --", ctx
            ) from None


@click.command("eval", cls=_Command)
@click.argument("expressions", metavar="[EXPR]…", nargs=-1)
@click.option("--ad", "ad_files", multiple=True, metavar="FILE", help="Ads to evaluate in: MY.")
@click.option("--my", "texts", multiple=True, metavar="TEXT", help="An ad to evaluate in, as text.")
@click.option("--target", metavar="FILE|TEXT", help="The other ad: TARGET. Text begins with [.")
@click.option("--trace", "traced", is_flag=True, help="Show the value of each part, as a tree.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def eval_command(
    *, expressions: tuple[str, ...], ad_files: tuple[str, ...], texts: tuple[str, ...],
    target: str | None, traced: bool, as_json: bool,
) -> int:  # fmt: skip
    """Print the value of each EXPR in each ad; with no ad, on its own.

    Without any EXPR they are read from standard input, one a line; on a terminal a prompt asks for
    them. --ad and --my may be given several times; - is standard input.
    """
    taken = [*ad_files, *([target] if target else [])].count("-")
    interactive = not expressions and not as_json and sys.stdin.isatty()
    if taken + (not expressions and not interactive) > 1:
        raise click.UsageError("standard input can be read only once")
    if interactive and taken:
        raise click.UsageError("give an expression: standard input is to hold ads")
    ads = [ad for path in ad_files for ad in inputs.ads(path)]
    ads += [_ad_of_text(text, "--my") for text in texts]
    if (ad_files or texts) and not ads:
        raise ParseError("no ads were found", source=" ".join(ad_files))
    other = _target(target)
    if interactive:
        from matchmaker.cli.prompt import interact

        return interact(ads[0] if ads else ClassAd(), other, len(ads))
    parsed = [parse_expr(text) for text in expressions] if expressions else _lines()
    if as_json:
        print_json(_data(parsed, ads or [ClassAd()], other, traced=traced))
    elif traced:
        _print_traces(parsed, ads or [ClassAd()], other)
    elif len(ads) > 1:
        rows = [
            [_name(ad, n), *(value_text(e.eval(ad, other)) for e in parsed)]
            for n, ad in enumerate(ads, 1)
        ]
        show(table(["ad", *(printable(brief(e, 40)) for e in parsed)], rows))
    else:
        my = ads[0] if ads else ClassAd()
        for expression in parsed:
            print(printable(value_text(expression.eval(my, other))))
    return 0


def _ad_of_text(text: str, option: str) -> ClassAd:
    try:
        found = list(islice(mm.parse_ads(text), 2))
    except ParseError as error:
        if option == "--my" and text.strip() and not set("[=") & set(text):
            advice = "an ad in a file is given as --ad FILE"
            raise ParseError(
                f"{text[:60]!r} is no text of an ad", source=option, hint=advice
            ) from None
        raise error.at(option) from None
    if len(found) == 1:
        return found[0]
    several = "give --my once for each ad" if option == "--my" else "there is one target"
    raise ParseError(
        "more than one ad was found" if found else "no ad was found",
        source=option, hint=several if found else "such as '[ Cpus = 4 ]'",
    )  # fmt: skip


def _target(given: str | None) -> ClassAd | None:
    if given is None:
        return None
    if given.lstrip().startswith("["):
        return _ad_of_text(given, "--target")
    return inputs.one_ad(given)


def _lines() -> list[Expr]:
    """Read expressions from standard input; skip empty lines and those that begin with #."""
    found: list[Expr] = []
    text = sys.stdin.buffer.read().decode("utf-8-sig")
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                found.append(parse_expr(line))
            except ParseError as error:
                raise error.at("", number) from None
    return found


def _name(ad: ClassAd, number: int) -> str:
    name = ad.eval("Name")
    return name if isinstance(name, str) else str(number)


def _data(
    expressions: list[Expr], ads: list[ClassAd], target: ClassAd | None, *, traced: bool
) -> list[dict[str, Any]]:
    """A record for each expression in each ad."""
    found: list[dict[str, Any]] = []
    for number, ad in enumerate(ads, 1):
        for expression in expressions:
            known = {"ad": _name(ad, number), "expression": str(expression)}
            if traced:
                whole = mm.trace(expression, ad, target)
                found.append({**known, **_trace_data(whole)})
            else:
                found.append({**known, "value": plain(expression.eval(ad, target))})
    return found


def _trace_data(whole: mm.Trace) -> dict[str, Any]:
    """A trace as nested records; a part that was not evaluated has no value."""
    data: dict[int, dict[str, Any]] = {}
    top: dict[str, Any] = {}
    for depth, part in whole.walk():
        record: dict[str, Any] = {"expression": str(part.expression)}
        if part.value is not None:
            record["value"] = plain(part.value)
        if part.note:
            record["note"] = part.note
        record["parts"] = []
        data[depth] = record
        if depth:
            data[depth - 1]["parts"].append(record)
        else:
            top = record
    return top


def _print_traces(expressions: list[Expr], ads: list[ClassAd], target: ClassAd | None) -> None:
    for number, ad in enumerate(ads, 1):
        if len(ads) > 1:
            print(f"{printable(_name(ad, number))}:")
        for expression in expressions:
            print_trace(mm.trace(expression, ad, target))

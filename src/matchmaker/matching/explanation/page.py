"""Explanations as HTML: a fragment for a notebook, and a page of its own. Both have a picture.

Texts come from strangers' ads: every one goes through ``_text``. Nothing is fetched, and no script
is run: the page forbids both.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import attrs

from matchmaker.classad.unparse import unparse
from matchmaker.matching.explanation.pairs import PairExplanation
from matchmaker.matching.explanation.report import Explanation
from matchmaker.matching.pair import describe, shorten

Explained: TypeAlias = Explanation | PairExplanation

MOST_STAGES: Final = 30
"""With more clauses than this, the funnel shows those alone that exclude something more."""

_STYLE: Final = """
.mm { font: 14px/1.45 system-ui, sans-serif; max-width: 62em; }
.mm h1 { font-size: 1.4em; } .mm h2 { font-size: 1.1em; margin: 1.6em 0 .4em; }
.mm table { border-collapse: collapse; }
.mm th, .mm td { padding: .2em .8em .2em 0; text-align: left; vertical-align: top; }
.mm th { font-weight: 600; border-bottom: 1px solid #8888; }
.mm .n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.mm code { font: 13px/1.4 ui-monospace, monospace; overflow-wrap: anywhere; }
.mm .bar { display: inline-block; height: .7em; background: #3b82c4; min-width: 1px; }
.mm .yes { color: #1a7f4b; } .mm .no { color: #c2410c; }
.mm svg { max-width: 100%; height: auto; } .mm svg text { fill: currentColor; font-size: 13px; }
"""

_PAGE: Final = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>:root {{ color-scheme: light dark; }} body {{ margin: 2em; }}</style>
</head>
<body>
{body}
</body>
</html>
"""


def page(explained: Explained) -> str:
    """A page of its own.

    >>> from matchmaker import Pool, parse_ad
    >>> made = page(Pool([parse_ad('[ Name = "a" ]')]).explain(parse_ad("[]")))
    >>> made.startswith("<!DOCTYPE html>"), "<title>1 of 1 match</title>" in made
    (True, True)
    """
    return _PAGE.format(title=_text(explained.summary()), body=fragment(explained))


def fragment(explained: Explained) -> str:
    """What stands in the page, with its style: for a notebook."""
    parts = [f"<style>{_STYLE}</style>", f"<h1>{_text(explained.summary())}</h1>"]
    parts += _pair(explained) if isinstance(explained, PairExplanation) else _counts(explained)
    return f'<div class="mm">{"".join(parts)}</div>'


def _text(value: object) -> str:
    """Text as HTML has it; what is no printable character, such as an override, is seen as one."""
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(value))
    return html.escape(text, quote=True)


def _code(text: str) -> str:
    return f"<code>{_text(shorten(text, 1000))}</code>"


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]], numbers: int) -> str:
    """A table of cells that are HTML; the first `numbers` columns hold numbers."""

    def line(tag: str, cells: Sequence[str]) -> str:
        made = [
            f'<{tag} class="n">{cell}</{tag}>' if place < numbers else f"<{tag}>{cell}</{tag}>"
            for place, cell in enumerate(cells)
        ]
        return f"<tr>{''.join(made)}</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"<table><thead>{line('th', titles)}</thead><tbody>{body}</tbody></table>"


def _list(title: str, items: Iterable[object]) -> str:
    made = "".join(f"<li>{_text(item)}</li>" for item in items)
    return f"<h2>{title}</h2><ul>{made}</ul>" if made else ""


# --- a pool ---------------------------------------------------------------------------------------


def _counts(explained: Explanation) -> list[str]:
    parts = [funnel(explained)]
    rows: list[tuple[str, ...]]
    titles: tuple[str, ...]
    total = explained.total or 1
    if explained.clauses:
        more = explained.exceptional()
        rows = [
            (str(number), f"{c.matched:,}", f"{c.cumulative:,}", f"{c.near:,}",
             *(f"{n:,}" for n in others),
             f'<span class="bar" style="width: {9 * c.matched / total:.2f}em"></span>',
             _code(str(c)))
            for number, (c, *others) in enumerate(
                zip(explained.clauses, *more.values(), strict=True), 1
            )
        ]  # fmt: skip
        titles = ("", "alone", "so far", "near misses", *more, "", "clause")
        parts += ["<h2>What the job requires</h2>", _table(titles, rows, 4 + len(more))]
    parts.append(_list("What is amiss", explained.remarks()))
    parts.append(_list("What excludes everything", explained.conflicts))
    parts.append(_list("What would help", explained.suggestions))
    if explained.ad_clauses:
        rows = [
            (f"{c.held:,}", f"{c.refused:,}", f"{c.suitable:,}",
             f'<span class="bar" style="width: {9 * c.refused / total:.2f}em"></span>',
             _code(str(c)))
            for c in explained.worst()
        ]  # fmt: skip
        titles = ("held by", "refuses", "suitable", "", "clause")
        parts += ["<h2>What the slots require</h2>", _table(titles, rows, 3)]
        parts.append(f"<p>{_text(explained.unseen())}</p>" if explained.unseen() else "")
    return parts


@attrs.frozen(slots=True)
class Stage:
    """A step of the funnel: how many slots are left, after what."""

    left: int
    after: str


def stages(explained: Explanation) -> list[Stage]:
    """All slots, what each clause of the job leaves of them, and what accepts the job.

    >>> from matchmaker import Pool, parse_ad
    >>> pool = Pool([parse_ad('[ Name = "a" ]')])
    >>> [(s.left, s.after) for s in stages(pool.explain(parse_ad("[ Requirements = 1 > 2 ]")))]
    [(1, 'all slots'), (0, '1  1 > 2'), (0, 'accept the job')]
    """
    found = [Stage(explained.total, "all slots")]
    for number, clause in enumerate(explained.clauses, 1):
        some = len(explained.clauses) <= MOST_STAGES
        if some or (clause.cumulative < found[-1].left and len(found) <= MOST_STAGES):
            found.append(Stage(clause.cumulative, f"{number}  {clause}"))
    return [*found, Stage(explained.matched, "accept the job")]


_WIDE, _LABEL, _STEP, _THICK = 320, 350, 44, 22


def funnel(explained: Explanation) -> str:
    """The picture: a bar for each stage as wide as what is left, joined to the next."""
    found = stages(explained)
    largest = explained.total or 1
    middle = _WIDE / 2
    parts: list[str] = []
    above: float | None = None
    for place, stage in enumerate(found):
        half = max(_WIDE * stage.left / largest, 2 if stage.left else 0) / 2
        top = place * _STEP
        if above is not None:
            corners = (
                (middle - above, top - _STEP + _THICK), (middle + above, top - _STEP + _THICK),
                (middle + half, top), (middle - half, top),
            )  # fmt: skip
            points = " ".join(f"{x:.1f},{y}" for x, y in corners)
            parts.append(f'<polygon points="{points}" fill="#3b82c4" opacity=".3"/>')
        colour = "#1a7f4b" if place == len(found) - 1 else "#3b82c4"
        parts.append(
            f'<g class="stage"><title>{_text(shorten(stage.after, 1000))}</title>'
            f'<rect x="{middle - half:.1f}" y="{top}" width="{2 * half:.1f}" height="{_THICK}"'
            f' fill="{colour}"/>'
            f'<text x="{_LABEL}" y="{top + 16}"><tspan font-weight="600">{stage.left:,}</tspan>'
            f'<tspan dx="10">{_text(shorten(stage.after, 72))}</tspan></text></g>'
        )
        above = half
    height = len(found) * _STEP
    return (
        f'<svg class="funnel" xmlns="http://www.w3.org/2000/svg" role="img" width="920"'
        f' height="{height}" viewBox="0 0 920 {height}" aria-label="{_text(explained.summary())}">'
        f"{''.join(parts)}</svg>"
    )


# --- a pair ---------------------------------------------------------------------------------------


def _pair(explained: PairExplanation) -> list[str]:
    parts = []
    for title, found in explained.sides():
        parts.append(f"<h2>{title[0].upper()}{title[1:]}</h2>")
        rows = []
        for one in found:
            clause = one.clause
            text = _code(unparse(clause.expression))
            if clause.definition is not None:
                text += f": {_code(unparse(clause.definition))}"
            facts = [f"{_code(name)} = {_code(describe(value))}" for name, value in clause.facts]
            kind = "yes" if clause.value is True else "no"
            value = f'<span class="{kind}">{_text(describe(clause.value))}</span>'
            rows.append((one.number, value, text, "<br>".join(facts)))
        parts.append(_table(("", "is", "clause", "with"), rows, 0) if rows else "<p>nothing</p>")
    return parts

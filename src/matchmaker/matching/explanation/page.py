"""Tables, lists and a picture as HTML: a fragment for a notebook, and a whole page.

What they say is in ``report`` and ``pairs``. Texts come from strangers' ads: each is escaped here.
Nothing is fetched, and no script runs: the page forbids both.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import attrs

from matchmaker.matching.pair import shorten


@attrs.frozen(slots=True)
class Code:
    """A cell with expressions, several separated by a colon."""

    texts: tuple[str, ...]


@attrs.frozen(slots=True)
class Bar:
    """A cell with a bar: the share of its full width."""

    share: float


@attrs.frozen(slots=True)
class Mark:
    """A cell with a value that is as wanted, or not."""

    text: str
    good: bool


@attrs.frozen(slots=True)
class Facts:
    """A cell with names and their values, one below the other."""

    pairs: tuple[tuple[str, str], ...]


Cell: TypeAlias = str | Code | Bar | Mark | Facts


@attrs.frozen(slots=True)
class Table:
    """A table under a heading; the first `numbers` columns hold numbers. ``note`` stands below."""

    heading: str
    titles: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    numbers: int = 0
    note: str = ""


@attrs.frozen(slots=True)
class Items:
    """A list under a heading; without items, nothing."""

    heading: str
    items: Sequence[object]


@attrs.frozen(slots=True)
class Funnel:
    """A picture: what is left of a total after each stage, as numbers with labels."""

    total: int
    stages: Sequence[tuple[int, str]]


@attrs.frozen(slots=True)
class Drawing:
    """A picture under a heading: SVG from a library that escapes the texts in it."""

    heading: str
    svg: str


Part: TypeAlias = Table | Items | Funnel | Drawing


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


def page(title: str, parts: Iterable[Part]) -> str:
    """A whole page.

    >>> made = page("1 < 2", [Items("What is amiss", ["nothing"])])
    >>> made.startswith("<!DOCTYPE html>"), "<title>1 &lt; 2</title>" in made
    (True, True)
    """
    return _PAGE.format(title=_text(title), body=fragment(title, parts))


def fragment(title: str, parts: Iterable[Part]) -> str:
    """What stands in the page, with its style: for a notebook."""
    made = [f"<style>{_STYLE}</style>", f"<h1>{_text(title)}</h1>"]
    for part in parts:
        if isinstance(part, Funnel):
            made.append(_funnel(part, title))
        elif isinstance(part, Drawing):
            made.append(f"<h2>{_text(part.heading)}</h2>{part.svg}")
        else:
            made.append(_table(part) if isinstance(part, Table) else _list(part))
    return f'<div class="mm">{"".join(made)}</div>'


def _text(value: object) -> str:
    """Text as HTML has it; a character that does not print, such as an override, shows as one."""
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(value))
    return html.escape(text, quote=True)


def _code(text: str) -> str:
    return f"<code>{_text(shorten(text, 1000))}</code>"


def _cell(cell: Cell) -> str:
    if isinstance(cell, Code):
        return ": ".join(map(_code, cell.texts))
    if isinstance(cell, Bar):
        return f'<span class="bar" style="width: {9 * cell.share:.2f}em"></span>'
    if isinstance(cell, Mark):
        return f'<span class="{"yes" if cell.good else "no"}">{_text(cell.text)}</span>'
    if isinstance(cell, Facts):
        return "<br>".join(f"{_code(name)} = {_code(value)}" for name, value in cell.pairs)
    return _text(cell)


def _table(table: Table) -> str:
    def line(tag: str, cells: Iterable[str]) -> str:
        made = [
            f'<{tag} class="n">{cell}</{tag}>'
            if place < table.numbers
            else f"<{tag}>{cell}</{tag}>"
            for place, cell in enumerate(cells)
        ]
        return f"<tr>{''.join(made)}</tr>"

    made = f"<h2>{_text(table.heading)}</h2>"
    if table.rows:
        body = "".join(line("td", map(_cell, row)) for row in table.rows)
        head = line("th", map(_text, table.titles))
        made += f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"
    return f"{made}<p>{_text(table.note)}</p>" if table.note else made


def _list(part: Items) -> str:
    made = "".join(f"<li>{_text(item)}</li>" for item in part.items)
    return f"<h2>{_text(part.heading)}</h2><ul>{made}</ul>" if made else ""


_WIDE, _LABEL, _STEP, _THICK = 320, 350, 44, 22


def _funnel(part: Funnel, title: str) -> str:
    """The picture: a bar for each stage as wide as what is left, joined to the next."""
    largest = part.total or 1
    middle = _WIDE / 2
    parts: list[str] = []
    above: float | None = None
    for place, (left, label) in enumerate(part.stages):
        half = max(_WIDE * left / largest, 2 if left else 0) / 2
        top = place * _STEP
        if above is not None:
            corners = (
                (middle - above, top - _STEP + _THICK), (middle + above, top - _STEP + _THICK),
                (middle + half, top), (middle - half, top),
            )  # fmt: skip
            points = " ".join(f"{x:.1f},{y}" for x, y in corners)
            parts.append(f'<polygon points="{points}" fill="#3b82c4" opacity=".3"/>')
        colour = "#1a7f4b" if place == len(part.stages) - 1 else "#3b82c4"
        parts.append(
            f'<g class="stage"><title>{_text(shorten(label, 1000))}</title>'
            f'<rect x="{middle - half:.1f}" y="{top}" width="{2 * half:.1f}" height="{_THICK}"'
            f' fill="{colour}"/>'
            f'<text x="{_LABEL}" y="{top + 16}"><tspan font-weight="600">{left:,}</tspan>'
            f'<tspan dx="10">{_text(shorten(label, 72))}</tspan></text></g>'
        )
        above = half
    height = len(part.stages) * _STEP
    return (
        f'<svg class="funnel" xmlns="http://www.w3.org/2000/svg" role="img" width="920"'
        f' height="{height}" viewBox="0 0 920 {height}" aria-label="{_text(title)}">'
        f"{''.join(parts)}</svg>"
    )

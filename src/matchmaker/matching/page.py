"""Write a page of HTML: headings, tables, bars.

Texts come from strangers' ads: each is escaped here. Nothing is fetched, and no script runs: the
page forbids both.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from matchmaker.classad.errors import shorten

if TYPE_CHECKING:
    pass


@attrs.frozen(slots=True)
class CodeCell:
    """A cell with expressions, several separated by a colon."""

    texts: tuple[str, ...]


@attrs.frozen(slots=True)
class BarCell:
    """A cell with a bar: the share of its full width."""

    share: float


@attrs.frozen(slots=True)
class MarkCell:
    """A cell with a value that is as wanted, or not."""

    text: str
    good: bool


@attrs.frozen(slots=True)
class FactsCell:
    """A cell with names and their values, one below the other; or words without a name."""

    pairs: tuple[tuple[str, str], ...]


Cell: TypeAlias = str | CodeCell | BarCell | MarkCell | FactsCell


@attrs.frozen(slots=True)
class PageTable:
    """A table under a heading; the first `numbers` columns hold numbers. ``note`` stands below."""

    heading: str
    titles: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    numbers: int = 0
    note: str = ""


@attrs.frozen(slots=True)
class PageList:
    """A list under a heading; without items, nothing."""

    heading: str
    items: Sequence[object]


@attrs.frozen(slots=True)
class Funnel:
    """A picture: the rest of a total after each stage, as numbers with labels."""

    total: int
    stages: Sequence[tuple[int, str]]


@attrs.frozen(slots=True)
class Drawing:
    """A picture under a heading: SVG from a library that escapes the texts in it."""

    heading: str
    svg: str


@attrs.frozen(slots=True)
class PageSection:
    """Parts under a title that opens and closes them; ``opened`` if they are seen at first."""

    title: str
    parts: Sequence[PagePart]
    opened: bool = False


PagePart: TypeAlias = PageTable | PageList | Funnel | Drawing | PageSection


_STYLE: Final = """
.mm { --blue: #3b82c4; --green: #1a7f4b; --yes: #1a7f4b; --no: #c2410c;
  font: 14px/1.45 system-ui, sans-serif; max-width: 84em; }
.mm h1 { font-size: 1.4em; margin: 0 0 .3em; overflow-wrap: anywhere; }
.mm h2 { font-size: 1.1em; margin: 1.6em 0 .4em; }
.mm p, .mm li { overflow-wrap: anywhere; } .mm ul { padding-left: 1.2em; }
.mm .of { margin: 0 0 1.2em; opacity: .75; }
.mm table { border-collapse: collapse; }
.mm th, .mm td { padding: .2em .8em .2em 0; text-align: left; vertical-align: top; }
.mm th { font-weight: 600; border-bottom: 1px solid #8888; }
.mm .n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.mm code { font: 13px/1.4 ui-monospace, monospace; overflow-wrap: anywhere; }
.mm summary { font-size: 1.2em; font-weight: 600; margin: 1.2em 0 .4em; cursor: pointer;
  overflow-wrap: anywhere; }
.mm details > div { border-left: 3px solid #8884; padding-left: 1em; }
.mm .bar { display: inline-block; height: .7em; background: var(--blue); min-width: 1px; }
.mm .yes { color: var(--yes); } .mm .no { color: var(--no); }
.mm svg { max-width: 100%; height: auto; } .mm svg text { fill: currentColor; font-size: 13px; }
.mm .funnel { list-style: none; margin: 0; padding: 0; }
.mm .stage { display: grid; grid-template-columns: minmax(0, 22em) minmax(0, 1fr); gap: 0 1.5em;
  align-items: center; margin: 0 0 .5em; }
.mm .stage i { display: block; height: 1.5em; margin: 0 auto; background: var(--blue); }
.mm .stage:last-child i { background: var(--green); }
.mm .stage b { margin-right: .6em; font-variant-numeric: tabular-nums; }
@media (min-width: 75em) {
  /* A table counts with whole words here; only those that no line holds are broken. */
  .mm td code { overflow-wrap: normal; } .mm td .long { overflow-wrap: anywhere; }
}
@media (prefers-color-scheme: dark) { .mm { --yes: #4ade80; --no: #fb923c; } }
@media (max-width: 46em) {
  .mm details > div { border: 0; padding: 0; }
  .mm .stage { display: flex; flex-direction: column-reverse; align-items: stretch; }
  .mm table, .mm tbody, .mm tr, .mm td { display: block; } .mm thead { display: none; }
  .mm tr { border: 1px solid #8888; border-radius: .4em; margin: 0 0 .7em; padding: .4em .7em; }
  .mm td, .mm .n { padding: .1em 0; text-align: left; white-space: normal; }
  .mm td[data-of]:not([data-of=""])::before { content: attr(data-of) ": "; opacity: .75; }
}
"""

_PAGE: Final = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>:root {{ color-scheme: light dark; }} body {{ margin: 2em; }}
@media (max-width: 46em) {{ body {{ margin: 1em; }} }}</style>
</head>
<body>
{body}
</body>
</html>
"""


def page(title: str, parts: Iterable[PagePart], of: str = "") -> str:
    """Return a whole page. `of` names the job, the pool and the time.

    >>> made = page("1 < 2", [PageList("What is amiss", ["nothing"])])
    >>> made.startswith("<!DOCTYPE html>"), "<title>1 &lt; 2</title>" in made
    (True, True)
    """
    name = f"{title}: {of}" if of else title
    return _PAGE.format(title=_text(name), body=fragment(title, parts, of))


def fragment(title: str, parts: Iterable[PagePart], of: str = "") -> str:
    """Return the page's body with its style, for a notebook."""
    made = [f"<style>{_STYLE}</style>", f"<h1>{_text(title)}</h1>"]
    if of:
        made.append(f'<p class="of">{_text(of)}</p>')
    made += [_made(part, title) for part in parts]
    return f'<div class="mm">{"".join(made)}</div>'


def _made(part: PagePart, title: str) -> str:
    if isinstance(part, PageSection):
        inner = "".join(_made(one, part.title) for one in part.parts)
        opened = " open" if part.opened else ""
        summary = f"<summary>{_text(part.title)}</summary>"
        return f"<details{opened}>{summary}<div>{inner}</div></details>"
    if isinstance(part, Funnel):
        return _funnel(part, title)
    if isinstance(part, Drawing):
        return f"<h2>{_text(part.heading)}</h2>{part.svg}"
    return _table(part) if isinstance(part, PageTable) else _list(part)


def _text(value: object) -> str:
    """Text as HTML has it; a character that does not print, such as an override, shows as one."""
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(value))
    return html.escape(text, quote=True)


def _code(text: str) -> str:
    words = _LONG.split(shorten(text, 1000))
    made = (f'<span class="long">{_text(w)}</span>' if n % 2 else _text(w)
            for n, w in enumerate(words))  # fmt: skip
    return f"<code>{''.join(made)}</code>"


_LONG: Final = re.compile(r"(\S{60,})")
"""A word that a column of a page need not hold in one line."""


def _cell(cell: Cell) -> str:
    if isinstance(cell, CodeCell):
        return ": ".join(map(_code, cell.texts))
    if isinstance(cell, BarCell):
        return f'<span class="bar" style="width: {9 * cell.share:.2f}em"></span>'
    if isinstance(cell, MarkCell):
        return f'<span class="{"yes" if cell.good else "no"}">{_text(cell.text)}</span>'
    if isinstance(cell, FactsCell):
        return "<br>".join(
            f"{_code(name)} = {_code(value)}" if name else _text(value)
            for name, value in cell.pairs
        )
    return _text(cell)


def _table(table: PageTable) -> str:
    def line(tag: str, cells: Iterable[str]) -> str:
        made = []
        for place, cell in enumerate(cells):
            # A narrow screen shows cards, where each value has its title before it.
            more = ' class="n"' if place < table.numbers else ""
            more += f' data-of="{_text(table.titles[place])}"' if tag == "td" else ""
            made.append(f"<{tag}{more}>{cell}</{tag}>")
        return f"<tr>{''.join(made)}</tr>"

    made = f"<h2>{_text(table.heading)}</h2>"
    if table.rows:
        body = "".join(line("td", map(_cell, row)) for row in table.rows)
        head = line("th", map(_text, table.titles))
        made += f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"
    return f"{made}<p>{_text(table.note)}</p>" if table.note else made


def _list(part: PageList) -> str:
    made = "".join(f"<li>{_text(item)}</li>" for item in part.items)
    return f"<h2>{_text(part.heading)}</h2><ul>{made}</ul>" if made else ""


def _funnel(part: Funnel, title: str) -> str:
    """Draw a bar for each stage, as wide as its share, above or beside its label."""
    stages = "".join(
        f'<li class="stage" title="{_text(shorten(label, 1000))}">'
        f'<i style="width: {max(100 * left / (part.total or 1), 1 if left else 0):.1f}%"></i>'
        f"<span><b>{left:,}</b>{_text(shorten(label, 120))}</span></li>"
        for left, label in part.stages
    )
    return f'<ol class="funnel" aria-label="{_text(title)}">{stages}</ol>'

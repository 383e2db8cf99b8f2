"""Checks the documentation site that ``make docs`` has built: ``check_site.py FOLDER``.

Every link inside the site must lead to a page and a heading that exist, every public name of the
library must have its entry, nothing may be fetched from the network when a page is viewed, and no
example may have become a quotation. Prints what is wrong and exits with 1, or prints what it found
in order and exits with 0.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import matchmaker

# Tags whose address the browser fetches by itself.
FETCHED = {
    "script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src",
}  # fmt: skip
FETCHED_LINKS = {"stylesheet", "icon", "preload", "prefetch", "preconnect", "dns-prefetch"}


class Page(HTMLParser):
    """The anchors, links and fetched addresses of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.quotations = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called by the parser with each opening tag."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        self.quotations += tag == "blockquote"
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in FETCHED and FETCHED[tag] in given:
            self.fetched.append(given[FETCHED[tag]])
        if tag == "link" and FETCHED_LINKS & set(given.get("rel", "").split()):
            self.fetched.append(given.get("href", ""))


def is_remote(address: str) -> bool:
    """Whether an address names a host."""
    return bool(urlsplit(address).netloc)


def dead_links(pages: dict[Path, Page], folder: Path) -> list[str]:
    """The links that lead to no page, file or heading of the site."""
    dead = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            goal = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            goal = goal / "index.html" if goal.is_dir() else goal
            known = goal in pages or (goal.is_file() and not parts.fragment)
            if not known or not (
                not parts.fragment or unquote(parts.fragment) in pages[goal].anchors
            ):
                dead.append(f"{path.relative_to(folder)}: {link} leads nowhere")
    return dead


def faults(folder: Path) -> list[str]:
    """Everything that is wrong with the site in a folder."""
    pages = {
        path: Page(path.read_text(encoding="utf-8"))
        # The page of missing addresses links from the root of a server.
        for path in sorted(folder.rglob("*.html")) if path.name != "404.html"
    }  # fmt: skip
    found = dead_links(pages, folder)
    found += [
        f"{path.relative_to(folder)}: {address} is fetched from the network"
        for path, page in pages.items()
        for address in page.fetched
        if is_remote(address)
    ]
    reference = {path: page for path, page in pages.items() if path.parent.name == "reference"}
    found += [
        f"{path.relative_to(folder)}: an example of a docstring became a quotation"
        for path, page in reference.items()
        if page.quotations
    ]
    found += [
        f"{path.relative_to(folder)}: the code of a table shows the backslash of a bar"
        for path in pages
        if "<code>\\|" in path.read_text(encoding="utf-8")
    ]
    anchors = {anchor for page in reference.values() for anchor in page.anchors}
    found += [
        f"reference: matchmaker.{name} has no entry"
        for name in matchmaker.__all__
        if f"matchmaker.{name}" not in anchors
    ]
    return found


def main() -> None:
    """Check the folder that the command line names."""
    folder = Path(sys.argv[1]).resolve()
    if found := faults(folder):
        sys.exit("\n".join(found))
    print(f"{len(list(folder.rglob('*.html')))} pages in {sys.argv[1]}, every link leads somewhere")


if __name__ == "__main__":
    main()

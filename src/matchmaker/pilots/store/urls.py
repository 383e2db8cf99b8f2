"""Which storage a URL names."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from matchmaker.pilots.store.directory import Directory
from matchmaker.pilots.store.places import Store
from matchmaker.pilots.store.protocol import StoreError


def opened(url: str) -> Store:
    """The storage of a URL: a directory's path, or ``file:///…``.

    Raises:
        StoreError: the URL names none, or what it needs is not installed.
    """
    scheme = re.match(r"([a-z][a-z0-9+.-]*)://", url)
    if scheme is None or scheme[1] == "file":
        path = Path(unquote(urlsplit(url).path)) if scheme else Path(url)
        if not path.is_dir():
            raise StoreError(f"{path}: no such directory; a store is one with plan.toml in it")
        return Directory(url, path)
    raise StoreError(f"{scheme[1]}:// is no storage that pilots know; give a directory")

"""Which storage a URL names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from matchmaker.pilots.store.directory import Directory
from matchmaker.pilots.store.places import Store
from matchmaker.pilots.store.protocol import StoreError

_OBJECTS: Final = ("s3", "gs", "az")


def opened(url: str) -> Store:
    """The storage of a URL: a path, ``file:///…``, ``s3://bucket/…``, gs, az, sftp, davs.

    Raises:
        StoreError: the URL names none, or what it needs is not installed.
    """
    scheme = re.match(r"([a-z][a-z0-9+.-]*)://", url)
    if scheme is None or scheme[1] == "file":
        path = Path(unquote(urlsplit(url).path)) if scheme else Path(url)
        if not path.is_dir():
            raise StoreError(f"{path}: no such directory; a store is one with plan.toml in it")
        return Directory(url, path)
    if scheme[1] in _OBJECTS:
        from matchmaker.pilots.store.objects import bucket

        return bucket(url)
    if scheme[1] == "sftp":
        from matchmaker.pilots.store.sftp import sftp

        return sftp(url)
    if scheme[1] in {"dav", "davs"}:
        from matchmaker.pilots.store.webdav import webdav

        return webdav(url)
    raise StoreError(
        f"{scheme[1]}:// is no storage that pilots know; there are directories, s3://, gs://, az://,"
        " sftp://, davs://"
    )

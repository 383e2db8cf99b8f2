"""Which storage a URL names."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from matchmaker.pilots.store.directory import Directory
from matchmaker.pilots.store.places import Store
from matchmaker.pilots.store.protocol import StoreError

_OPENERS: Final = {
    "s3": ("objects", "bucket"), "gs": ("objects", "bucket"), "az": ("objects", "bucket"),
    "sftp": ("sftp", "sftp"), "dav": ("webdav", "webdav"), "davs": ("webdav", "webdav"),
}  # fmt: skip
"""What opens a scheme's URLs: a module, which needs the extra of its name, and a function."""


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
    if scheme[1] not in _OPENERS:
        raise StoreError(
            f"{scheme[1]}:// is no storage that pilots know; there are directories, s3://, gs://,"
            " az://, sftp://, davs://"
        )
    extra, name = _OPENERS[scheme[1]]
    try:
        module = import_module(f"matchmaker.pilots.store.{extra}")
    except ModuleNotFoundError:
        raise StoreError(
            f"{url} needs the extra {extra}: pip install 'classad-matchmaker[{extra}]'"
        ) from None
    store: Store = getattr(module, name)(url)
    return store

"""Pools that subcommands read: from files of ads, saved pools and Parquet."""

from __future__ import annotations

from matchmaker import ClassAd, Pool
from matchmaker.cli import sources


def read(paths: tuple[str, ...], key: str | None) -> Pool:
    """The ads of some files together as a pool, by `key`.

    Without one it is Name, or the key of the pool that the only file is. Raises ValueError where
    the key does not tell the ads apart.
    """
    found = held(paths, key)
    return found if isinstance(found, Pool) else keyed(found, key or "Name")


def keyed(ads: list[ClassAd], key: str) -> Pool:
    """Ads as a pool. ValueError, in words of the command, where `key` does not tell them apart."""
    try:
        return Pool(ads, key)
    except ValueError as error:
        raise ValueError(f"{error} (--key NAME says which attribute tells ads apart)") from None


def held(paths: tuple[str, ...], key: str | None) -> Pool | list[ClassAd]:
    """The ads of some files, or the pool that the only file is, if its key is the one asked for."""
    if len(paths) != 1:
        return [ad for path in paths for ad in sources.ads(path)]
    with sources.opened(paths[0]) as file:
        found = sources.held(paths[0], file)
        whole = isinstance(found, Pool) and key in (None, found.key)
        return found if isinstance(found, Pool) and whole else list(found)

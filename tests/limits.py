"""Other limits for the time of a test: there is one frozen object of them in each room."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any


class fields(MutableMapping[str, Any]):  # noqa: N801 - read as a function of limits
    """The fields of limits, which are frozen, as items: for ``monkeypatch.setitem``."""

    def __init__(self, limits: Any) -> None:
        self._limits = limits

    def __getitem__(self, name: str) -> Any:
        return getattr(self._limits, name)

    def __setitem__(self, name: str, value: Any) -> None:
        object.__setattr__(self._limits, name, value)

    def __delitem__(self, name: str) -> None:
        raise TypeError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(type(self._limits).__slots__)

    def __len__(self) -> int:
        return len(type(self._limits).__slots__)

"""Old names, which stay for one release."""

from __future__ import annotations

import warnings
from collections.abc import Mapping


def renamed(owner: str, names: Mapping[str, str], name: str) -> str:
    """The new name of an old one, with a warning; AttributeError for a name that is none.

    Args:
        owner: the module or class that had it.
        names: the new names by the old ones.
        name: that was asked for.
    """
    if name not in names:
        raise AttributeError(f"{owner} has no attribute {name!r}")
    said = f"{owner}.{name} is now {owner}.{names[name]}"
    warnings.warn(said, DeprecationWarning, stacklevel=3)
    return names[name]

"""The built-in functions, by subject. ``FUNCTIONS`` holds them all under their folded names."""

from matchmaker.classad.functions import (  # noqa: F401 - each enters its functions
    accounts,
    control,
    conversions,
    environments,
    gang,
    lists,
    numbers,
    patterns,
    stringlists,
    strings,
    times,
    types,
    versions,
)
from matchmaker.classad.registry import FUNCTIONS, UNFOLDABLE, Function, Trait, traits_of

__all__ = ["FUNCTIONS", "UNFOLDABLE", "Function", "Trait", "traits_of"]

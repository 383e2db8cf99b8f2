"""The built-in functions, by subject. ``FUNCTIONS`` holds them all under their folded names."""

from matchmaker.classad.functions import (
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

__all__ = [
    "FUNCTIONS",
    "UNFOLDABLE",
    "Function",
    "Trait",
    "accounts",
    "control",
    "conversions",
    "environments",
    "gang",
    "lists",
    "numbers",
    "patterns",
    "stringlists",
    "strings",
    "times",
    "traits_of",
    "types",
    "versions",
]

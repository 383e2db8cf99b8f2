"""The built-in functions, by subject. ``FUNCTIONS`` holds them all under their folded names."""

from matchmaker.classad.functions import control, types
from matchmaker.classad.functions.registry import FUNCTIONS, Function

__all__ = ["FUNCTIONS", "Function", "control", "types"]

"""The attributes by which ads match: as people write them, and folded, as ads hold them."""

from __future__ import annotations

from typing import Final

REQUIREMENTS: Final = "Requirements"
RANK: Final = "Rank"

FOLDED_REQUIREMENTS: Final = "requirements"
FOLDED_RANK: Final = "rank"

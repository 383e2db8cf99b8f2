"""The types of the columns that a decision works on."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Bools: TypeAlias = "npt.NDArray[np.bool_]"
Ints: TypeAlias = "npt.NDArray[np.intp]"
Reals: TypeAlias = "npt.NDArray[np.float64]"

"""How much memory a parsed ad takes: the growth of a fresh process that keeps many of them.

``python benchmarks/memory.py ours|theirs NUMBER`` prints the kilobytes of one. No two of the ads
have a name or a number in common; what all have in common a library may keep once.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import subjects

_WARM = 500


def of_one_ad(side: str, number: int) -> float:
    """Kilobytes of an ad among many, measured in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, side, str(number)], check=True, capture_output=True, text=True
    )
    return float(done.stdout)


def _parser(side: str) -> Callable[[str], Any]:
    if side == "ours":
        import matchmaker as mm

        return mm.parse_ad
    os.environ.setdefault("CONDOR_CONFIG", "ONLY_ENV")
    # This import sets the semantics of the next one.
    import htcondor2  # noqa: F401
    import classad2  # isort: skip

    parser: Callable[[str], Any] = classad2.ClassAd
    return parser


def resident() -> int:
    """The bytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Measures, and prints one number."""
    parse, number = _parser(sys.argv[1]), int(sys.argv[2])
    # What there is once (the grammar, tables, shared expressions) does not count for each ad.
    kept = [parse(text) for text in subjects.unlike_machine_texts(_WARM)]
    gc.collect()
    before = resident()
    for _ in range(number // 1000):
        kept += [parse(text) for text in subjects.unlike_machine_texts(1000)]
    gc.collect()
    print((resident() - before) / (len(kept) - _WARM) / 1000)


if __name__ == "__main__":
    main()

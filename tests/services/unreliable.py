"""Commands of Slurm that fail: scripts in a folder for PATH, each in the place of a real command.

A seed chooses which calls fail and how: before or after the command had its effect, by a status, a
signal, silence, a cut answer, one with a NUL, an old one, or an answer that is not true.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_SCRIPT: Final = """\
#!/bin/sh
name={name} real={real} state={state}
printf x >>"$state/calls-$name"
number=$(wc -c <"$state/calls-$name")
roll=$(printf '%s' "{seed} $name $number $*" | cksum)
roll=${{roll%% *}}
[ $((roll % 1000)) -lt {rate} ] || exec "$real" "$@"
set_kind() {{ shift $((roll / 1000 % $#)); kind=$1; }}
set_kind {kinds}
echo "$name $kind" >>"$state/faults"
# Its whole answer, in a file; $1 bytes of it are before the fault.
answer() {{
	made=$(mktemp "$state/answer.XXXXXX")
	"$real" "$@" >"$made"
	size=$(wc -c <"$made")
	before=$((roll / 7 % (size + 1)))
}}
case $kind in
early) echo "$name: error: Unable to contact slurm controller (connect failure)" >&2; exit 1;;
late) "$real" "$@" >/dev/null 2>&1; exit 1;;
killed) kill -9 $$;;
killed-late) "$real" "$@" >/dev/null 2>&1; kill -9 $$;;
killed-within) "$real" "$@" & sleep 0.0$((roll % 7)); kill -9 $!; exit 137;;
nothing) exit 0;;
hangs)
	# As often as there are tokens: each takes the whole time that a command may take.
	for token in "$state"/hang.*; do
		if rmdir "$token" 2>/dev/null; then
			[ $((roll / 3 % 2)) = 0 ] || "$real" "$@" >/dev/null 2>&1
			exec sleep 600
		fi
	done
	exit 1;;
cut) answer "$@"; head -c "$before" "$made"; mv "$made" "$state/last-$name";;
nul)
	answer "$@"
	head -c "$before" "$made"; printf '\\000'; tail -c "+$((before + 1))" "$made"
	mv "$made" "$state/last-$name";;
old)
	# No older than six seconds.
	find "$state/last-$name" -mmin -0.1 -exec cat {{}} + 2>/dev/null | grep . && exit
	exit 1;;
twice) "$real" "$@" >/dev/null; exec "$real" "$@";;
untrue) echo $((roll / 11 % 60 + 1));;
esac
"""

_ACTS: Final = ("early", "late", "killed", "killed-late", "killed-within", "nothing", "hangs")
_ASKS: Final = ("early", "late", "killed", "nothing", "hangs", "cut", "cut", "nul")
KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "sbatch": (*_ACTS, "cut", "nul", "twice", "untrue"),
    "scontrol": _ACTS,
    "scancel": _ACTS,
    "squeue": (*_ASKS, "old"),
    "sacct": _ASKS,
}
"""How each command fails."""


def install(
    folder: Path, real: Mapping[str, str], seed: int, *, rate: float = 1 / 3, hangs: int = 0
) -> Path:
    """Writes the commands, and returns their folder.

    Args:
        folder: where they keep what they know.
        real: the path of each real command.
        seed: chooses the faults.
        rate: how many of the calls fail.
        hangs: how many calls at most never end.
    """
    place = folder / "unreliable"
    place.mkdir(parents=True)
    for number in range(hangs):
        (folder / f"hang.{number}").mkdir()
    for name, path in real.items():
        text = _SCRIPT.format(
            name=name, real=shlex.quote(path), state=shlex.quote(str(folder)), seed=seed,
            rate=round(1000 * rate), kinds=" ".join(KINDS[name]),
        )  # fmt: skip
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    return place


def seen(folder: Path) -> tuple[Counter[str], Counter[str]]:
    """How often each command was called, and each fault of each command happened."""
    calls = Counter({
        path.name.removeprefix("calls-"): path.stat().st_size for path in folder.glob("calls-*")
    })  # fmt: skip
    faults = folder / "faults"
    return calls, Counter(faults.read_text().splitlines() if faults.exists() else ())

"""What is published of a dump admits no job that the dump refused.

A case is a dump whose rules and names have what LDAP, GLUE 1.3 or GLUE 2.0 write otherwise. It is
read, written as LDIF of each version, and read again.
"""

from __future__ import annotations

import io
import random
import sys
from collections.abc import Iterable
from typing import Final, Literal

from matchmaker import glue
from tests.attack.access import more, of_ads, read
from tests.attack.run import Attack, main
from tests.attack.sites import SITES, site

VERSIONS: Final[tuple[Literal["1.3", "2.0", "both"], ...]] = ("1.3", "2.0", "both")

RULES: Final = (
    *("VO:a b", "DENY:/alpha/Rolé=x", "/O=grid/CN=Adà", "DENY:/O=grid/CN=Eve, Mallory", "ALL"),
    *("VOMS:/alpha/Role=pil ot", " VO:alpha", "DENY:/alpha/*", "DENY:all", "deny:VO:bravo"),
    *("vo:alpha", "DENY:alpha", "VO:ALL"),
)

NAMES: Final = (
    *(("queue0", "queue,0"), ("ce0.grid", "CE0.grid"), ("first", "f irst"), ("queue1", "queue0")),
    *(("first", "f+i=rst,o=x"), ("urn:share:long", "urn:share:a/b"), ("second", "First")),
    *(("first", "é"), ("queue0", "qüe"), ("long", "Short"), ("endpoint:alone", "Endpoint:BESIDE")),
)
"""Names of the whole dump, and what stands for them."""


def make(chance: random.Random) -> bytes:
    """A dump with odd rules and names."""
    form, data = site(chance.randrange(SITES))
    text = data.decode()
    if form == "ldif" and chance.random() < 0.4:
        lines = text.split("\n")
        places = [number for number, line in enumerate(lines) if "Rule:" in line]
        for place in chance.sample(places, min(len(places), 2)):
            lines[place] = f"{lines[place].partition(':')[0]}: {chance.choice(RULES)}"
        text = "\n".join(lines)
    if chance.random() < 0.4:
        text = text.replace(*chance.choice(NAMES))
    return text.encode()


def judge(case: bytes) -> str | None:
    """Says which queue admits more once published."""
    if (found := read(case)) is None:
        return None
    before = of_ads(found.computing_elements())
    for version in VERSIONS:
        file = io.StringIO()
        glue.write_ldif(found, file, version=version)
        again = read(file.getvalue().encode())
        if again is None:
            return f"{version}: what is published cannot be read"
        if wrong := more(before, of_ads(again.computing_elements())):
            return f"published as {version}, {wrong}"
    return None


def smaller(case: bytes) -> Iterable[bytes]:
    """The dump without an entry."""
    entries = case.split(b"\n\n")
    for number in range(len(entries)):
        yield b"\n\n".join(entries[:number] + entries[number + 1 :])


def show(case: bytes) -> str:
    """The dump."""
    return repr(case)


ATTACK = Attack("published", make, judge, smaller, show, nightly=5_000, smoke=60)

if __name__ == "__main__":
    sys.exit(main(ATTACK))

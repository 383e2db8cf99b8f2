"""No answer of an LDAP server makes a queue accept a job that the server's whole answer refuses.

A case is the entries of a site, as a server sends them over the wire: in pages, with entries that
come twice, attributes in parts, referrals, a result code in place of the rest, or broken off.
"""

from __future__ import annotations

import random
import socket
import sys
from collections.abc import Iterable
from typing import Final, TypeAlias

import attrs

from matchmaker import glue
from matchmaker.broker import merged
from matchmaker.glue.readers.ldap import LdapBounds
from tests.attack.access import more, of_ads, whole
from tests.attack.run import Attack, main
from tests.attack.sites import SITES, site
from tests.glue.ldap_server import ber, done, message, server

Attribute: TypeAlias = tuple[bytes, tuple[bytes, ...]]
Found: TypeAlias = tuple[bytes, tuple[Attribute, ...]]
"""The name of an entry, and its attributes; a referral where it has none."""

REFERRAL: Final[Found] = b"", ()
CODES: Final = (1, 3, 4, 11, 32, 51, 52, 53, 80)
BOUNDS: Final = LdapBounds(timeout=2, total=5)


@attrs.frozen(slots=True)
class Case:
    """The dump of a site, and what a server says of it.

    Attributes:
        dump: as LDIF.
        pages: the entries of each tree, by page.
        code: the result behind the last page.
        cut: the part of the last page that is sent before the connection ends; 1 for all.
    """

    dump: bytes
    pages: tuple[tuple[Found, ...], ...]
    code: int = 0
    cut: float = 1.0


def entries(dump: bytes) -> Iterable[Found]:
    """The entries of a sound dump."""
    for block in filter(None, dump.split(b"\n\n")):
        found: dict[bytes, list[bytes]] = {}
        for line in block.split(b"\n"):
            name, _, value = line.partition(b": ")
            found.setdefault(name, []).append(value)
        [dn] = found.pop(b"dn")
        yield dn, tuple((name, tuple(values)) for name, values in found.items())


def broken(one: Found, chance: random.Random) -> list[Found]:
    """What becomes of an entry: it comes twice, with parts of it, or with a value in two parts."""
    dn, its = one
    if not its:
        return [one]
    place = chance.randrange(len(its))
    kind, values = its[place]
    what = chance.randrange(4)
    if what == 0:
        return [one, (dn, tuple(each for each in its if chance.random() < 0.6))]
    if what == 1:
        return [one, one]
    if what == 2:
        return [one, REFERRAL]
    parts = [(kind, values[:1]), (kind, values[1:])] if values[1:] else [its[place]]
    return [(dn, (*its[:place], *parts, *its[place + 1 :]))]


def make(chance: random.Random) -> Case:
    """A site, and an answer of it with one or two faults."""
    form, dump = "", b""
    while form != "ldif":
        form, dump = site(chance.randrange(SITES))
    found = list(entries(dump))
    for _ in range(chance.choice((0, 1, 1, 2))):
        place = chance.randrange(len(found))
        found[place : place + 1] = broken(found[place], chance)
    if chance.random() < 0.2:
        chance.shuffle(found)
    size = max(1, -(-len(found) // chance.choice((1, 1, 2, 3))))
    pages = tuple(tuple(found[at : at + size]) for at in range(0, len(found), size))
    ending = chance.random()
    if ending < 0.15:
        return Case(dump, pages, cut=chance.random())
    if ending < 0.3:
        last = pages[-1][: chance.randrange(len(pages[-1]) + 1)]
        return Case(dump, (*pages[:-1], last), code=chance.choice(CODES))
    return Case(dump, pages)


def sent(number: int, found: Found) -> bytes:
    """An entry or a referral, byte by byte."""
    dn, its = found
    if not its:
        return message(number, ber(0x73, ber(0x04, b"ldap://127.0.0.1:1/o=grid")))
    pairs = (
        ber(0x30, ber(0x04, kind), ber(0x31, *(ber(0x04, each) for each in values)))
        for kind, values in its
    )
    return message(number, ber(0x64, ber(0x04, dn), ber(0x30, *pairs)))


def judge(case: Case) -> str | None:
    """Says which queue admits more than the whole dump."""
    pages = list(enumerate(case.pages, 1))

    def answer(peer: socket.socket, number: int) -> None:
        if not pages:
            peer.close()
            return
        place, page = pages.pop(0)
        last = place == len(case.pages)
        data = b"".join(sent(number, found) for found in page)
        if last and case.cut < 1:
            peer.sendall(data[: int(len(data) * case.cut)])
            peer.close()
            return
        peer.sendall(data + done(number, case.code if last else 0, b"" if last else b"more"))

    with server(answer) as url:
        try:
            # One that breaks off, or says that a part is elsewhere, is refused whole.
            found = merged([("l", glue.read_ldap(url, "o=grid", bounds=BOUNDS))])
        except (ConnectionError, ValueError):
            return None
    return more(whole(case.dump), of_ads(found.ads))


def smaller(case: Case) -> Iterable[Case]:
    """Without an entry, both whole and sent."""
    for block in case.dump.split(b"\n\n"):
        dn = block.partition(b"\n")[0].removeprefix(b"dn: ")
        dump = b"\n\n".join(each for each in case.dump.split(b"\n\n") if each != block)
        pages = tuple(tuple(each for each in page if each[0] != dn) for page in case.pages)
        if b"Rule" in dump:
            yield attrs.evolve(case, dump=dump, pages=pages)


def show(case: Case) -> str:
    """The dump and the answer."""
    pages = "\n---\n".join("\n".join(map(repr, page)) for page in case.pages)
    return f"{case.dump.decode()}--- sent, then {case.code}, cut at {case.cut}\n{pages}"


ATTACK = Attack("ldap", make, judge, smaller, show, nightly=5_000, smoke=60)

if __name__ == "__main__":
    sys.exit(main(ATTACK))

"""Entries from a live information system over LDAP.

Only the search is here; what the entries mean is the same as for a file. The search is anonymous,
read-only and paged, follows no referral, verifies certificates, tries the next server where one
fails, and gives up after a time. What a stranger's server can send is bounded: see
`ldap_connection` for bytes and `ldap_messages` for what they mean.
"""

from __future__ import annotations

import os
import ssl
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Final
from urllib.parse import unquote, urlsplit

import attrs

from matchmaker.glue.entries import Attributes, Entry
from matchmaker.glue.issues import Issue, Report, issue
from matchmaker.glue.limits import LIMITS
from matchmaker.glue.linking import normal_name
from matchmaker.glue.readers.ldap_connection import Wire, connect
from matchmaker.glue.readers.ldap_messages import (
    End,
    Found,
    answer,
    search_request,
    start_tls_request,
)
from matchmaker.glue.schema import decides_access
from matchmaker.glue.v1 import link as glue13
from matchmaker.glue.v2 import link as glue20

ENVIRONMENT: Final = "LCG_GFAL_INFOSYS"
"""The variable with the servers of a grid's users: ``host:2170,other:2170``."""

ROOTS: Final = (
    ("o=grid", "Mds-Vo-name=local,o=grid", "Mds-Vo-name=resource,o=grid"),
    ("o=glue",),
)
"""Where GLUE 1.3 and GLUE 2.0 are: of each, the first that a server has is searched."""

FILTER: Final = "(|" + "".join(f"(objectClass={kind})" for kind in (*glue13.IDS, *glue20.IDS)) + ")"

_PORTS = {"ldap": 389, "ldaps": 636}
_NO_SUCH_OBJECT, _REFERRAL, _TOO_MUCH, _UNWILLING = 32, 10, 11, 53
_INCOMPLETE = {3: "its time limit", 4: "its size limit", _TOO_MUCH: "its administrative limit"}


@attrs.frozen(slots=True)
class Server:
    """A server as its URL names it: where, with TLS from the start or not, and under which name."""

    host: str
    port: int
    tls: bool = False
    base: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'ldaps' if self.tls else 'ldap'}://{host}:{self.port}"


def _positive(_: object, field: attrs.Attribute[float], value: float) -> None:
    if not value > 0:
        raise ValueError(f"{field.name} is {value:g} seconds; it is to be more than none")


@attrs.frozen(slots=True)
class Bounds:
    """How long a search may take and how much it may bring.

    Attributes:
        timeout: seconds to connect, and to wait for each piece of an answer.
        total: seconds for all of one server.
        page_size: entries asked for at a time.
        entries: most entries of one server.
        value: most bytes of a value.
        message: most bytes of an entry.
        answer: most bytes of one server.
    """

    timeout: float = attrs.field(default=LIMITS.timeout, validator=_positive)
    total: float = attrs.field(default=LIMITS.total, validator=_positive)
    page_size: int = 500
    entries: int = LIMITS.entries
    value: int = LIMITS.value
    message: int = LIMITS.message
    answer: int = LIMITS.answer


def servers(url: str | Sequence[str] | None) -> list[Server]:
    """The servers of a URL, of several (also in one text, between commas), or of the environment.

    Raises ValueError for what is no LDAP URL, and where the environment names none.

    >>> [str(server) for server in servers("ldap://a.grid:2170,ldaps://b.grid")]
    ['ldap://a.grid:2170', 'ldaps://b.grid:636']
    >>> servers("ldap://ce.grid:2170/mds-vo-name=resource,o=grid")[0].base
    'mds-vo-name=resource,o=grid'
    """
    if url is None:
        texts = [text.strip() for text in os.environ.get(ENVIRONMENT, "").split(",")]
        texts = [text if "://" in text else f"ldap://{text}" for text in texts if text]
        if not texts:
            raise ValueError(f"no server is given, and {ENVIRONMENT} names none")
    else:
        texts = _split(url) if isinstance(url, str) else list(url)
        if not texts:
            raise ValueError("no server is given")
    return [_server(text.strip()) for text in texts]


def _split(text: str) -> list[str]:
    """URLs between commas; a comma within the name that a URL ends in begins no other."""
    found: list[str] = []
    for part in text.split(","):
        if found and "://" not in part:
            found[-1] += f",{part}"
        else:
            found.append(part)
    return found


def _server(url: str) -> Server:
    if not url.lower().startswith(("ldap://", "ldaps://")):
        raise ValueError(f"an LDAP URL begins with ldap:// or ldaps://, not as {url!r}")
    try:
        parts = urlsplit(url)
        port = _PORTS[parts.scheme] if parts.port is None else parts.port
    except ValueError as error:
        raise ValueError(f"{url!r} is not the URL of an LDAP server: {error}") from None
    if (
        not parts.hostname
        or not port
        or parts.username is not None
        or parts.query
        or parts.fragment
    ):
        raise ValueError(
            f"{url!r} is not the URL of an LDAP server: expected ldap://host:port, or with a base, "
            "ldap://host:port/o=grid"
        )
    return Server(parts.hostname, port, parts.scheme == "ldaps", unquote(parts.path.strip("/")))


def search(
    url: str | Sequence[str] | None,
    base: str | None,
    report: Report,
    *,
    bounds: Bounds | None = None,
    start_tls: bool = False,
    ca_file: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Entry]:
    """Search for the entries of GLUE 1.3 and 2.0 under a base, at the first server that answers.

    `base` is None for the URL's own, or else `ROOTS`; the rest is as `glue.read_ldap` has it.

    Raises:
        ValueError: for a URL of another scheme, and a file without certificates or use.
        ConnectionError: where no server can be reached, or all refuse or fail with nothing read.
    """
    found = servers(url)
    bounds = bounds if bounds is not None else Bounds()
    secured = [start_tls or server.tls for server in found]
    if ca_file is not None and not any(secured):
        raise ValueError(
            f"{ca_file} is used only with TLS: write ldaps://, or set start_tls (--start-tls)"
        )
    trust = Trust.of(ca_file) if any(secured) else None
    failures: list[str] = []
    broken: list[Issue] = []
    seen: Counter[str] = Counter()
    for number, server in enumerate(found, 1):
        one = _Search(server, bounds, report, trust if secured[number - 1] else None, progress)
        mine: Counter[str] = Counter()
        try:
            for entry in one.entries(base):
                if len(found) > 1:  # what a server that failed has sent is not taken again
                    mine[name := normal_name(entry.dn)] += 1
                    if mine[name] <= seen[name]:
                        continue
                yield entry
        except ConnectionError as error:
            failures.append(str(error))
            seen |= mine
            if one.count:
                said = f"the answer is not whole: {error}"
                broken.append(issue("ldap.partial", said, dn=base or server.base))
        else:
            for failure in failures:
                report(issue("ldap.failover", f"another server was asked: {failure}"))
            if seen.keys() <= mine.keys():
                return  # the answer has what the broken ones have, and what they lost
            break
    for lost in broken:
        report(lost)
    if not broken:
        raise ConnectionError("; ".join(failures))


@attrs.frozen(slots=True)
class Trust:
    """Whose certificates are believed: those of the system, or of a file."""

    context: ssl.SSLContext
    origin: str

    @classmethod
    def of(cls, ca_file: str | None) -> Trust:
        """Those of a file, or None for the system's. Raises ValueError for a file without any."""
        try:
            context = ssl.create_default_context(cafile=ca_file)
        except OSError as error:
            if not isinstance(error, ssl.SSLError) and error.strerror:
                said = error.strerror
            else:
                said = "no certificates in PEM format were found"
            raise ValueError(f"{ca_file}: {said}") from error
        return cls(context, ca_file or "the certificates of the system")


@attrs.define(slots=True)
class _Search:
    """A search at one server, and how many entries it has brought."""

    server: Server
    bounds: Bounds
    report: Report
    trust: Trust | None
    progress: Callable[[int], None] | None = None
    count: int = 0
    elsewhere: int = 0
    number: int = 0
    size: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.size = self.bounds.page_size

    def entries(self, base: str | None) -> Iterator[Entry]:
        chosen = base if base is not None else self.server.base
        roots = [(chosen,)] if chosen else ROOTS
        wire: Wire | None = None
        try:
            wire = self._connected()
            missing = 0
            for names in roots:
                for name in names:
                    there = yield from self._pages(wire, name, needed=bool(chosen))
                    if there:
                        break
                else:
                    missing += 1
            if missing == len(roots):
                raise ConnectionError("the server has neither")
        except (OSError, ValueError) as error:
            under = repr(chosen) if chosen else "o=grid and o=glue"
            where = f"LDAP search at {self.server} under {under}"
            raise ConnectionError(f"{where}: {error}") from error
        finally:
            if wire is not None:
                wire.close()

    def _connected(self) -> Wire:
        bounds = self.bounds
        wire = connect(
            self.server.host,
            self.server.port,
            timeout=bounds.timeout,
            total=bounds.total,
            message_limit=bounds.message,
            answer_limit=bounds.answer,
        )
        # Nothing is bound: a search without is anonymous in version 3.
        try:
            if self.trust is not None:
                if not self.server.tls:
                    self._ask_for_tls(wire)
                wire.secure(self.trust.context, self.server.host, self.trust.origin)
        except BaseException:
            wire.close()
            raise
        return wire

    def _ask_for_tls(self, wire: Wire) -> None:
        wire.send(start_tls_request(self._next()))
        said = answer(wire.receive(), self.number)
        if not isinstance(said, End) or said.code:
            raise ConnectionError(f"the server has no TLS ({said})")

    def _next(self) -> int:
        self.number += 1
        return self.number

    def _pages(self, wire: Wire, base: str, *, needed: bool) -> Generator[Entry, None, bool]:
        """The entries under a name; whether the server has it is what the generator returns."""
        cookie = b""
        empty = 0
        while True:
            before = self.count
            end = yield from self._page(
                wire, search_request(self._next(), base, FILTER, self.size, cookie), base
            )
            if self.progress is not None:
                self.progress(self.count)
            if end is None:
                self._partial(
                    f"more than {self.bounds.entries} entries, the rest is not read; a longer base "
                    f"asks for less: {self.server}/Mds-Vo-name=SITE,Mds-Vo-name=local,o=grid",
                    base,
                )
                return True
            sent = self.count > before
            if end.code == _NO_SUCH_OBJECT and not (needed or cookie or sent):
                return False
            if end.code in (_TOO_MUCH, _UNWILLING) and not sent and self.size > bool(cookie):
                self.size //= 2  # a server may refuse large pages, or pages: 0 asks for none
                continue
            if end.code in _INCOMPLETE and self.count:
                said = f"the server stops at {_INCOMPLETE[end.code]}"
                self._partial(f"{said}: the answer is not whole", base)
                return True
            if end.code:
                raise ConnectionError(_refusal(end))
            cookie = end.cookie
            if not cookie:
                return True
            empty = 0 if sent else empty + 1
            if empty > LIMITS.empty_pages:
                raise ConnectionError("the server sends empty pages without end")

    def _page(self, wire: Wire, request: bytes, base: str) -> Generator[Entry, None, End | None]:
        """The entries of one page, as they come; its end, or None where there are too many."""
        wire.send(request)
        while not isinstance(said := answer(wire.receive(), self.number), End):
            if self.count + self.elsewhere >= self.bounds.entries:
                return None
            if isinstance(said, Found):
                self.count += 1
                yield _entry(said, self.report, self.bounds.value)
            else:
                self.elsewhere += 1
                text = "a part is elsewhere, referrals are not followed"
                self.report(issue("ldap.referral", text, dn=base, raw=said.urls))
        return said

    def _partial(self, said: str, base: str) -> None:
        self.report(issue("ldap.partial", said, dn=base))


def _refusal(end: End) -> str:
    """Why a server gives nothing, in words."""
    if end.code == _REFERRAL:
        return f"the server refers to {end.urls}, which is not followed"
    if end.code == _NO_SUCH_OBJECT:
        return f"the server has nothing of this name ({end})"
    return f"the server refuses ({end})"


def _entry(found: Found, report: Report, limit: int) -> Entry:
    """An entry as text, less the values that are too long or too many; also its name may be."""
    dn = found.dn[: limit + 1].decode("utf-8", "backslashreplace")
    if len(found.dn) > limit:
        said = f"an entry whose name has {len(found.dn)} bytes; at most {limit} are read"
        report(issue("ldap.value-limit", said, raw=dn))
        dn = ""
    pairs: list[tuple[str, str]] = []
    for name, values in found.attributes:
        # An attribute that is there without a value lost what it restricts.
        for value in values or [b""] * decides_access(name):
            if len(pairs) == LIMITS.values:
                said = f"an entry of more than {LIMITS.values} values; the others are not read"
                report(issue("ldap.value-limit", said, dn=dn))
                return Entry(dn, Attributes(pairs), damaged=True)
            if len(value) > limit:
                said = f"a value of {len(value)} bytes, skipped; at most {limit} are read"
                report(issue("ldap.value-limit", said, dn=dn, attribute=name))
                if decides_access(name):
                    pairs.append((name, ""))
                continue
            try:
                text = value.decode("utf-8")
            except UnicodeDecodeError:
                text = value.decode("latin-1")
                said = "not UTF-8, read as Latin-1"
                report(issue("ldap.encoding", said, dn=dn, attribute=name, raw=text[:200]))
                text = "" if decides_access(name) else text
            pairs.append((name, text))
    return Entry(dn, Attributes(pairs), damaged=not dn)

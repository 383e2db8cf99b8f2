"""Entries from a live information system over LDAP.

The entries mean the same as those of a file. The search is anonymous, read-only and paged, follows
no referral, verifies certificates, tries the next server if one fails, and gives up after a time.
All that a stranger's server can send is bounded.

The parts, from above: the search at one of several servers, messages (requests and answers), and
the connection. `ldap3` encodes the requests. Its public client, ``paged_search``, is not used: for
the 16,200 entries of ``benchmarks/information_system.py`` from OpenLDAP it takes 3.9 s of the
processor, and this module 1.0 s. It also holds no length against the data, takes minutes for a
number of a megabyte, and of two attributes of one name it keeps the last. (RFC 4511, sections 4.1,
4.5 and 5.1; RFC 2696.)
"""

from __future__ import annotations

import os
import re
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import attrs

from matchmaker._limits import GLUE_LIMITS as LIMITS
from matchmaker.glue.entries import Attributes, Entry, normal_name
from matchmaker.glue.issues import Issue, Report, issue
from matchmaker.glue.schema import GLUE1_IDS, GLUE2_IDS, decides_access

ENVIRONMENT: Final = "LCG_GFAL_INFOSYS"
"""The variable with the servers of a grid's users: ``host:2170,other:2170``."""

ROOTS: Final = (("o=grid", "Mds-Vo-name=local,o=grid", "Mds-Vo-name=resource,o=grid"), ("o=glue",))
"""The names of the trees of GLUE 1.3 and GLUE 2.0: of each, the first that a server has is
searched."""

FILTER: Final = "(|" + "".join(f"(objectClass={kind})" for kind in (*GLUE1_IDS, *GLUE2_IDS)) + ")"

_PORTS = {"ldap": 389, "ldaps": 636}
# Results of RFC 4511, appendix A.
_NO_SUCH_OBJECT, _REFERRAL, _TOO_MUCH, _UNWILLING = 32, 10, 11, 53
_INCOMPLETE = {3: "its time limit", 4: "its size limit", _TOO_MUCH: "its administrative limit"}


@attrs.frozen(slots=True)
class LdapServer:
    """The server of a URL: its address, whether TLS comes first, and the name to search under."""

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
class LdapBounds:
    """The time in seconds, and the entries and bytes, that a search at one server may take.

    `timeout` is for each piece of an answer, `page_size` the number of entries asked for at a time.
    """

    timeout: float = attrs.field(default=LIMITS.timeout, validator=_positive)
    total: float = attrs.field(default=LIMITS.total, validator=_positive)
    page_size: int = 500
    entries: int = LIMITS.entries
    value: int = LIMITS.value
    message: int = LIMITS.message
    answer: int = LIMITS.answer


def servers(url: str | Sequence[str] | None) -> list[LdapServer]:
    """Return the servers of a URL, of several (also between commas), or of the environment.

    Raises ValueError for other URLs, and if the environment names none.

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
        # A comma within the name that a URL ends in begins no other.
        texts = re.split(r",(?=[^,]*://)", url) if isinstance(url, str) else list(url)
        if not texts:
            raise ValueError("no server is given")
    return [_server(text.strip()) for text in texts]


def _server(url: str) -> LdapServer:
    if not url.lower().startswith(("ldap://", "ldaps://")):
        raise ValueError(f"an LDAP URL begins with ldap:// or ldaps://, not as {url!r}")
    try:
        parts = urlsplit(url)
        port = _PORTS[parts.scheme] if parts.port is None else parts.port
    except ValueError as error:
        raise ValueError(f"{url!r} is not the URL of an LDAP server: {error}") from None
    further = parts.username is not None or parts.query or parts.fragment
    if not parts.hostname or not port or further:
        said = "expected ldap://host:port, or with a base, ldap://host:port/o=grid"
        raise ValueError(f"{url!r} is not the URL of an LDAP server: {said}")
    return LdapServer(parts.hostname, port, parts.scheme == "ldaps", unquote(parts.path.strip("/")))


def search(
    url: str | Sequence[str] | None,
    base: str | None,
    report: Report,
    *,
    bounds: LdapBounds | None = None,
    start_tls: bool = False,
    ca_file: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Entry]:
    """Search for the entries of GLUE 1.3 and 2.0 under a base, at the first server that answers.

    `base` is None for the URL's own, or else `ROOTS`; the rest is as for `glue.read_ldap`.

    Raises:
        ValueError: a URL has another scheme, or a file no certificates or no use.
        ConnectionError: no server can be reached, or all refuse or fail with nothing read.
    """
    found = servers(url)
    bounds = bounds if bounds is not None else LdapBounds()
    secured = [start_tls or server.tls for server in found]
    if ca_file is not None and not any(secured):
        raise ValueError(
            f"{ca_file} is used only with TLS: write ldaps://, or set start_tls (--start-tls)"
        )
    trust = TrustedCertificates.of(ca_file) if any(secured) else None
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
class TrustedCertificates:
    """The certificates that are believed: those of the system, or of a file."""

    context: ssl.SSLContext
    origin: str

    @classmethod
    def of(cls, ca_file: str | None) -> TrustedCertificates:
        """Load a file, or None for the system's. Raises ValueError if it has no certificates."""
        try:
            context = ssl.create_default_context(cafile=ca_file)
        except OSError as error:
            found = None if isinstance(error, ssl.SSLError) else error.strerror
            said = found or "no certificates in PEM format were found"
            raise ValueError(f"{ca_file}: {said}") from error
        return cls(context, ca_file or "the certificates of the system")


@attrs.define(slots=True)
class _Search:
    """A search at one server, and how many entries it has brought."""

    server: LdapServer
    bounds: LdapBounds
    report: Report
    trust: TrustedCertificates | None
    progress: Callable[[int], None] | None = None
    count: int = 0
    elsewhere: int = 0
    number: int = 0
    size: int = attrs.Factory(lambda self: self.bounds.page_size, takes_self=True)

    def entries(self, base: str | None) -> Iterator[Entry]:
        chosen = base if base is not None else self.server.base
        roots = [(chosen,)] if chosen else ROOTS
        wire: LdapConnection | None = None
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

    def _connected(self) -> LdapConnection:
        wire = connect(self.server.host, self.server.port, self.bounds)
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

    def _ask_for_tls(self, wire: LdapConnection) -> None:
        wire.send(start_tls_request(self._next()))
        said = answer(wire.receive(), self.number)
        if not isinstance(said, SearchResultDone) or said.code:
            raise ConnectionError(f"the server has no TLS ({said})")

    def _next(self) -> int:
        self.number += 1
        return self.number

    def _pages(
        self, wire: LdapConnection, base: str, *, needed: bool
    ) -> Generator[Entry, None, bool]:
        """Yield the entries under a name, and return whether the server has it."""
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
                longer = f"{self.server}/Mds-Vo-name=SITE,Mds-Vo-name=local,o=grid"
                said = f"more than {self.bounds.entries} entries, the rest is not read; a longer"
                self._partial(f"{said} base asks for less: {longer}", base)
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

    def _page(
        self, wire: LdapConnection, request: bytes, base: str
    ) -> Generator[Entry, None, SearchResultDone | None]:
        """Yield the entries of one page as they come; return its end, None if they are too many."""
        wire.send(request)
        while not isinstance(said := answer(wire.receive(), self.number), SearchResultDone):
            if self.count + self.elsewhere >= self.bounds.entries:
                return None
            if isinstance(said, SearchResultEntry):
                self.count += 1
                yield _entry(said, self.report, self.bounds.value)
            else:
                self.elsewhere += 1
                text = "a part is elsewhere, referrals are not followed"
                self.report(issue("ldap.referral", text, dn=base, raw=said.urls))
        return said

    def _partial(self, said: str, base: str) -> None:
        self.report(issue("ldap.partial", said, dn=base))


def _refusal(end: SearchResultDone) -> str:
    if end.code == _REFERRAL:
        return f"the server refers to {end.urls}, which is not followed"
    if end.code == _NO_SUCH_OBJECT:
        return f"the server has nothing of this name ({end})"
    return f"the server refuses ({end})"


def _entry(found: SearchResultEntry, report: Report, limit: int) -> Entry:
    """Make an entry of text, less the values that are too long or too many."""
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


# Messages

_PAGES: Final = b"1.2.840.113556.1.4.319"
_START_TLS: Final = "1.3.6.1.4.1.1466.20037"
# Of a server's own words people read the first line.
_TEXT_LIMIT: Final = 200


class LdapMessageError(ValueError):
    """An answer that is not LDAP."""


@attrs.frozen(slots=True)
class SearchResultEntry:
    """An entry: its name, and its attributes with their values."""

    dn: bytes
    attributes: list[tuple[str, list[bytes]]]


@attrs.frozen(slots=True)
class SearchReference:
    """A part of the tree that another server has; its URLs, cut if they are long."""

    urls: str


@attrs.frozen(slots=True)
class SearchResultDone:
    """The end of an answer: its result, and the cookie for the next page, empty after the last."""

    code: int
    said: str
    urls: str = ""
    cookie: bytes = b""

    def __str__(self) -> str:
        from ldap3.core.results import RESULT_CODES

        name = RESULT_CODES.get(self.code, f"result {self.code}")
        return f"{name}: {self.said}" if self.said else name


def search_request(number: int, base: str, condition: str, size: int, cookie: bytes) -> bytes:
    """Encode a request for a page of the entries under a name, with all their attributes.

    A page of size 0 is all entries, asked for without the control for pages.

    Raises ValueError for a name that has no form in UTF-8.
    """
    from ldap3 import ALL_ATTRIBUTES, DEREF_NEVER, SUBTREE
    from ldap3.operation.search import search_operation
    from ldap3.protocol.rfc2696 import paged_search_control

    base.encode("utf-8")
    limits = (0, 0)  # none of ours on entries and seconds: pages and the connection have theirs
    request = search_operation(
        *(base, condition, SUBTREE, DEREF_NEVER, [ALL_ATTRIBUTES], *limits),
        types_only=False, auto_escape=False, auto_encode=False,
    )  # fmt: skip
    paged = [paged_search_control(False, size, cookie)] if size else []
    return _request(number, "searchRequest", request, *paged)


def start_tls_request(number: int) -> bytes:
    r"""Encode a request to go on with TLS.

    >>> start_tls_request(1)
    b'0\x1d\x02\x01\x01w\x18\x80\x161.3.6.1.4.1.1466.20037'
    """
    from ldap3.operation.extended import extended_operation

    return _request(number, "extendedReq", extended_operation(_START_TLS))


def _request(number: int, kind: str, request: Any, *controls: Any) -> bytes:
    from ldap3.protocol.convert import build_controls_list
    from ldap3.protocol.rfc4511 import LDAPMessage, MessageID, ProtocolOp
    from ldap3.utils.asn1 import encode  # type: ignore[attr-defined]  # the stubs lack it

    message = LDAPMessage()
    message["messageID"] = MessageID(number)
    message["protocolOp"] = ProtocolOp().setComponentByName(kind, request)
    if controls:
        message["controls"] = build_controls_list(list(controls))
    made: bytes = encode(message)
    return made


# Tags of RFC 4511, appendix B.
_OCTETS, _CONTROLS, _REFERRALS, _EXTENDED = 0x04, 0xA0, 0xA3, 0x78
_NUMBERS: Final = (0x02, 0x0A)
# Message numbers, results and sizes of pages fit; ldap3 takes minutes for a megabyte.
_NUMBER_SIZE: Final = 4
_FLAT: Final = frozenset((*_NUMBERS, 0x01, _OCTETS, 0x8A, 0x8B))
_BUILT: Final = 0x20  # the bit of a tag whose value is made of values
_DEEPEST: Final = 8  # values within values; a value of an entry is the sixth
_LONGEST: Final = 8  # bytes that hold any sensible length


def answer(data: bytes, number: int) -> SearchResultEntry | SearchReference | SearchResultDone:
    """Decode a message in answer to the request of a number.

    Raises:
        MessageError: it is no message of LDAP, or one of another number.
        ConnectionError: the server ends the session.

    >>> answer(bytes.fromhex("300c 020101 6507 0a0100 0400 0400"), 1)
    SearchResultDone(code=0, said='', urls='', cookie=b'')
    >>> answer(bytes.fromhex("3013 020101 640e 0401 78 3009 3007 0401 61 3102 0400"), 1)
    SearchResultEntry(dn=b'x', attributes=[('a', [b''])])
    """
    match _values(data, 0, len(data)):
        case [(0x30, [(0x02, given), (kind, operation), *rest])]:
            given = int.from_bytes(given, "big", signed=True)
        case _:
            raise LdapMessageError("the answer is not of LDAP")
    if kind == _EXTENDED and given == 0:  # RFC 4511, section 4.4.1
        raise ConnectionError(f"the server ends the session: {_end(operation, ())}")
    if given != number:
        raise LdapMessageError("an answer to no request of ours")
    match kind, operation:
        case 0x64, [(0x04, dn), (0x30, listed), *_]:
            return SearchResultEntry(dn, [_attribute(part) for part in listed])
        case 0x73, _:
            return SearchReference(_urls(operation))
        case ((0x65 | 0x78), _):
            controls = [control for tag, its in rest if tag == _CONTROLS for control in its]
            return _end(operation, controls)
    raise LdapMessageError("an answer of another kind than a search has")


def _values(data: bytes, place: int, end: int, depth: int = 0) -> list[tuple[int, Any]]:
    """Decode values of BER in a part of a message, by their tags: bytes, or lists of values.

    Raises MessageError unless each fits into its container.
    """
    found: list[tuple[int, Any]] = []
    while place < end:
        tag, content = data[place], _content(data, place)
        if content is None:
            raise LdapMessageError("a value of LDAP ends half-way")
        start, place = content
        if place > end:
            raise LdapMessageError("a value of LDAP is longer than its room")
        if tag in _FLAT and depth:
            if tag in _NUMBERS and not 1 <= place - start <= _NUMBER_SIZE:
                raise LdapMessageError("a number of LDAP is missing or too large")
            found.append((tag, data[start:place]))
        elif tag & _BUILT and depth < _DEEPEST:
            found.append((tag, _values(data, start, place, depth + 1)))
        else:
            raise LdapMessageError("the answer is not of LDAP")
    return found


def _content(data: bytes | bytearray, place: int) -> tuple[int, int] | None:
    """Return the beginning and end of the content of a value; None if its length is not all there.

    >>> _content(bytes([0x30, 5]), 0), _content(bytes([0x30, 0x82, 1, 0]), 0), _content(b"0", 0)
    ((2, 7), (4, 260), None)
    """
    start = place + 2
    if start > len(data):
        return None
    length = data[place + 1]
    if length < 0x80:
        return start, start + length
    count = length - 0x80
    if not 1 <= count <= _LONGEST:
        raise LdapMessageError("the answer is not of LDAP")
    place, start = start, start + count
    if start > len(data):
        return None
    return start, start + int.from_bytes(data[place:start], "big")


def _attribute(part: tuple[int, Any]) -> tuple[str, list[bytes]]:
    match part:
        case 0x30, [(0x04, name), (0x31, values), *_]:
            return name.decode("utf-8", "backslashreplace"), _octets(values)
    raise LdapMessageError("an attribute of LDAP lacks what it must have")


def _end(operation: Any, controls: Sequence[tuple[int, Any]]) -> SearchResultDone:
    match operation:
        case [(0x0A, code), (0x04, _), (0x04, said), *rest]:
            urls = [_urls(its) for tag, its in rest if tag == _REFERRALS]
            cookie = next(filter(None, map(_cookie, controls)), b"")
            text = said.decode("utf-8", "replace")[:_TEXT_LIMIT]
            return SearchResultDone(
                int.from_bytes(code, "big", signed=True), text, "".join(urls), cookie
            )
    raise LdapMessageError("a result of LDAP lacks what it must have")


def _cookie(control: tuple[int, Any]) -> bytes:
    """Return the cookie of the control for pages, and nothing of another."""
    match control:
        case 0x30, [(0x04, name), *_] if name != _PAGES:
            return b""
        case 0x30, [_, *_, (0x04, value)]:
            match _values(value, 0, len(value)):
                case [(0x30, [(0x02, _), (0x04, cookie), *_])]:
                    return bytes(cookie)
    raise LdapMessageError("a control of LDAP lacks what it must have")


def _urls(values: Sequence[tuple[int, Any]]) -> str:
    return ", ".join(url.decode("utf-8", "replace") for url in _octets(values))[:_TEXT_LIMIT]


def _octets(values: Sequence[tuple[int, Any]]) -> list[bytes]:
    if any(tag != _OCTETS for tag, _ in values):
        raise LdapMessageError("a list of LDAP holds what it cannot")
    return [octets for _, octets in values]


# The connection

# A page of 500 entries is some ten times as long.
_CHUNK: Final = 1 << 16
_OTHER_HOST: Final = {62, 64}  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH


@attrs.define(slots=True, eq=False)
class LdapConnection:
    """A connected socket that is read message by message.

    Reading ends at `deadline` by `time.monotonic`; `left` bytes may still come in all.
    """

    _socket: socket.socket
    timeout: float
    deadline: float
    message_limit: int
    left: int
    _held: bytearray = attrs.field(factory=bytearray, init=False)
    _place: int = attrs.field(default=0, init=False)

    def close(self) -> None:
        """End the connection, whatever state its server left it in."""
        self._socket.close()

    def secure(self, context: ssl.SSLContext, host: str, trusted: str) -> None:
        """Go on with TLS; ``trusted`` names the origin of the context's certificates."""
        if self._place < len(self._held):
            raise ConnectionError("the server sends in clear what should come within TLS")
        self._socket.settimeout(self._patience())
        try:
            self._socket = context.wrap_socket(self._socket, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            if error.verify_code in _OTHER_HOST:
                todo = "ask for the server by a name that its certificate has"
            else:
                todo = f"it was held against {trusted}; --ldap-ca FILE (ca_file) names others"
            said = error.verify_message.rstrip(".")
            raise ConnectionError(f"the certificate does not verify: {said}; {todo}") from error
        except TimeoutError as error:
            raise ConnectionError(f"no TLS within {self.timeout:g} s") from error
        except (ssl.SSLEOFError, ConnectionError) as error:
            raise ConnectionError("the server hangs up when asked for TLS") from error
        except ssl.SSLError as error:
            said = (error.reason or str(error)).replace("_", " ").lower()
            raise ConnectionError(f"no TLS: {said}; does this port speak it?") from error

    def send(self, data: bytes) -> None:
        """Send a request."""
        self._socket.settimeout(self._patience())
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise ConnectionError(f"the server takes no request: {_said(error)}") from error

    def receive(self) -> bytes:
        """Return the next message, whole."""
        while True:
            if self._place < len(self._held) and self._held[self._place] != 0x30:
                raise LdapMessageError("the answer is not of LDAP")
            if (found := _content(self._held, self._place)) is not None:
                start, end = found
                if end - start > self.message_limit:
                    raise ConnectionError(
                        f"a message of {end - start} bytes; at most {self.message_limit} are read"
                    )
                if end <= len(self._held):
                    message = bytes(self._held[self._place : end])
                    self._place = end
                    return message
            self._fill()

    def _fill(self) -> None:
        del self._held[: self._place]
        self._place = 0
        if not self.left:
            raise ConnectionError("the answer is too long")
        self._socket.settimeout(self._patience())
        try:
            data = self._socket.recv(min(_CHUNK, self.left))
        except TimeoutError as error:
            self._patience()  # which may be at its end: another message
            raise ConnectionError(f"nothing came for {self.timeout:g} s") from error
        except OSError as error:
            raise ConnectionError(f"the connection broke: {_said(error)}") from error
        if not data:
            raise ConnectionError("the server closed the connection")
        self.left -= len(data)
        self._held += data

    def _patience(self) -> float:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise ConnectionError("the answer takes too long")
        return min(self.timeout, left)


def connect(host: str, port: int, bounds: LdapBounds) -> LdapConnection:
    """Connect to a host's port. Raises ConnectionError."""
    deadline = time.monotonic() + bounds.total
    try:
        connected = socket.create_connection((host, port), min(bounds.timeout, bounds.total))
    except socket.gaierror as error:
        raise ConnectionError(f"no address of this host is known: {_said(error)}") from error
    except UnicodeError as error:
        raise ConnectionError("this is no name of a host") from error
    except TimeoutError as error:
        raise ConnectionError(f"no connection within {bounds.timeout:g} s") from error
    except OSError as error:
        raise ConnectionError(f"no connection: {_said(error)}") from error
    return LdapConnection(connected, bounds.timeout, deadline, bounds.message, bounds.answer)


def _said(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__

"""Entries from a live information system over LDAP.

Only the search is here; what the entries mean is the same as for a file. The search is anonymous,
read-only and paged, follows no referral, verifies certificates, tries the next server where one
fails, and gives up after a time. What a stranger's server can send is bounded: see `wire`.
"""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Generator, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import attrs

from matchmaker.glue import glue13, glue20
from matchmaker.glue.issues import Issue, Report
from matchmaker.glue.ldif import Attributes, Entry
from matchmaker.glue.linking import normal_name
from matchmaker.glue.wire import (
    ANSWER_LIMIT,
    MESSAGE_LIMIT,
    PAGE_LIMIT,
    PAGE_MESSAGES,
    BoundedSocket,
)

if TYPE_CHECKING:
    import ldap3

ENVIRONMENT: Final = "LCG_GFAL_INFOSYS"
"""The variable with the servers of a grid's users: ``host:2170,other:2170``."""

ROOTS: Final = (
    ("o=grid", "Mds-Vo-name=local,o=grid", "Mds-Vo-name=resource,o=grid"),
    ("o=glue",),
)
"""Where GLUE 1.3 and GLUE 2.0 are: of each, the first that a server has is searched."""

ENTRY_LIMIT: Final = 2_000_000
VALUE_LIMIT: Final = 1 << 16
"""Bytes of one value; a longer one is left out. Real ones stay below a few kB."""

FILTER: Final = "(|" + "".join(f"(objectClass={kind})" for kind in (*glue13.IDS, *glue20.IDS)) + ")"

_PORTS = {"ldap": 389, "ldaps": 636}
_EMPTY_PAGES = 100
_NO_SUCH_OBJECT, _REFERRAL, _TOO_MUCH = 32, 10, 11
_INCOMPLETE = {3: "its time limit", 4: "its size limit", _TOO_MUCH: "its administrative limit"}
# A server that talks nonsense makes the client library stumble in any of these ways.
_STUMBLES = (OSError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError)


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
        page: most bytes of one page, all of which is held until its end.
        answer: most bytes of one server.
    """

    timeout: float = 30.0
    total: float = 900.0
    page_size: int = 500
    entries: int = ENTRY_LIMIT
    value: int = VALUE_LIMIT
    message: int = MESSAGE_LIMIT
    page: int = PAGE_LIMIT
    answer: int = ANSWER_LIMIT


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
        port = parts.port or _PORTS[parts.scheme]
    except ValueError as error:
        raise ValueError(f"{url!r} is not the URL of an LDAP server: {error}") from None
    if not parts.hostname or parts.username is not None or parts.fragment:
        raise ValueError(f"{url!r} is not the URL of an LDAP server: expected ldap://host:port")
    return Server(parts.hostname, port, parts.scheme == "ldaps", unquote(parts.path.strip("/")))


def search(
    url: str | Sequence[str] | None,
    base: str | None,
    report: Report,
    *,
    bounds: Bounds | None = None,
    start_tls: bool = False,
    ca_file: str | None = None,
) -> Iterator[Entry]:
    """Search for the entries of GLUE 1.3 and 2.0 under a base, at the first server that answers.

    Args:
        url: ``ldap://host:2170`` or ``ldaps://…``, or several; None for those of the environment.
        base: the name to search under; None for the URL's own or else `ROOTS`.
        report: called with an `Issue` for each part of the answer that is missing or mended.
        bounds: on time and size.
        start_tls: whether to ask an ``ldap://`` server for TLS before anything else.
        ca_file: a file of certificates to trust, in place of the system's.

    Raises:
        ValueError: for a URL of another scheme.
        ConnectionError: where no server can be reached, or all refuse or fail with nothing read.
    """
    found = servers(url)
    bounds = bounds if bounds is not None else Bounds()
    failures: list[str] = []
    seen: set[str] = set()
    for number, server in enumerate(found, 1):
        one = _Search(server, bounds, report)
        try:
            for entry in one.entries(base, start_tls=start_tls, ca_file=ca_file):
                if len(found) > 1:  # what a server that failed has told already is not told again
                    if (name := normal_name(entry.dn)) in seen:
                        continue
                    seen.add(name)
                yield entry
        except ConnectionError as error:
            failures.append(str(error))
            if one.count:
                report(Issue("ldap.partial", f"the answer is not whole: {error}"))
                if number == len(found):
                    return
        else:
            for failure in failures:
                report(Issue("ldap.failover", f"another server was asked: {failure}"))
            return
    raise ConnectionError("; ".join(failures))


@attrs.define(slots=True)
class _Search:
    """A search at one server, and how many entries it has brought."""

    server: Server
    bounds: Bounds
    report: Report
    count: int = 0

    def entries(self, base: str | None, *, start_tls: bool, ca_file: str | None) -> Iterator[Entry]:
        from ldap3.core.exceptions import LDAPException

        chosen = base if base is not None else self.server.base
        roots = [(chosen,)] if chosen else ROOTS
        where = f"LDAP search at {self.server} under {chosen or 'o=grid and o=glue'!r}"
        connection = None
        try:
            connection = self._connected(start_tls=start_tls, ca_file=ca_file)
            missing = 0
            for names in roots:
                for name in names:
                    there = yield from self._pages(connection, name, needed=bool(chosen))
                    if there:
                        break
                else:
                    missing += 1
            if missing == len(roots):
                raise ConnectionError(f"{where}: the server has neither")
        except RecursionError:
            raise ConnectionError(f"{where}: an answer nested too deeply") from None
        except (LDAPException, *_STUMBLES) as error:
            if str(error).startswith("LDAP search"):
                raise
            said = str(error) or type(error).__name__
            raise ConnectionError(f"{where}: {said}") from error
        finally:
            if connection is not None:
                _close(connection)

    def _connected(self, *, start_tls: bool, ca_file: str | None) -> ldap3.Connection:
        import ldap3

        bounds = self.bounds
        secure = start_tls or self.server.tls
        # Without the schema (NONE), values stay as they were published, whatever the server's says.
        server = ldap3.Server(
            self.server.host,
            self.server.port,
            use_ssl=self.server.tls,
            get_info=ldap3.NONE,
            connect_timeout=bounds.timeout,
            tls=_verifying(ca_file) if secure else None,
        )
        connection = ldap3.Connection(server, read_only=True, auto_referrals=False)
        bounded = partial(
            BoundedSocket,
            timeout=bounds.timeout,
            deadline=time.monotonic() + bounds.total,
            message_limit=bounds.message,
            answer_limit=bounds.answer,
            page_limit=bounds.page,
            # A page is referrals and an end besides its entries.
            page_messages=min(PAGE_MESSAGES, bounds.entries + 2 * bounds.page_size),
        )
        try:
            connection.open()
            connection.socket = bounded(connection.socket)
            if start_tls and not self.server.tls:
                _secure(connection)
                connection.socket = bounded(connection.socket)
        except BaseException:
            _close(connection)  # the library leaves open what it could not connect
            raise
        # Nothing is bound: a search without is anonymous in version 3.
        connection.bound = True
        return connection

    def _pages(
        self, connection: ldap3.Connection, base: str, *, needed: bool
    ) -> Generator[Entry, None, bool]:
        """The entries under a name; whether the server has it is what the generator returns."""
        import ldap3

        cookie: bytes | None = None
        empty, size = 0, self.bounds.page_size
        while True:
            connection.search(
                base,
                FILTER,
                attributes=ldap3.ALL_ATTRIBUTES,
                paged_size=size,
                paged_cookie=cookie,
            )
            result: dict[str, Any] = connection.result
            code = result["result"]
            if code == _NO_SUCH_OBJECT and not needed and cookie is None:
                return False
            before = self.count
            for answer in connection.response or ():
                yield from self._answer(answer)
                if self.count >= self.bounds.entries:
                    said = f"more than {self.bounds.entries} entries, the rest is not read"
                    self.report(Issue("ldap.partial", said))
                    return True
            if code == _TOO_MUCH and self.count == before and size > 1:
                size //= 2  # a server may refuse large pages
                continue
            if code in _INCOMPLETE and self.count:
                said = f"the server stops at {_INCOMPLETE[code]}: the answer is not whole"
                self.report(Issue("ldap.partial", said))
                return True
            if code == _REFERRAL:
                urls = ", ".join(map(str, result.get("referrals") or ()))
                raise ConnectionError(f"the server refers to {urls[:200]}, which is not followed")
            if code:
                said = str(result.get("description"))
                raise ConnectionError(f"{said}: {result['message']}" if result["message"] else said)
            cookie = _cookie(result)
            if not cookie:
                return True
            empty = empty + 1 if self.count == before else 0
            if empty > _EMPTY_PAGES:
                raise ConnectionError("the server sends empty pages without end")

    def _answer(self, answer: dict[str, Any]) -> Iterator[Entry]:
        if answer.get("type") == "searchResRef":
            urls = ", ".join(map(str, answer.get("uri") or ()))[:200]
            said = "a part is elsewhere, referrals are not followed"
            self.report(Issue("ldap.referral", said, raw=urls))
        elif answer.get("type") == "searchResEntry":
            self.count += 1
            yield _entry(answer["dn"], answer["raw_attributes"], self.report, self.bounds.value)


def _cookie(result: dict[str, Any]) -> bytes | None:
    controls: dict[str, Any] = result.get("controls") or {}
    page = controls.get("1.2.840.113556.1.4.319") or {}
    found = (page.get("value") or {}).get("cookie")
    return found if isinstance(found, bytes) else None


def _verifying(ca_file: str | None) -> ldap3.Tls:
    """TLS that verifies the certificate, and that it is the host's, be that a name or a number."""
    import ldap3

    context = ssl.create_default_context(cafile=ca_file)

    class Verifying(ldap3.Tls):
        def wrap_socket(self, connection: Any, do_handshake: bool = False) -> None:
            inner = connection.socket
            connection.socket = context.wrap_socket(
                inner.inner if isinstance(inner, BoundedSocket) else inner,
                server_hostname=connection.server.host,
                do_handshake_on_connect=True,
            )

    return Verifying(validate=ssl.CERT_REQUIRED)


def _secure(connection: ldap3.Connection) -> None:
    """Asks for TLS; raises ConnectionError where the server has none."""
    if not connection.start_tls(read_server_info=False):
        raise ConnectionError(f"no TLS: {connection.result.get('description')}")


def _close(connection: ldap3.Connection) -> None:
    """Ends a connection, whatever state its server left it in."""
    from ldap3.core.exceptions import LDAPException

    inner = connection.socket
    try:
        connection.unbind()
    except (LDAPException, *_STUMBLES):
        pass
    if inner is not None:
        inner.close()


def _entry(dn: str, raw: dict[str, list[bytes]], report: Report, limit: int) -> Entry:
    pairs = []
    for name, values in raw.items():
        for value in values:
            if len(value) > limit:
                said = f"a value of {len(value)} bytes, skipped; at most {limit} are read"
                report(Issue("ldap.value-limit", said, dn=dn, attribute=name))
                continue
            try:
                text = value.decode("utf-8")
            except UnicodeDecodeError:
                text = value.decode("latin-1")
                said = "not UTF-8, read as Latin-1"
                report(Issue("ldap.encoding", said, dn=dn, attribute=name, raw=text[:200]))
            pairs.append((name, text))
    return Entry(dn, Attributes(pairs))

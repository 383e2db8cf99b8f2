"""What is said over LDAP: the requests as bytes, and what the answers say.

`ldap3` makes the requests. The answers come from strangers and are many: they are read here, with
every length held against what is there, so that no value is cut short or made up. The source is
RFC 4511, sections 4.1, 4.5 and 4.12, and RFC 2696 for pages.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import attrs

_INTEGER, _OCTETS, _ENUMERATED, _SEQUENCE, _SET = 0x02, 0x04, 0x0A, 0x30, 0x31
_ENTRY, _DONE, _ELSEWHERE, _EXTENDED, _INTERMEDIATE = 0x64, 0x65, 0x73, 0x78, 0x79
_CONTROLS, _REFERRAL = 0xA0, 0xA3
_PAGES: Final = b"1.2.840.113556.1.4.319"
_START_TLS: Final = "1.3.6.1.4.1.1466.20037"
_TEXT_LIMIT: Final = 200
_NUMBER_SIZE: Final = 4

Part: TypeAlias = tuple[int, int, int]
"""The tag of a value, and where its content begins and ends."""


class MessageError(ValueError):
    """An answer that is not of LDAP."""


@attrs.frozen(slots=True)
class Found:
    """An entry: its name, and its attributes with their values."""

    dn: bytes
    attributes: list[tuple[str, list[bytes]]]


@attrs.frozen(slots=True)
class Elsewhere:
    """A part of the tree that another server has; its URLs, cut where they are long."""

    urls: str


@attrs.frozen(slots=True)
class End:
    """The end of an answer: how it went, and the cookie for the next page, empty after the last."""

    code: int
    said: str
    urls: str = ""
    cookie: bytes = b""

    def __str__(self) -> str:
        from ldap3.core.results import RESULT_CODES

        name = RESULT_CODES.get(self.code, f"result {self.code}")
        return f"{name}: {self.said}" if self.said else name


def search_request(number: int, base: str, condition: str, size: int, cookie: bytes) -> bytes:
    """Asks for a page of so many of the entries under a name, with all their attributes.

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
    return _request(number, "searchRequest", request, paged_search_control(False, size, cookie))


def start_tls_request(number: int) -> bytes:
    r"""Asks a server to go on with TLS.

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


def answer(data: bytes, number: int) -> Found | Elsewhere | End | None:
    """What a message says in answer to the request of a number; None for nothing of interest.

    Raises:
        MessageError: for what is no message of LDAP, or one of another number.
        ConnectionError: where the server says that it ends the session.

    >>> answer(bytes.fromhex("300c 020101 6507 0a0100 0400 0400"), 1)
    End(code=0, said='', urls='', cookie=b'')
    >>> answer(bytes.fromhex("3013 020101 640e 0401 78 3009 3007 0401 61 3102 0400"), 1)
    Found(dn=b'x', attributes=[('a', [b''])])
    """
    try:
        return _answer(data, number)
    except MessageError:
        raise
    except ValueError:
        raise MessageError("the answer is not of LDAP") from None


def _answer(data: bytes, number: int) -> Found | Elsewhere | End | None:
    [whole] = _parts(data, (0, 0, len(data)))
    ident, operation, *controls = _parts(data, whole)
    given = _number(data, ident)
    tag = operation[0]
    if tag == _EXTENDED and given == 0:  # RFC 4511, section 4.4
        raise ConnectionError(f"the server ends the session: {_end(data, operation, [])}")
    if given != number:
        raise MessageError("an answer to no request of ours")
    if tag == _ENTRY:
        return _found(data, operation)
    if tag == _ELSEWHERE:
        return Elsewhere(_urls(data, operation))
    if tag in (_DONE, _EXTENDED):
        return _end(data, operation, controls)
    if tag != _INTERMEDIATE:
        raise MessageError("an answer of another kind than a search has")
    return None


def _found(data: bytes, operation: Part) -> Found:
    name, listed = _typed(data, operation, _OCTETS, _SEQUENCE)
    attributes = []
    for attribute in _each(data, listed, _SEQUENCE):
        kind, values = _typed(data, attribute, _OCTETS, _SET)
        title = _content(data, kind).decode("utf-8", "backslashreplace")
        attributes.append((title, [data[a:b] for _, a, b in _each(data, values, _OCTETS)]))
    return Found(_content(data, name), attributes)


def _end(data: bytes, operation: Part, controls: list[Part]) -> End:
    code, _, said, *rest = _parts(data, operation)
    text = _content(data, said).decode("utf-8", "replace")[:_TEXT_LIMIT]
    urls = next((_urls(data, part) for part in rest if part[0] == _REFERRAL), "")
    cookie = next((_cookie(data, part) for part in controls if part[0] == _CONTROLS), b"")
    return End(_number(data, code, _ENUMERATED), text, urls, cookie)


def _cookie(data: bytes, controls: Part) -> bytes:
    """That of the control for pages, among the controls of a message."""
    for control in _each(data, controls, _SEQUENCE):
        kind, *_, value = _parts(data, control)
        if _content(data, kind) == _PAGES:
            [pair] = _typed(data, value, _SEQUENCE)
            _, cookie = _typed(data, pair, _INTEGER, _OCTETS)
            return _content(data, cookie)
    return b""


def _urls(data: bytes, part: Part) -> str:
    found = [_content(data, url).decode("utf-8", "replace") for url in _parts(data, part)]
    return ", ".join(found)[:_TEXT_LIMIT]


def _content(data: bytes, part: Part) -> bytes:
    return data[part[1] : part[2]]


def _number(data: bytes, part: Part, kind: int = _INTEGER) -> int:
    tag, start, stop = part
    if tag != kind or not 1 <= stop - start <= _NUMBER_SIZE:
        raise MessageError("a number of LDAP is missing or too large")
    return int.from_bytes(data[start:stop], "big")


def _each(data: bytes, part: Part, kind: int) -> list[Part]:
    """The values within another, all of one tag."""
    found = _parts(data, part)
    for tag, _, _ in found:
        if tag != kind:
            raise MessageError("a list of LDAP holds what it cannot")
    return found


def _typed(data: bytes, part: Part, *kinds: int) -> list[Part]:
    """The values within another, which begin with those of the given tags."""
    found = _parts(data, part)[: len(kinds)]
    if tuple([tag for tag, _, _ in found]) != kinds:
        raise MessageError("a record of LDAP lacks what it must have")
    return found


def _parts(data: bytes, part: Part) -> list[Part]:
    """The values within another, one after the other.

    >>> _parts(bytes([4, 1, 65, 2, 1, 7]), (0x30, 0, 6))
    [(4, 2, 3), (2, 5, 6)]
    """
    _, start, stop = part
    found = []
    while start < stop:
        if start + 2 > stop:
            raise MessageError("a value of LDAP ends half-way")
        tag, length = data[start], data[start + 1]
        start += 2
        if length >= 0x80:
            count = length & 0x7F
            if not 1 <= count <= 8 or start + count > stop:
                raise MessageError("a value of LDAP has no sensible length")
            length = int.from_bytes(data[start : start + count], "big")
            start += count
        end = start + length
        if end > stop:
            raise MessageError("a value of LDAP is longer than what holds it")
        found.append((tag, start, end))
        start = end
    return found

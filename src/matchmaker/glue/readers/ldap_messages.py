"""What is said over LDAP: the requests as bytes, and what the answers say.

`ldap3` makes the requests and reads the answers; what it reads is then matched against the shapes
of RFC 4511, sections 4.1 and 4.5, and of RFC 2696 for pages. Its own functions for entries are of
no use here: of two attributes of one name they keep the last, and of a number they make a value of
as many bytes.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from matchmaker.glue.readers.ldap_connection import MessageError, measure

_PAGES: Final = b"1.2.840.113556.1.4.319"
_START_TLS: Final = "1.3.6.1.4.1.1466.20037"
_TEXT_LIMIT: Final = 200


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
    """Asks for a page of the entries under a name, with all their attributes.

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


def answer(data: bytes, number: int) -> Found | Elsewhere | End:
    """What a message says in answer to the request of a number.

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
    except (LookupError, TypeError):  # how ldap3 fails at what it does not know
        raise MessageError("the answer is not of LDAP") from None


def _answer(data: bytes, number: int) -> Found | Elsewhere | End:
    from ldap3.utils.asn1 import decode_message_fast

    measure(data)
    read = decode_message_fast(data)  # type: ignore[no-untyped-call]
    given, kind, operation = read["messageID"], read["protocolOp"], read["payload"]
    if kind == 24 and given == 0:  # RFC 4511, section 4.4.1
        raise ConnectionError(f"the server ends the session: {_end(operation, ())}")
    if given != number:
        raise MessageError("an answer to no request of ours")
    match kind, operation:  # the kinds are those of RFC 4511, appendix B
        case 4, [(0, False, 4, dn), (0, True, 16, listed), *_]:
            return Found(dn, [_attribute(part) for part in listed])
        case 19, _:
            return Elsewhere(_urls(operation))
        case ((5 | 24), _):
            return _end(operation, read["controls"] or ())
    raise MessageError("an answer of another kind than a search has")


# To ldap3 a value is its class, whether it is made of values, its type, and what it holds.


def _attribute(part: Any) -> tuple[str, list[bytes]]:
    match part:
        case (0, True, 16, [(0, False, 4, name), (0, True, 17, values), *_]):
            return name.decode("utf-8", "backslashreplace"), _octets(values)
    raise MessageError("an attribute of LDAP lacks what it must have")


def _end(operation: Any, controls: Any) -> End:
    match operation:
        case [(0, False, 10, code), (0, False, 4, _), (0, False, 4, said), *rest]:
            urls = [_urls(held) for class_, _, kind, held in rest if (class_, kind) == (2, 3)]
            cookie = next(filter(None, map(_cookie, controls)), b"")
            text = said.decode("utf-8", "replace")[:_TEXT_LIMIT]
            return End(code, text, "".join(urls), cookie)
    raise MessageError("a result of LDAP lacks what it must have")


def _cookie(control: Any) -> bytes:
    """That of the control for pages, and nothing of another."""
    from ldap3.utils.asn1 import decode_sequence

    match control:
        case (0, True, 16, [(0, False, 4, name), *_]) if name != _PAGES:
            return b""
        case (0, True, 16, [_, *_, (0, False, 4, value)]):
            measure(value)
            match decode_sequence(value, 0, len(value)):
                case [(0, True, 16, [(0, False, 2, _), (0, False, 4, cookie), *_])]:
                    return bytes(cookie)
    raise MessageError("a control of LDAP lacks what it must have")


def _urls(values: Any) -> str:
    return ", ".join(url.decode("utf-8", "replace") for url in _octets(values))[:_TEXT_LIMIT]


def _octets(values: Any) -> list[bytes]:
    found = []
    for class_, built, kind, held in values:
        if kind != 4 or built or class_:
            raise MessageError("a list of LDAP holds what it cannot")
        found.append(held)
    return found

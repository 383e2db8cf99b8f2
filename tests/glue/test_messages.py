"""Messages of LDAP: what is asked, and that answers are read whole or refused."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchmaker.glue.readers.ldap import (
    FILTER,
    LdapMessageError,
    SearchReference,
    SearchResultDone,
    SearchResultEntry,
    answer,
    search_request,
)
from tests.glue.ldap_server import ber, done, ends_session, message, overrun

BYTES = st.binary(max_size=300)
ATTRIBUTES = st.lists(
    st.tuples(st.text("abcXYZ012-;", min_size=1), st.lists(BYTES, max_size=3)), max_size=4
)


def found(number: int, dn: bytes, attributes: list[tuple[str, list[bytes]]]) -> bytes:
    listed = [
        ber(0x30, ber(0x04, name.encode()), ber(0x31, *(ber(0x04, value) for value in values)))
        for name, values in attributes
    ]
    return message(number, ber(0x64, ber(0x04, dn), ber(0x30, *listed)))


@given(st.integers(1, 2**31 - 1), BYTES, ATTRIBUTES)
def test_an_entry_is_what_was_sent(
    number: int, dn: bytes, attributes: list[tuple[str, list[bytes]]]
) -> None:
    assert answer(found(number, dn, attributes), number) == SearchResultEntry(dn, attributes)


SENT = [
    found(5, b"o=grid", [("objectClass", [b"GlueCE", b""]), ("o", [b"x" * 200])]),
    done(5, cookie=b"more", extra=ber(0xA3, ber(0x04, b"ldap://h"))),
    message(5, ber(0x73, ber(0x04, b"ldap://h/o=x"))),
    overrun(5),
    ends_session(),
]


@pytest.mark.parametrize("sent", SENT)
def test_a_part_of_a_message_is_refused(sent: bytes) -> None:
    for end in range(len(sent)):
        with pytest.raises(LdapMessageError):
            answer(sent[:end], 5)


@given(st.sampled_from(SENT), st.data())
def test_a_message_of_changed_bytes_is_read_or_refused(sent: bytes, data: st.DataObject) -> None:
    changed = bytearray(sent)
    for place in data.draw(st.lists(st.integers(0, len(sent) - 1), min_size=1, max_size=4)):
        changed[place] = data.draw(st.integers(0, 255))
    with suppress(LdapMessageError, ConnectionError):
        answer(bytes(changed), 5)


SMALL = found(5, b"o=grid", [("o", [b"x"])])
PAGED = done(5, cookie=b"more")


@pytest.mark.parametrize(
    ("sent", "place"),
    [
        *((SMALL, place) for place in (-2, -4, -9, -11, -21)),
        (PAGED, -5),
        (PAGED, -10),
        (PAGED, -12),
    ],
    ids=["value", "values", "attribute", "attributes", "entry", "cookie", "page", "control"],
)
def test_no_value_goes_beyond_what_holds_it(sent: bytes, place: int) -> None:
    longer = bytearray(sent)
    longer[place] += 1
    with pytest.raises(LdapMessageError, match="longer than its room"):
        answer(bytes(longer), 5)


def test_a_value_is_octets_and_nothing_else() -> None:
    """Whatever its tag, no value is read in a way that its length was not held against."""
    for tag in {*range(256)} - {0x04}:
        attribute = ber(0x30, ber(0x04, b"o"), ber(0x31, ber(tag, b"\x04\x7f")))
        with pytest.raises(LdapMessageError):
            answer(message(5, ber(0x64, ber(0x04), ber(0x30, attribute))), 5)


def test_an_end_and_a_reference() -> None:
    assert answer(SENT[1], 5) == SearchResultDone(0, "", "ldap://h", b"more")
    assert answer(SENT[2], 5) == SearchReference("ldap://h/o=x")
    with pytest.raises(LdapMessageError, match="another kind"):  # none was asked for
        answer(message(5, ber(0x79)), 5)
    with pytest.raises(LdapMessageError, match="too large"):
        answer(message(5, ber(0x65, ber(0x0A, b"\x01" * 5), ber(0x04), ber(0x04))), 5)


def test_a_request_asks_for_a_page_of_all_attributes() -> None:
    """Field by field, as RFC 4511, section 4.5.1, and RFC 2696, section 2, have it."""
    none, false = ber(0x02, b"\0"), ber(0x01, b"\0")
    search = ber(
        0x63,
        ber(0x04, "o=gr\u00fcn".encode()),
        ber(0x0A, b"\2"),  # the whole tree below
        ber(0x0A, b"\0"),  # aliases are not followed
        *(none, none, false),  # no limits; values, and not only names
        ber(0xA3, ber(0x04, b"objectClass"), ber(0x04, b"x")),
        ber(0x30, ber(0x04, b"*")),
    )
    page = ber(0x30, ber(0x02, b"\x01\xf4"), ber(0x04, b"more"))
    control = ber(0x30, ber(0x04, b"1.2.840.113556.1.4.319"), ber(0x04, page))
    expected = ber(0x30, ber(0x02, b"\7"), search, ber(0xA0, control))
    assert search_request(7, "o=gr\u00fcn", "(objectClass=x)", 500, b"more") == expected


def test_a_base_without_a_form_in_utf8() -> None:
    with pytest.raises(ValueError, match="utf-8"):
        search_request(1, "\udcff", FILTER, 500, b"")

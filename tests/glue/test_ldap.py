"""What comes of servers that are slow, hostile or elsewhere; sound ones are in tests/services."""

from __future__ import annotations

import socket
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchmaker import broker, glue, parse_ad
from matchmaker._limits import GLUE_LIMITS as LIMITS
from matchmaker.glue.readers.ldap import LdapBounds, servers
from tests.glue.ldap_server import (
    Answer,
    ber,
    done,
    ends_session,
    entry,
    message,
    overrun,
    queue,
    server,
)
from tests.limits import fields

pytestmark = pytest.mark.slow

QUICK = LdapBounds(timeout=2, total=4)
CMS = parse_ad('[ VirtualOrganisation = "cms"; Rank = 1 ]')


def read(answer: Answer, bounds: LdapBounds = QUICK) -> glue.Glue:
    with server(answer) as url:
        return glue.read_ldap(url, "o=grid", bounds=bounds)


def rules(found: glue.Glue) -> list[str]:
    return [issue.rule for issue in found.issues if issue.rule.startswith("ldap.")]


def test_a_sound_answer_of_this_server_is_read() -> None:
    found = read(lambda peer, n: peer.sendall(queue(n, GlueCEStateFreeCPUs=b"7") + done(n)))
    [ad] = found.computing_elements()
    assert ad.eval("GlueCEStateFreeCPUs") == 7
    assert rules(found) == []


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda peer, n: peer.sendall(b"\x30\x84\x7f\xff\xff\xff\x02\x01\x01"), "2147483647 bytes"),
        (lambda peer, n: peer.sendall(b"\x30\x80"), "not of LDAP"),
        (lambda peer, n: peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "not of LDAP"),
        (lambda peer, n: peer.sendall(message(n, ber(0x64, b"\x30" * 2000))), "LDAP search"),
        (lambda peer, n: peer.sendall(queue(n + 1) + done(n + 1)), "no request of ours"),
        (lambda peer, n: peer.sendall(overrun(n) + done(n)), "longer than its room"),
        (lambda peer, n: peer.sendall(message(n, ber(0x61, ber(0x0A, b"\0")))), "another kind"),
        (lambda peer, n: peer.sendall(ends_session()), "ends the session"),
        (lambda peer, n: peer.sendall(done(n, code=80)), "other"),
        (lambda peer, n: peer.sendall(done(n, code=32)), "nothing of this name"),
        (lambda peer, n: peer.sendall(done(n, code=200)), "result 200"),
        (lambda peer, n: peer.sendall(done(n, cookie=b"more")), "without end"),
        (lambda peer, n: peer.close(), "LDAP search"),
    ],
    ids=[
        *("giant", "endless", "http", "nested", "other-number", "overrun", "kind", "end"),
        *("refused", "no-base", "code", "pages", "gone"),
    ],
)
def test_nonsense_is_an_error(answer: Answer, said: str) -> None:
    with pytest.raises(ConnectionError, match=said):
        read(answer)


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        (LdapBounds(timeout=2, total=30, answer=50_000), "the answer is too long"),
        (
            LdapBounds(timeout=2, total=30, entries=500),
            "500 entries, the rest is not read; a longer base",
        ),
    ],
)
def test_a_page_without_end_is_cut_and_what_came_before_stays(
    bounds: LdapBounds, said: str
) -> None:
    def endless(peer: socket.socket, number: int) -> None:
        while True:
            peer.sendall(queue(number, "one") + queue(number, "two") * 100)

    found = read(endless, bounds)
    assert [ce.id for ce in found.snapshot.computing_elements] == [
        "h:1/jm-pbs-one",
        "h:1/jm-pbs-two",
    ]
    [issue] = [issue for issue in found.issues if issue.partial]
    assert said in issue.message


def test_references_without_end_are_cut() -> None:
    def endless(peer: socket.socket, number: int) -> None:
        while True:
            peer.sendall(message(number, ber(0x73, ber(0x04, b"ldap://h"))) * 100)

    found = read(endless, LdapBounds(timeout=2, total=30, entries=500))
    assert rules(found) == ["ldap.referral"] * 500 + ["ldap.partial"]


def test_an_answer_byte_by_byte_is_cut() -> None:
    pause = threading.Event()

    def slow(peer: socket.socket, number: int) -> None:
        for byte in queue(number) * 100:
            peer.sendall(bytes([byte]))
            pause.wait(0.05)

    with pytest.raises(ConnectionError, match="takes too long"):
        read(slow, LdapBounds(timeout=2, total=1))


def test_a_giant_value_is_left_out() -> None:
    found = read(lambda peer, n: peer.sendall(queue(n, GlueCEName=b"x" * 100_000) + done(n)))
    assert rules(found) == ["ldap.value-limit"]
    assert "GlueCEName" not in found.computing_elements()[0]


def test_a_giant_name_is_no_entry() -> None:
    giant = "o=" + "x" * 100_000
    found = read(lambda peer, n: peer.sendall(queue(n) + entry(n, giant, o=b"x") + done(n)))
    assert rules(found) == ["ldap.value-limit"]
    assert len(found.issues[0].raw) < 2_000
    assert len(found.computing_elements()) == 1


def test_values_of_an_entry_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fields(LIMITS), "values", 3)
    found = read(
        lambda peer, n: peer.sendall(queue(n, GlueCEName=b"a", GlueCEInfoHostName=b"b") + done(n))
    )
    assert rules(found) == ["ldap.value-limit"]
    (queue_ad,) = found.computing_elements()
    assert "GlueCEName" in queue_ad
    assert "GlueCEInfoHostName" not in queue_ad


def test_a_first_page_that_ends_half_way_is_partial() -> None:
    def half(peer: socket.socket, number: int) -> None:
        peer.sendall(queue(number, "one") + queue(number, "two")[:-5])
        peer.close()

    found = read(half)
    assert rules(found) == ["ldap.partial"]
    [issue] = [issue for issue in found.issues if issue.partial]
    assert "closed the connection" in issue.message
    assert [ce.id for ce in found.snapshot.computing_elements] == ["h:1/jm-pbs-one"]


def test_a_server_unwilling_to_page_is_asked_for_less_and_then_without() -> None:
    asked: list[int] = []

    def unwilling(peer: socket.socket, number: int) -> None:
        asked.append(number)
        peer.sendall(queue(number) + done(number) if len(asked) > 3 else done(number, 53))

    found = read(unwilling, LdapBounds(timeout=2, total=4, page_size=4))
    assert (len(found.snapshot.computing_elements), rules(found)) == (1, [])
    with pytest.raises(ConnectionError, match="unwillingToPerform"):
        read(lambda peer, number: peer.sendall(done(number, 53)))


def test_an_answer_that_ends_half_way_is_partial() -> None:
    pages = iter([b"one", b"two"])

    def half(peer: socket.socket, number: int) -> None:
        cookie = next(pages, b"")
        if cookie:
            peer.sendall(queue(number, cookie.decode()) + done(number, cookie=cookie))
        else:
            peer.sendall(queue(number, "three")[:-5])
            peer.close()

    found = read(half)
    assert rules(found) == ["ldap.partial"]
    assert [ce.id for ce in found.snapshot.computing_elements] == [
        "h:1/jm-pbs-one",
        "h:1/jm-pbs-two",
    ]


@pytest.mark.parametrize("ending", ["time", "size", "lost", "bound"])
def test_an_answer_that_breaks_off_may_lack_a_view_that_denies(ending: str) -> None:
    def broken(peer: socket.socket, number: int) -> None:
        said = queue(number, GlueCEAccessControlBaseRule=b"VO:cms", GlueCEName=b"q")
        if ending == "lost":
            peer.sendall(said)
            peer.close()
        else:
            code = {"time": 3, "size": 4}.get(ending, 0)
            peer.sendall(said + (said if ending == "bound" else b"") + done(number, code))

    found = read(broken, LdapBounds(timeout=2, total=4, entries=1 if ending == "bound" else 9))
    assert rules(found) == ["ldap.partial"]
    with pytest.raises(ValueError, match="broke off, so it is left out whole"):
        broker.choose(CMS, found)
    assert broker.choose(CMS, broker.merged([("l", found)], accept_partial=True)).ranked


def test_a_second_server_goes_on_where_the_first_ends() -> None:
    pages = iter([b"one"])

    def half(peer: socket.socket, number: int) -> None:
        if cookie := next(pages, b""):
            peer.sendall(queue(number, "one") + done(number, cookie=cookie))
        else:
            peer.close()

    def whole(peer: socket.socket, number: int) -> None:
        peer.sendall(queue(number, "one") + queue(number, "two") + done(number))

    with server(half) as first, server(whole) as second:
        found = glue.read_ldap([first, second], "o=grid", bounds=QUICK)
    assert [ce.id for ce in found.snapshot.computing_elements] == [
        "h:1/jm-pbs-one",
        "h:1/jm-pbs-two",
    ]
    assert rules(found) == ["ldap.failover"]


@pytest.mark.parametrize("others", [["q", "lost"], ["q"], ["other"]])
def test_a_second_server_mends_only_what_it_describes_too(others: list[str]) -> None:
    def broken(peer: socket.socket, number: int) -> None:
        said = queue(number, "q", GlueCEAccessControlBaseRule=b"VO:cms")
        peer.sendall(said + queue(number, "lost")[:-5])
        peer.close()

    def whole(peer: socket.socket, number: int) -> None:
        said = (queue(number, name, GlueCEAccessControlBaseRule=b"VO:cms") for name in others)
        peer.sendall(b"".join(said) + done(number))

    with server(broken) as first, server(whole) as second:
        found = glue.read_ldap([first, second], "o=grid", bounds=QUICK)
    assert ("ldap.partial" in rules(found)) == ("q" not in others)
    accepted = broker.merged([("l", found)], accept_partial=True)
    assert len(broker.choose(CMS, accepted).ranked) == (len(others) if "q" in others else 2)


@pytest.mark.parametrize("servers", [1, 2])
def test_a_second_entry_of_one_name_denies_also_where_there_are_several_servers(
    servers: int,
) -> None:
    def twice(peer: socket.socket, number: int) -> None:
        rules = (b"VO:cms", b"DENY:VO:cms")
        said = (queue(number, GlueCEAccessControlBaseRule=rule) for rule in rules)
        peer.sendall(b"".join(said) + done(number))

    with server(twice) as url:
        found = glue.read_ldap([url] * servers, "o=grid", bounds=QUICK)
    assert not broker.choose(CMS, found).ranked


def test_an_attribute_that_restricts_and_has_no_value_is_damaged() -> None:
    rule = "GlueCEAccessControlBaseRule"

    def empty(peer: socket.socket, number: int) -> None:
        pairs = [("objectClass", b"GlueCE"), ("GlueCEUniqueID", b"h:1/jm-pbs-q"), (rule, b"VO:cms")]
        sets = [ber(0x30, ber(0x04, k.encode()), ber(0x31, ber(0x04, v))) for k, v in pairs]
        sets.append(ber(0x30, ber(0x04, rule.encode()), ber(0x31)))
        name = ber(0x04, b"GlueCEUniqueID=h:1/jm-pbs-q,o=grid")
        peer.sendall(message(number, ber(0x64, name, ber(0x30, *sets))) + done(number))

    assert not broker.choose(CMS, read(empty)).ranked


def test_a_name_that_is_lost_within_an_answer_breaks_it_off() -> None:
    def lost(peer: socket.socket, number: int) -> None:
        said = queue(number, GlueCEAccessControlBaseRule=b"VO:cms")
        peer.sendall(said + done(number, code=32))

    with server(lost) as url:
        found = glue.read_ldap(url, bounds=QUICK)
    assert "ldap.partial" in rules(found)
    with pytest.raises(ValueError, match="broke off"):
        broker.choose(CMS, found)


def test_what_is_elsewhere_is_missing() -> None:
    def parts(peer: socket.socket, number: int) -> None:
        said = queue(number, GlueCEAccessControlBaseRule=b"VO:cms")
        elsewhere = message(number, ber(0x73, ber(0x04, b"ldap://h.grid/o=grid")))
        peer.sendall(said + elsewhere + done(number))

    with pytest.raises(ValueError, match="a part is elsewhere"):
        broker.choose(CMS, read(parts))


def test_referrals_are_not_followed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        elsewhere.settimeout(0.2)
        there = f"ldap://127.0.0.1:{elsewhere.getsockname()[1]}/o=grid".encode()
        referral = ber(0xA3, ber(0x04, there))
        with pytest.raises(ConnectionError, match="not followed"):
            read(lambda peer, n: peer.sendall(done(n, code=10, extra=referral)))
        part = ber(0x73, ber(0x04, there))
        found = read(lambda peer, n: peer.sendall(queue(n) + message(n, part) + done(n)))
        assert rules(found) == ["ldap.referral"]
        assert there.decode() in found.issues[0].raw
        with pytest.raises(TimeoutError):
            elsewhere.accept()


@settings(max_examples=60)
@given(st.binary(max_size=300), st.binary(max_size=60))
def test_random_bytes_are_an_error(noise: bytes, inner: bytes) -> None:
    def answer(peer: socket.socket, number: int) -> None:
        peer.sendall(message(number, ber(0x64, inner)) + noise)
        peer.close()

    with pytest.raises(ConnectionError):
        read(answer)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ldap://a.grid:2170", ["ldap://a.grid:2170"]),
        ("ldap://a.grid", ["ldap://a.grid:389"]),
        ("ldaps://a.grid", ["ldaps://a.grid:636"]),
        ("ldap://[::1]:2170", ["ldap://[::1]:2170"]),
        ("ldap://a:1/o=x,o=grid, ldap://b:2", ["ldap://a:1", "ldap://b:2"]),
    ],
)
def test_servers(text: str, expected: list[str]) -> None:
    found = servers(text)
    assert [str(server) for server in found] == expected
    assert found[0].base == ("o=x,o=grid" if "/o=x" in text else "")


@pytest.mark.parametrize(
    "text",
    ["", "ldap://", "ldap://h:port", "ldap://me:secret@h", "ldap://h:99999", "ldap://h:0", "h,h",
     "ldap://h#x", "ldap://h/o=grid??sub", "ldap://:2170", "ldap://[::1", "ldap:h",
     "http://h/", "file:///etc/passwd", "ldapi:///", "h:2170"],
)  # fmt: skip
def test_what_is_no_server(text: str) -> None:
    with pytest.raises(ValueError, match=r"LDAP|server"):
        servers(text)


def test_a_file_of_certificates_without_tls_is_refused() -> None:
    with pytest.raises(ValueError, match="is used only with TLS"):
        glue.read_ldap("ldap://127.0.0.1:1", ca_file="ca.pem")


def test_a_server_in_clear_is_read_in_clear_beside_one_with_tls() -> None:
    def refuse(peer: socket.socket, number: int) -> None:
        peer.close()

    with (
        server(refuse) as first,
        server(lambda peer, n: peer.sendall(queue(n) + done(n))) as second,
    ):
        found = glue.read_ldap([first.replace("ldap", "ldaps"), second], "o=grid", bounds=QUICK)
    assert rules(found) == ["ldap.failover"]
    assert len(found.snapshot.computing_elements) == 1


def test_ipv6() -> None:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            pass
    except OSError:
        pytest.skip("no IPv6 on this machine")
    with server(lambda peer, n: peer.sendall(queue(n) + done(n)), "::1") as url:
        assert url.startswith("ldap://[::1]:")
        assert len(glue.read_ldap(url, "o=grid").snapshot.computing_elements) == 1


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_time_is_more_than_none(seconds: float) -> None:
    with pytest.raises(ValueError, match="more than none"):
        glue.read_ldap("ldap://127.0.0.1:1", timeout=seconds)


def test_what_is_sent_in_clear_before_tls_is_no_part_of_it() -> None:
    success = ber(0x78, ber(0x0A, b"\0"), ber(0x04), ber(0x04))

    def smuggle(peer: socket.socket, number: int) -> None:
        peer.sendall(message(number, success) + queue(number + 1) + done(number + 1))

    with server(smuggle) as url, pytest.raises(ConnectionError, match="in clear"):
        glue.read_ldap(url, "o=grid", bounds=QUICK, start_tls=True)


def test_progress_counts_the_entries_of_each_page() -> None:
    pages = iter([b"one", b"two"])
    counts: list[int] = []

    def answer(peer: socket.socket, number: int) -> None:
        cookie = next(pages, b"")
        peer.sendall(queue(number, f"q{number}") + done(number, cookie=cookie))

    with server(answer) as url:
        glue.read_ldap(url, "o=grid", bounds=QUICK, progress=counts.append)
    assert counts == [1, 2, 3]

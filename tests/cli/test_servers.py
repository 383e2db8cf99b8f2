"""What the command says of servers that are down, slow, hostile or of something else."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.test_nodes import COMMAND
from tests.cli.test_terminal import with_terminal
from tests.glue.ldap_server import Answer, done, queue, server


def closes(peer: socket.socket, number: int) -> None:
    """Hangs up, whatever it is asked."""
    peer.close()


def silent(peer: socket.socket, number: int) -> None:
    """Takes what it is asked, and says nothing."""


def drips(peer: socket.socket, number: int) -> None:
    """Has an answer of a byte, and then nothing."""
    peer.sendall(b"\x30")


def web(peer: socket.socket, number: int) -> None:
    """A server of another protocol."""
    peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def nothing(peer: socket.socket, number: int) -> None:
    """A server of LDAP without a tree."""
    peer.sendall(done(number, code=32))


@pytest.mark.parametrize(
    ("answer", "scheme", "words", "said"),
    [
        (closes, "ldap", (), "the server closed the connection"),
        (closes, "ldaps", (), "the server hangs up when asked for TLS"),
        (closes, "ldap", ("--start-tls",), "the server closed the connection"),
        (silent, "ldap", (), "nothing came for 0.3 s"),
        (silent, "ldaps", (), "no TLS within 0.3 s"),
        (drips, "ldap", (), "nothing came for 0.3 s"),
        (web, "ldap", (), "the answer is not of LDAP"),
        (web, "ldaps", (), "does this port speak it?"),
        (nothing, "ldap", (), "the server has neither"),
        (nothing, "ldap", ("--start-tls",), "no TLS"),
    ],
)
def test_a_server_that_cannot_be_read_is_told_in_a_line(
    classad: Run, answer: Answer, scheme: str, words: tuple[str, ...], said: str
) -> None:
    with server(answer) as plain:
        url = plain.replace("ldap", scheme)
        done = classad("ces", "--ldap", url, "--timeout", "0.3", *words)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"classad: LDAP search at {url} under o=grid and o=glue: ")
    assert said in done.err
    assert done.err.count("\n") == 1


def test_what_came_before_a_break_is_listed_and_the_break_is_told(classad: Run) -> None:
    def half(peer: socket.socket, number: int) -> None:
        peer.sendall(queue(number, "one") + queue(number, "two")[:-5])
        peer.close()

    with server(half) as url:
        refused = classad("ces", "--ldap", f"{url}/o=grid")
        assert (refused.status, refused.out) == (2, "")
        assert "left out whole: read it again" in refused.err
        done = classad("ces", "--ldap", f"{url}/o=grid", "--accept-partial")
        assert done.status == 0
        assert "h:1/jm-pbs-one" in done.out
        assert "the answer is not whole" in done.err
        published = classad("publish", "--ldap", f"{url}/o=grid", "--accept-partial")
        assert (published.status, published.out) == (1, "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--ldap-ca", "missing.pem"), "missing.pem: No such file or directory"),
        (("--ldap-ca", "empty.pem"), "empty.pem: no certificates in PEM format were found"),
        (("--timeout", "0"), "--timeout"),
        (("--timeout", "nan"), "nan is not a finite number"),
    ],
)
def test_bad_options_of_servers(
    classad: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.pem").write_text("no certificate")
    done = classad("ces", "--ldap", "ldaps://127.0.0.1:1", *words)
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert said in done.err


def test_a_long_answer_shows_its_progress_on_a_terminal() -> None:
    pages = iter([b"one"])

    def slow(peer: socket.socket, number: int) -> None:
        if cookie := next(pages, b""):
            peer.sendall(queue(number, "one") + done(number, cookie=cookie))
        else:
            time.sleep(0.5)  # so that the screen is drawn once more in between
            peer.sendall(queue(number, "two") + done(number))

    with server(slow) as url:
        status, out, shown = with_terminal(["ces", "--ldap", f"{url}/o=grid", "--attrs", ""])
    assert status == 0, shown
    assert f"reading {url}/o=grid, entries so far: 1" in shown
    assert "h:1/jm-pbs-two" in out


def test_an_interrupt_in_the_middle_of_an_answer_ends_it() -> None:
    def half(peer: socket.socket, number: int) -> None:
        peer.sendall(queue(number, "one"))
        os.kill(process.pid, signal.SIGINT)

    with server(half) as url:
        process = subprocess.Popen(
            [*COMMAND, "ces", "--ldap", f"{url}/o=grid"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        out, err = process.communicate()
    assert (process.returncode, out, err.strip()) == (130, "", "classad: interrupted")

"""Jobs in submit descriptions of HTCondor, read for a broker."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchmaker import ParseError
from matchmaker.broker.submit_file import is_submit_file, read_submit_file


@pytest.mark.parametrize(
    ("lines", "name", "value"),
    [
        ("request_memory = 12 GB", "RequestMemory", 12288),
        ("request_memory = 2000", "RequestMemory", 2000),
        ("Request_Memory = 1.5g", "RequestMemory", 1536),
        ("request_memory = 1K", "RequestMemory", 1),
        ("request_disk = 2 MB", "RequestDisk", 2048),
        ("request_cpus = 8", "RequestCpus", 8),
        ("request_cpus = \\\n  4", "RequestCpus", 4),
        ("n = 2\nm = $(n)\nrequest_gpus = $(M)", "RequestGPUs", 2),
        ("request_cpus = $(n:3)", "RequestCpus", 3),
        ('+VirtualOrganisation = "atlas"', "VirtualOrganisation", "atlas"),
        ('my.Text = "C:\\new"', "Text", "C:\\new"),
        ("executable = /bin/a b", "Cmd", "/bin/a b"),
        ("request_cpus = 1\nrequest_cpus = 2", "RequestCpus", 2),
        ("# request_cpus = 1\nrequest_cpus = 3", "RequestCpus", 3),
    ],
)
def test_a_command_is_an_attribute(lines: str, name: str, value: object) -> None:
    job = read_submit_file(f"{lines}\nqueue\n")
    assert job[name] == value
    assert is_submit_file(f"{lines}\nqueue\n")


def test_expressions_stay() -> None:
    job = read_submit_file("requirements = other.A > \\\n 3\nrank = -other.B\nqueue 5\nx")
    assert (str(job["Requirements"]), str(job["Rank"])) == ("other.A > 3", "-other.B")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("request_cpus = 1\nif $(x)\nqueue", "line 2: a condition"),
        ("include : b\nqueue", "line 1: a condition or an inclusion"),
        ("request_cpus = $ENV(HOME)\nqueue", "line 1: the macro $ENV(HOME)"),
        ("request_cpus = $(other)\nqueue", "line 1: the macro $(other)"),
        ("a = $(b)\nb = $(a)\nrequest_cpus = $(a)\nqueue", "line 3: a macro that names itself"),
        ("request_cpus = 1\nqueue x in (a b)", "line 2: a queue statement"),
        ("hello\nqueue", "line 1: not a command"),
        (f"request_memory = {'9' * 400} T\nqueue", "line 1: RequestMemory: "),
        ("+A = ((\nqueue", "line 1: A: "),
        ("+A = 1 # 2\nqueue", "line 1: A: "),
        ("\n\n+A = 1, 2\nqueue", "line 3: A: "),
    ],
)
def test_the_rest_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(ParseError) as caught:
        read_submit_file(text)
    assert str(caught.value).startswith(said)


def test_macros_do_not_grow_without_end() -> None:
    doubled = "".join(f"m{n} = $(m{n + 1})$(m{n + 1})\n" for n in range(40))
    with pytest.raises(ParseError, match="grows too large"):
        read_submit_file(f"{doubled}m40 = 1\nrequest_cpus = $(m0)\nqueue")
    many = f"a = {'x' * 90_000}\nrequest_cpus = {'$(a)' * 20_000}\nqueue"
    with pytest.raises(ParseError, match="grows too large"):
        read_submit_file(many)


PIECES = (
    "+A = 1", "queue", "\\", "$(A)", "a=$(a)", "request_memory=9 TB", "=", "+", '"', "\r", "if",
    "\0",
)  # fmt: skip


@given(st.lists(st.sampled_from(PIECES)))
def test_any_text_is_read_or_refused(parts: list[str]) -> None:
    for text in ("\n".join(parts), "".join(parts)):
        is_submit_file(text)
        try:
            read_submit_file(text)
        except ParseError:
            continue

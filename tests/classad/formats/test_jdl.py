"""Job descriptions as users of gLite and DIRAC write them."""

from __future__ import annotations

import io

import pytest

from matchmaker import ParseError, lint, parse_ad, parse_ads, read_ads
from tests.cli.conftest import run_here

JOB = """\
# a job, without [brackets
JobName = "Simple"; Executable = "/bin/ls";  # don't list all
Arguments = "-ltr #1";

OutputSandbox = { "out",  # the first
  "err" };
Requirements = other.Cpus > 5
  && other.Name != "x;y";  // and so on
"""
READ = parse_ad(
    '[ JobName = "Simple"; Executable = "/bin/ls"; Arguments = "-ltr #1";'
    ' OutputSandbox = {"out", "err"};'
    ' Requirements = other.Cpus > 5 && other.Name != "x;y" ]'
)


class Trickle(io.BytesIO):
    """A file that gives one byte at a time, whatever is asked for."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(1 if size != 0 else 0)


@pytest.mark.parametrize("form", ["auto", "new"])
@pytest.mark.parametrize("text", [JOB, JOB.rstrip("; \n"), f"[\n{JOB}]", "\n" + JOB + "# end"])
def test_brackets_may_be_missing_and_comments_begin_with_a_number_sign(
    form: str, text: str
) -> None:
    assert list(parse_ads(text, form)) == [READ]
    assert list(read_ads(Trickle(text.encode()), form)) == [READ]


@pytest.mark.parametrize(
    ("text", "ads"),
    [
        ("a = [ b = 1; c = 2 ]\nd = 3\n", 1),
        ('a = "x; y"\nb = f("(", 2)\n', 1),
        ('a = "C:\\"\nb = "D:;"\n', 1),
        ("a = 1\n\nb = 2\n", 2),
        ("a = 1 // ; no\nb = 2", 1),
        ("3a = 1\nb.c = 2\n", 1),
    ],
)
def test_the_old_format_stays_what_it_was(text: str, ads: int) -> None:
    assert list(parse_ads(text)) == list(parse_ads(text, "old"))
    assert len(list(parse_ads(text))) == ads


@pytest.mark.parametrize(
    ("text", "line", "column", "hint"),
    [
        ("a = 1;\nb = ;\n", 2, 5, ""),
        ("a = 1;\nb = 2\nc = 3;\n", 3, 1, "a ; is missing before it"),
        ("[ a = 1; # one\n b = ) ]", 2, 6, "there is no '('"),
    ],
)
def test_errors_have_their_place(text: str, line: int, column: int, hint: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_ad(text, "new")
    assert (caught.value.line, caught.value.column) == (line, column)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    "text",
    ["[ # x\n" + "/*" * 20_000, '[ # x\n"' + '\\"' * 20_000, "a = " + "/*" * 20_000,
     "a = {" + "b," * 20_000, 'a = "' + '\\"' * 20_000, "a = 1;\n" + "#" * 20_000],
)  # fmt: skip
def test_what_has_no_end_is_looked_at_once(text: str) -> None:
    wrong: list[ParseError] = []
    source = Trickle(text.encode())
    assert len(list(read_ads(source, errors="report", report=wrong.append))) + len(wrong) > 0


def test_lint_notes_it() -> None:
    [note] = lint(JOB)
    assert (note.rule, note.severity, note.line, note.column) == ("CA005", "note", 2, 1)
    assert "without brackets and with # comments" in note.message
    assert [found.rule for found in lint("[ a = 1 # one\n]")] == ["CA005"]
    assert lint("# a leading comment\n[ a = 1 ]") == lint("a = 1\nb = 2") == []
    _, found = lint("a = 1;\nb = 2 +;")
    assert (found.line, found.column, found.raw) == (2, 8, ";")


@pytest.mark.slow
def test_convert_notes_it() -> None:
    done = run_here("convert", "-", given=JOB)
    assert (done.returncode, done.stdout) == (0, f"{READ}\n")
    assert done.stderr == (
        "classad: -: a job description without brackets and with # comments,"
        " which HTCondor does not read\n"
    )
    assert run_here("convert", "-", given=done.stdout).stderr == ""

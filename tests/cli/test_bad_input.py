"""Bad input: one line on standard error, nothing on standard output, exit status 2."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from matchmaker import ParseError, parse_ad, read_ads
from matchmaker.cli.group import SUBCOMMANDS
from tests.cli.conftest import COMMAND, Run

pytestmark = pytest.mark.slow

GOOD_JOB = "[ Requirements = other.Cpus > 2; Rank = 1 ]"
GOOD_POOL = '[ Name = "a"; Cpus = 4 ]'


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder of good and bad files."""
    (tmp_path / "job").write_text(GOOD_JOB)
    (tmp_path / "pool").write_text(GOOD_POOL)
    (tmp_path / "empty").touch()
    (tmp_path / "blank").write_text("\n\n  \n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "junk").write_bytes(bytes(range(256)) * 4)
    (tmp_path / "image").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0")
    (tmp_path / "latin").write_bytes(b'[ a = "caf\xe9" ]')
    (tmp_path / "syntax").write_text("[\n  Cpus = 4;\n  Requirements = other.Cpus > ;\n]\n")
    (tmp_path / "unclosed").write_text("[ Requirements = (other.Cpus > 2 ]")
    (tmp_path / "text").write_text("this is a letter, and not an ad\n")
    (tmp_path / "list").write_text("{ 1, 2, 3 }")
    (tmp_path / "number").write_text("42")
    (tmp_path / "two").write_text("[ a = 1 ] [ a = 2 ]")
    (tmp_path / "json").write_text('{"a": }')
    (tmp_path / "xml").write_text("<classads><c><a n='x'><z/></a></c></classads>")
    (tmp_path / "html").write_text("<html><body>503 Service Unavailable</body></html>")
    (tmp_path / "deep").write_text(f"[ a = {'{' * 800}1{'}' * 800} ]")
    (tmp_path / "mapping").write_text("[attributes.X]\nkind = 'none'\n")
    (tmp_path / "toml").write_text("= 5")
    (tmp_path / "weird").write_text("directive = 5\n")
    return tmp_path


def refused(run: Run, *words: object, stdin: str = "") -> str:
    """Runs what must be refused, and gives the one line that says why."""
    done = run(*words, stdin=stdin)
    assert done.status == 2, done
    assert done.out == ""
    assert done.err.endswith("\n")
    assert done.err.count("\n") == 1
    assert done.err.startswith("classad: ")
    assert "Traceback" not in done.err
    assert len(done.err) < 1000
    return done.err.removeprefix("classad: ").rstrip("\n")


# What is wrong, and what the message must hold; {} stands for the folder.
BAD_ADS = {
    "missing": ["{}/missing", "No such file"],
    "folder": ["{}/folder", "s a directory"],
    "empty": ["{}/empty", "no ads"],
    "blank": ["{}/blank", "no ads"],
    "junk": ["{}/junk"],
    "image": ["{}/image", "line 1"],
    "latin": ["{}/latin", "0xe9", "not UTF-8"],
    "syntax": ["{}/syntax", "line 3, column 31", "unexpected ';'", "expected a value"],
    "unclosed": ["{}/unclosed", "line 1, column 34"],
    "text": ["{}/text", "line 1", "not an assignment"],
    "list": ["{}/list", "line 1"],
    "number": ["{}/number", "line 1"],
    "two": ["{}/two", "2 ads", "exactly one"],
    "json": ["{}/json", "line 1", "not JSON"],
    "xml": ["{}/xml", "<z>"],
    "html": ["{}/html"],
    "deep": ["{}/deep"],
}


@pytest.mark.parametrize("name", BAD_ADS)
def test_a_bad_job(classad: Run, files: Path, name: str) -> None:
    line = refused(classad, "match", files / name, files / "pool")
    for words in BAD_ADS[name]:
        assert words.format(files) in line


@pytest.mark.parametrize("command", ["broker", "reduce", "flags", "nodes", "explain", "eval"])
@pytest.mark.parametrize("name", ["missing", "syntax", "two"])
def test_every_subcommand_reads_jobs_alike(
    classad: Run, files: Path, command: str, name: str
) -> None:
    if command in ("eval", "broker", "explain") and name == "two":
        name = "syntax"  # these take many jobs or ads
    bad = files / name
    words = {
        "broker": ["broker", bad, "--ce", files / "pool"],
        "reduce": ["reduce", bad, "--ce", files / "pool"],
        "flags": ["flags", bad, "--ce", files / "pool", "--lrms", "slurm"],
        "nodes": ["nodes", bad, "--nodes", files / "pool"],
        "explain": ["explain", bad, files / "pool"],
        "eval": ["eval", "1", "--ad", bad],
    }[command]
    line = refused(classad, *words)
    assert str(bad) in line


# Several ads, or none, are as good as one in a pool.
BAD_POOLS = [name for name in BAD_ADS if name not in ("two", "empty", "blank")]


@pytest.mark.parametrize("name", BAD_POOLS)
def test_a_bad_pool(classad: Run, files: Path, name: str) -> None:
    bad = files / name
    for words in (
        ["match", files / "job", bad],
        ["match", files / "job", files / "pool", bad],
        ["nodes", files / "job", "--nodes", bad],
        ["broker", files / "job", "--ce", bad],
        ["ces", "--ce", bad],
    ):
        assert str(bad) in refused(classad, *words)


@pytest.mark.parametrize("name", BAD_POOLS)
def test_convert_leaves_nothing_half_written(classad: Run, files: Path, name: str) -> None:
    out, old = files / "out", files / "old"
    old.write_text("as it was")
    before = set(files.iterdir())
    refused(classad, "convert", files / name, out)
    refused(classad, "convert", files / name, old)
    assert set(files.iterdir()) == before
    assert old.read_text() == "as it was"


def test_convert_refuses_a_late_fault_before_it_writes(classad: Run, files: Path) -> None:
    (files / "late").write_text("[ a = 1 ]\n" * 50 + "[ a = ]")
    line = refused(classad, "convert", files / "late", "--to", "old")
    assert "line 51, column 7" in line


@pytest.mark.parametrize("target", ["missing/out", "folder"])
def test_convert_to_where_nothing_can_be_written(classad: Run, files: Path, target: str) -> None:
    before = set(files.rglob("*"))
    line = refused(classad, "convert", files / "pool", files / target)
    assert set(files.rglob("*")) == before
    assert str(files / target) in line


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nonesuch"], "nonesuch"),
        (["--nonesuch"], "nonesuch"),
        (["match"], "JOB"),
        (["match", "job"], "POOL"),
        (["match", "job", "pool", "--nonesuch"], "--nonesuch"),
        (["eval", "1 +"], "column 4: the text ends too early; expected a value"),
        (["eval", "1", "a ="], "use == to compare"),
        (["eval", ""], "expected a value"),
        (["convert", "pool", "--to", "yaml"], "yaml"),
        (["broker", "job"], "no queues to choose from"),
        (["reduce", "job"], "no queues to choose from"),
        (["ces"], "no queues to choose from"),
        (["flags", "job", "--ce", "pool"], "--lrms"),
        (["flags", "job", "--ce", "pool", "--lrms", "nonesuch"], "unknown batch system 'nonesuch'"),
        (["broker", "job", "--ce", "pool", "--lrms", "nonesuch"], "known: blah, "),
        (["broker", "job", "--ce", "pool", "--lrms", "../slurm"], "unknown batch system"),
        (["broker", "job", "--ce", "pool", "--at", "noon"], "--at noon: not a time"),
        (["ces", "--ce", "pool", "--at", "2005-13-01"], "--at 2005-13-01: not a time"),
        (["broker", "missing", "--ce", "pool"], "missing"),
        (["reduce", "job", "--ce", "pool", "--at", ""], "not a time"),
        (["reduce", "job", "--ce", "pool", "--queue", "b"], "no queue is named b"),
        (["flags", "job", "--ce", "pool", "--lrms", "slurm", "--mapping", "missing"], "missing"),
        (["flags", "job", "--ce", "pool", "--lrms", "slurm", "--mapping", "folder"], "folder"),
        (["flags", "job", "--ce", "pool", "--lrms", "slurm", "--mapping", "toml"], "toml: not"),
        (["flags", "job", "--ce", "pool", "--lrms", "slurm", "--mapping", "junk"], "junk: not"),
        (["flags", "job", "--ce", "pool", "--lrms", "slurm", "--mapping", "mapping"],
         "mapping: [attributes.X] kind: expected 'min', 'max'"),
        (["flags", "job", "--ce", "pool", "--lrms", "slurm", "--mapping", "weird"], "directive"),
        (["broker", "job", "--ldif", "missing"], "missing: No such file"),
        (["broker", "job", "--ldif", "folder"], "folder: Is a directory"),
        (["broker", "job", "--ldif", "empty"], "empty: no entry of a GLUE information system"),
        (["broker", "job", "--ce", "empty"], "empty: no ad of a queue was found"),
        (["explain", "job", "two"], "no Name"),
        (["nodes", "job"], "--nodes"),
    ],
)  # fmt: skip
def test_bad_arguments(
    classad: Run, files: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(files)
    assert message in refused(classad, *words)


@pytest.mark.parametrize("words", [["a\0b"], ["--ce\0"], ["--ldif", "x\0"], ["-o\0"]])
def test_null_bytes_in_arguments(classad: Run, words: list[str]) -> None:
    for command in SUBCOMMANDS:
        assert "null byte" in refused(classad, command, *words)


# Runs the command with room for so many bytes more than the interpreter takes.
LIMITED = """
import resource, sys
from pathlib import Path
room = int(sys.argv.pop(1))
from matchmaker.cli import main
if room > 1 << 20:
    import matchmaker.cli.commands.match, matchmaker.cli.reports, matchmaker.matching.pool
taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + room, taken + room))
main()
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("room", [0, 1 << 20, 6 << 20])
def test_a_limit_on_memory_is_one_line(files: Path, room: int) -> None:
    (files / "large").write_text(f'[ Name = "{"n" * (8 << 20)}" ]')
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(room), "match", "job", "large"], cwd=files,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("classad: out of memory")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "error",
    [MemoryError(), OSError(errno.ENOMEM, "Cannot allocate memory"), SystemError("NULL"),
     ImportError("libx.so: failed to map segment from shared object"), SyntaxError("expected ':'")],
)  # fmt: skip
def test_want_of_memory_in_any_guise(
    classad: Run, files: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a fault that follows") from error

    monkeypatch.setattr("matchmaker.read_ads", fail)
    assert "out of memory" in refused(classad, "convert", files / "pool")


@pytest.mark.parametrize(
    "url",
    ["http://localhost", "nonsense", "", "ldap://", "ldap:///", "ldap://host:port", "ldap://[::1",
     "ldap://127.0.0.1:99999", "ldap://a b", "ldap://127.0.0.1:1", "ldaps://127.0.0.1:1"],
)  # fmt: skip
def test_a_server_that_cannot_be_read(classad: Run, files: Path, url: str) -> None:
    line = refused(classad, "ces", "--ldap", url)
    assert url in line
    refused(classad, "broker", files / "job", "--ce", files / "pool", "--ldap", url)


def test_a_requirement_that_cannot_be_reduced(classad: Run, files: Path) -> None:
    job = "[ Requirements = eval(other.GlueHostBenchmarkSI00) > 1; Rank = 1 ]"
    line = refused(classad, "reduce", "-", "--ce", files / "pool", "--queue", "a", stdin=job)
    assert "eval(other.GlueHostBenchmarkSI00)" in line


@pytest.mark.parametrize("command", ["reduce", "flags", "nodes"])
def test_no_queue_that_matches_is_a_no_and_not_bad_input(
    classad: Run, files: Path, command: str
) -> None:
    more = {"flags": ["--lrms", "slurm"], "nodes": ["--nodes", str(files / "pool")], "reduce": []}
    words = [command, "-", "--ce", files / "pool", *more[command]]
    done = classad(*words, stdin="[ Requirements = false; Rank = 1 ]")
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("classad: no queue matches the job")
    assert done.err.count("\n") == 1


def test_a_node_without_a_plain_name(classad: Run, files: Path) -> None:
    (files / "nodes").write_text(
        '[ Name = "--wrap=id" ] [ Name = "b"; GlueHostBenchmarkSI00 = 900 ]'
    )
    job = "[ Requirements = other.GlueHostBenchmarkSI00 > 500; Rank = 1 ]"
    line = refused(
        classad, "flags", "-", "--ce", files / "pool", "--queue", "a", "--lrms", "slurm",
        "--nodes", files / "nodes", stdin=job,
    )  # fmt: skip
    assert "node 1 of the inventory" in line


def test_bad_standard_input_is_named_so(classad: Run, files: Path) -> None:
    line = refused(classad, "match", "-", files / "pool", stdin="[ a = ]")
    assert "stdin" in line or "standard input" in line
    assert "line 1, column 7" in line


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(classad: Run, files: Path) -> None:
    (files / "job").chmod(0)
    assert "Permission denied" in refused(classad, "match", files / "job", files / "pool")


def test_as_a_process_of_its_own(classad_process: Run, files: Path) -> None:
    line = refused(classad_process, "match", files / "syntax", files / "pool")
    assert line == (f"{files}/syntax, line 3, column 31: unexpected ';'; expected a value")


def test_control_characters_in_names_and_text_do_not_break_the_line(
    classad: Run, files: Path
) -> None:
    line = refused(classad, "match", files / "no\x1b[2J\nsuch", files / "pool")
    assert "\x1b" not in line
    line = refused(classad, "eval", "1 + \x1b[31m")
    assert "\x1b" not in line


@pytest.mark.parametrize("descriptor", ["<", ">", "2>"])
@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["match", "-", "pool"], 1),
        (["convert", "pool"], 0),
        (["match", "missing", "pool"], 2),
    ],
)
def test_a_closed_descriptor_is_no_fault_worth_a_traceback(
    files: Path, words: list[str], status: int, descriptor: str
) -> None:
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {descriptor}&-', "sh", *COMMAND, *words], text=True,
        input="[ Requirements = false ]", capture_output=True, check=False, cwd=files,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") <= 1
    if descriptor == "2>":
        # There is nowhere to complain, and all else is as ever.
        assert done.returncode == status
        assert "classad: " not in done.stdout
    elif descriptor == "<" and "-" not in words:
        assert done.returncode == status
    else:
        # Where nothing can be read or written, the answer is at best no.
        assert done.returncode in (1, 2) or status == 0


@pytest.mark.parametrize(
    "words",
    [["ces"], ["match", "job.jdl", "nodes.ad"], ["convert", "nodes.ad"], ["--help"], ["eval", "1"]],
)
def test_a_reader_that_has_gone_is_no_fault_worth_a_traceback(
    examples: Path, words: list[str]
) -> None:
    if words == ["ces"]:
        words = ["ces", "--ldif", "site.ldif", "--json"]
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [*COMMAND, *words], stdout=writing, stderr=subprocess.PIPE, text=True, check=False,
            cwd=examples,
        )  # fmt: skip
    finally:
        os.close(writing)
    assert done.stderr == ""
    assert done.returncode in (0, 1)


def test_a_full_disk_is_an_error(examples: Path) -> None:
    full = Path("/dev/full")
    if not full.is_char_device():
        pytest.skip("this system has no /dev/full")
    with full.open("w") as out:
        done = subprocess.run(
            [*COMMAND, "convert", "nodes.ad"], stdout=out, stderr=subprocess.PIPE, text=True,
            check=False, cwd=examples,
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("classad: ")


LDIF_PLACES = (
    ["match", "job.jdl", "site.ldif"],
    ["explain", "job.jdl", "site.ldif"],
    ["assign", "job.jdl", "--pool", "site.ldif"],
    ["convert", "site.ldif"],
    ["lint", "site.ldif"],
    ["eval", "1", "--ad", "site.ldif"],
)


@pytest.mark.parametrize("words", LDIF_PLACES, ids=lambda words: words[0])
def test_ldif_is_known_where_ads_are_wanted(
    classad: Run, examples: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(examples)
    done = classad(*words)
    assert done.status == 2
    assert done.out == ""
    assert done.err.startswith("classad: site.ldif: this is LDIF")
    assert "classad ces --ldif" in done.err


@pytest.mark.parametrize(
    "words",
    [["ces"], ["broker", "job.jdl"], ["flags", "job.jdl", "--lrms", "slurm"], ["reduce", "job.jdl"],
     ["nodes", "job.jdl", "--nodes", "nodes.ad"]],
    ids=lambda words: words[0],
)  # fmt: skip
def test_a_dump_without_its_option_is_told_the_option(
    classad: Run, examples: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(examples)
    done = classad(*words, "site.ldif")
    assert (done.status, done.out) == (2, "")
    assert "--ldif site.ldif a dump of GLUE" in done.err
    assert "--ldif" not in classad("eval", "1", "site.ldif").err


def test_the_library_names_the_reader_of_ldif(examples: Path) -> None:
    with pytest.raises(ParseError, match=r"glue\.read_ldif and the option --ldif"):
        list(read_ads(examples / "site.ldif"))
    with pytest.raises(ParseError) as caught:
        parse_ad("a: 1")
    assert "LDIF" not in str(caught.value)


def test_ldif_without_a_version_is_known_too(classad: Run) -> None:
    for text in ("dn: o=grid\n", "# a dump\n\n#\nDN:: bz1ncmlk\n"):
        assert "this is LDIF" in classad("convert", "-", stdin=text).err
    assert classad("convert", "-", "--to", "old", stdin="# dn: x\ndn = 1\n").out == "dn = 1\n"


def test_a_submit_description_is_called_so(classad: Run) -> None:
    for last in ("queue", "Queue 5"):
        text = f"executable = x\nrequest_cpus = 1\n{last}\n"
        assert "this is a submit description" in classad("convert", "-", stdin=text).err
    assert "this is" not in classad("convert", "-", stdin="a = 1\nqueues\n").err


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["nodes", "--lrms", "sge", "--saved"], "<qhost>"),
        (["nodes", "--lrms", "torque", "--saved"], "<Data><Node>"),
    ],
)
def test_broken_xml_is_called_so(classad: Run, tmp_path: Path, argv: list[str], text: str) -> None:
    """The error of Python's XML is a SyntaxError, as those of modules without memory are."""
    path = tmp_path / "saved"
    path.write_text(text)
    done = classad(*argv, path)
    assert done.status == 2
    assert "memory" not in done.err
    assert "no element found" in done.err

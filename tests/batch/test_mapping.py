from __future__ import annotations

from pathlib import Path

import pytest

from matchmaker.batch import Mapping, MappingError, known_lrms, load_mapping
from matchmaker.batch.templates import safe


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return tmp_path / "site.toml"


def test_every_known_batch_system_loads() -> None:
    assert "slurm" in known_lrms()
    for name in known_lrms():
        mapping = load_mapping(name)
        assert isinstance(mapping, Mapping)
        assert mapping.lrms == name
        assert mapping.rules or mapping.style == "blah"


def test_slurms_own_table() -> None:
    mapping = load_mapping("slurm")
    assert mapping.rules["gluehostmainmemoryramsize"].flag == "--mem={value}M"
    assert mapping.rules["gluehostarchitecturesmpsize"].flag == "--mincpus={value}"
    assert mapping.directive == "#SBATCH {flag}"


@pytest.mark.parametrize("name", ["nonesuch", "", "SLURM ", "../slurm", "slurm.toml"])
def test_an_unknown_batch_system_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(ValueError, match=r"unknown batch system .*; known: .*slurm"):
        load_mapping(name)


def test_a_sites_file_is_laid_over(site: Path) -> None:
    site.write_text(
        """
        [attributes.GlueHostBenchmarkSI00]
        kind = "min"
        flag = "--licenses={value}"

        [attributes.gluehostmainmemoryramsize]
        kind = "min"
        flag = "--mem-per-cpu={value}M"

        [attributes.Tags]
        kind = "member"
        features = { "GLITE_1_2" = "glite12", "has space" = "spaced" }
        """
    )
    mapping = load_mapping("slurm", site)
    assert mapping.rules["gluehostbenchmarksi00"].flag == "--licenses={value}"
    assert mapping.rules["gluehostmainmemoryramsize"].flag == "--mem-per-cpu={value}M"
    assert mapping.rules["gluehostarchitecturesmpsize"].flag == "--mincpus={value}"
    assert mapping.rules["tags"].features == {"GLITE_1_2": "glite12", "has space": "spaced"}
    assert (mapping.exclude, mapping.features) == (
        load_mapping("slurm").exclude,
        load_mapping("slurm").features,
    )


def test_an_empty_file_changes_nothing(site: Path) -> None:
    site.write_text("")
    assert load_mapping("slurm", site) == load_mapping("slurm")


def test_a_file_for_the_named_batch_system_is_taken(site: Path) -> None:
    site.write_text('lrms = "slurm"\n')
    assert load_mapping("slurm", site) == load_mapping("slurm")


def test_the_path_may_be_text(site: Path) -> None:
    site.write_text('directive = "#MSUB {flag}"\n')
    assert load_mapping("slurm", str(site)).directive == "#MSUB {flag}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = [", "not TOML"),
        ("\xff\xfe", "not TOML"),
        ('lrms = "pbs"', "not for 'slurm'"),
        ("lrms = 5", "mapping for 5"),
        ("other = 1", "unknown entry other"),
        ("attributes = 1", "unknown entry attributes"),
        ("[attributes]\nX = 1", r"\[attributes.X\]: kind must be one of"),
        ("[attributes.X]\nflag = '--mem={value}'", "kind must be one of"),
        ("[attributes.X]\nkind = 'maximum'\nflag = '--mem={value}'", "kind must be one of"),
        ("[attributes.X]\nkind = ['min']", "kind must be one of"),
        ("[attributes.X]\nkind = 'min'", "expected flag, an option"),
        ("[attributes.X]\nkind = 'min'\nflag = '--mem'", "expected flag, an option"),
        ("[attributes.X]\nkind = 'min'\nflag = 5", "expected flag, an option"),
        ("[attributes.X]\nkind = 'min'\nflag = 'mem={value}'", "expected flag, an option"),
        ("[attributes.X]\nkind = 'min'\nflag = '--mem={value};id'", "expected flag, an option"),
        ("[attributes.X]\nkind = 'min'\nflag = '--mem={value}\\n'", "expected flag, an option"),
        ("[attributes.X]\nkind = 'min'\nflag = '--m={value}'\nunits = 1", "unknown entry units"),
        ("[attributes.X]\nkind = 'min'\nfeatures = {}\nflag = '--m={value}'", "unknown entry"),
        ("[attributes.X]\nkind = 'eq'", "features must be a table"),
        ("[attributes.X]\nkind = 'eq'\nfeatures = ['a']", "features must be a table"),
        ("[attributes.X]\nkind = 'eq'\nfeatures = { a = 1 }", "1 is no plain name of a feature"),
        ("[attributes.X]\nkind = 'eq'\nfeatures = { a = 'b|c' }", "is no plain name of a feature"),
        ("[attributes.X]\nkind = 'eq'\nfeatures = { a = '' }", "is no plain name of a feature"),
        ("[attributes.X]\nkind = 'eq'\nfeatures = { a = '-b' }", "is no plain name of a feature"),
        (
            "[attributes.X]\nkind = 'eq'\nfeatures = { a = '''b\n''' }",
            "is no plain name of a feature",
        ),
        # What a flag or a list would lose without a word.
        ("directive = 5", "directive"),
        ("directive = '#SBATCH'", "directive"),
        ("exclude = true", "exclude"),
        ("exclude = '--exclude'", "exclude"),
        ("features = ''", "features"),
        ("features = '--constraint'", "features"),
        # Words that the shell or the batch system would take for several.
        ("exclude = '-x {hosts} --wrap=id'", "exclude"),
        ('directive = "#SBATCH {flag}\\n#SBATCH -A other"', "directive"),
        ("[attributes.X]\nkind = 'min'\nflag = '--mem {value}M'", "expected flag, an option"),
        ("[attributes.X]\nkind = 'min'\nflag = '--m={value}'\nmost = 0", "most must be a positive"),
        ("[attributes.X]\nkind = 'min'\nflag = '--m={value}'\nmost = true", "most must be"),
        ("[attributes.X]\nkind = 'min'\nflag = '--m={value}'\nrounding = 'near'", "must be one of"),
        (
            "[attributes.X]\nkind = 'eq'\nfeatures = { a = 'b' }\nterm = '-m={value}'",
            "term must be",
        ),
        ("[attributes.X]\nkind = 'eq'\nfeatures = { a = 'b' }\nterm = 'arch'", "term must be like"),
        ("[attributes.X]\nkind = 'bool'\nfeatures = { yes = 'gpu' }", "features must name true"),
        ("[attributes.X]\nkind = 'bool'\nfeatures = { true = 'a', false = 'a' }", "both true and"),
        ("[attributes.X]\nkind = 'bucket'", "buckets must be a table"),
        ("[attributes.X]\nkind = 'bucket'\nbuckets = { a = [5, 1] }", "buckets must be a table"),
        ("[attributes.X]\nkind = 'bucket'\nbuckets = { 'a b' = 1 }", "buckets must be a table"),
        ("[attributes.X]\nkind = 'name'\nname = 'a b'", "must be the name of an attribute"),
        ("[attributes.X]\nkind = 'python'\ncall = 'os.system'", "must be like module:function"),
        ("[terms]\nor = '|or|'", "or must be one of"),
        ("[terms]\nxor = '^'", r"\[terms\] has and, or, not and nested"),
        ("terms = '&'", r"\[terms\] has and, or, not and nested"),
        ("[requests]\nnodes = 1", r"\[requests\] has memory"),
        ("[requests]\nmemory = '--mem'", "expected flag or term"),
        ("[requests]\nmemory = { flag = '--m={value}', per_cpu = 1.5 }", "per_cpu must be one of"),
        ("submit = 'sbatch --wrap=id'", "submit must be the name of a command"),
        ("shell = 'bin/sh'", "shell must be the full path"),
        ("shell = 5", "shell must be the full path"),
        ("style = 'words'", "style must be one of"),
        ("quotes = 5", "quotes must be a text"),
        ("quotes = '\xe9'", "not TOML"),
        ("no_names = 'and'", "no_names must be a list of words"),
        ("no_hosts = [1]", "no_hosts must be a list of words"),
    ],
)
def test_a_bad_file_is_an_error_that_names_file_and_entry(
    site: Path, text: str, words: str
) -> None:
    site.write_bytes(text.encode("latin-1"))
    with pytest.raises(MappingError, match=words) as caught:
        load_mapping("slurm", site)
    assert str(caught.value).startswith(f"{site}: ")


@pytest.mark.parametrize(("lrms", "words"), [("htcondor", "kind must be name"), ("blah", "BLAH")])
def test_a_rule_that_would_not_be_used_is_an_error(site: Path, lrms: str, words: str) -> None:
    site.write_text('[attributes.X]\nkind = "eq"\nfeatures = { "8.10" = "el8" }')
    with pytest.raises(MappingError, match=rf"\[attributes.X\]: .*{words}"):
        load_mapping(lrms, site)


@pytest.mark.parametrize("name", ["missing.toml", "."])
def test_a_file_that_cannot_be_read_is_an_os_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(OSError):  # noqa: PT011 - its class and file name are the system's
        load_mapping("slurm", tmp_path / name)


@pytest.mark.parametrize("word", ["wn001", "wn001.cnaf.grid", "a-b_c", "si600", "7"])
def test_plain_words_are_safe(word: str) -> None:
    assert safe(word)


@pytest.mark.parametrize(
    "word",
    ["", " ", "a b", "a,b", "-a", "--wrap=id", "a;b", "a|b", "a&b", "a$b", "a`b", "a'b", 'a"b',
     "a\nb", "a\n", "\na", "a[1-2]", "a*", "a(b", "a=b", "a\0b", "a\\b", "(a)", "!a", "~a", "#a",
     "é", "a\u2028b"],
)  # fmt: skip
def test_other_words_are_not(word: str) -> None:
    assert not safe(word)


def test_a_path_is_not_a_plain_word() -> None:
    # sbatch takes a --exclude with a slash in it for the name of a file to be read.
    assert not safe("wn001/../../etc/passwd")

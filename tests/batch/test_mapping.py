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
        assert mapping.rules or mapping.requests or mapping.style == "blah"


def test_slurms_own_table() -> None:
    mapping = load_mapping("slurm")
    assert mapping.rules["gluehostmainmemoryramsize"].flag == "--mem={value}M"
    assert mapping.rules["gluehostarchitecturesmpsize"].flag == "--mincpus={value}"
    assert mapping.directive == "#SBATCH {flag}"


@pytest.mark.parametrize("name", ["nonesuch", "", "SLURM ", "../slurm", "slurm.toml"])
def test_an_unknown_batch_system_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(ValueError, match=r"unknown batch system .* known: .*slurm"):
        load_mapping(name)


def test_a_sites_file_is_laid_over(site: Path) -> None:
    site.write_text(
        """
        [attributes.GlueHostBenchmarkSI00]
        kind = "min"
        flag = "--licenses={value}"

        [attributes.gluehostmainmemoryramsize]
        kind = "min"
        flag = "--mem={value}K"

        [attributes.Tags]
        kind = "member"
        features = { "GLITE_1_2" = "glite12", "has space" = "spaced" }
        """
    )
    mapping = load_mapping("slurm", site)
    assert mapping.rules["gluehostbenchmarksi00"].flag == "--licenses={value}"
    assert mapping.rules["gluehostmainmemoryramsize"].flag == "--mem={value}K"
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
        ("ÿþ", "not TOML"),
        ('lrms = "pbs"', "lrms: expected 'slurm'"),
        ("lrms = 5", "lrms: expected 'slurm'"),
        ("other = 1", "other: expected lrms, features, submit, directive, exclude,"),
        ("attributes = 1", r"\[attributes]: expected a table"),
        ("[attributes]\nX = 1", r"\[attributes.X]: expected a table"),
        (
            "[attributes.X]\nflag = '--mem={value}'",
            r"\[attributes.X] kind: expected 'min', 'max', 'range', 'eq', 'member', 'bool",
        ),
        (
            "[attributes.X]\nkind = 'maximum'\nflag = '--mem={value}'",
            r"\[attributes.X] kind: expected 'min', 'max', 'range', 'eq', 'member', 'bool",
        ),
        (
            "[attributes.X]\nkind = ['min']",
            r"\[attributes.X] kind: expected 'min', 'max', 'range', 'eq', 'member', 'bool",
        ),
        (
            "[attributes.X]\nkind = 'min'",
            r"\[attributes.X] flag: expected flag, term, or a form in \[flags] with \{X}",
        ),
        ("[attributes.X]\nkind = 'min'\nflag = '--mem'", "expected flag, an option"),
        ("[attributes.X]\nkind = 'min'\nflag = 5", "expected flag, an option"),
        ("[attributes.X]\nkind = 'min'\nflag = 'mem={value}'", "expected flag, an option"),
        ("[attributes.X]\nkind = 'min'\nflag = '--mem={value};id'", "expected flag, an option"),
        ("[attributes.X]\nkind = 'min'\nflag = '--mem={value}\\n'", "expected flag, an option"),
        (
            "[attributes.X]\nkind = 'min'\nflag = '--m={value}'\nunits = 1",
            r"\[attributes.X] units: expected kind, flag, term, most, unit or rounding; di",
        ),
        (
            "[attributes.X]\nkind = 'min'\nfeatures = {}\nflag = '--m={value}'",
            r"\[attributes.X] features: expected kind, flag, term, most, unit or rounding",
        ),
        (
            "[attributes.X]\nkind = 'eq'",
            r'\[attributes.X] features: expected a table like \{ "SL" = "sl" }',
        ),
        (
            "[attributes.X]\nkind = 'eq'\nfeatures = ['a']",
            r'\[attributes.X] features: expected a table like \{ "SL" = "sl" }',
        ),
        (
            "[attributes.X]\nkind = 'eq'\nfeatures = { a = 1 }",
            r"\[attributes.X] features: expected plain names of features: letters, digits and",
        ),
        (
            "[attributes.X]\nkind = 'eq'\nfeatures = { a = 'b|c' }",
            r"\[attributes.X] features: expected plain names of features: letters, digits and",
        ),
        (
            "[attributes.X]\nkind = 'eq'\nfeatures = { a = '' }",
            r"\[attributes.X] features: expected plain names of features: letters, digits and",
        ),
        (
            "[attributes.X]\nkind = 'eq'\nfeatures = { a = '-b' }",
            r"\[attributes.X] features: expected plain names of features: letters, digits and",
        ),
        (
            "[attributes.X]\nkind = 'eq'\nfeatures = { a = '''b\n''' }",
            r"\[attributes.X] features: expected plain names of features: letters, digits and",
        ),
        ("directive = 5", "directive"),
        ("directive = '#SBATCH'", "directive"),
        ("exclude = true", "exclude"),
        ("exclude = '--exclude'", "exclude"),
        ("features = ''", "features"),
        ("features = '--constraint'", "features"),
        ("exclude = '-x {hosts} --wrap=id'", "exclude"),
        ('directive = "#SBATCH {flag}\\n#SBATCH -A other"', "directive"),
        ("[attributes.X]\nkind = 'min'\nflag = '--mem {value}M'", "expected flag, an option"),
        (
            "[attributes.X]\nkind = 'min'\nflag = '--m={value}'\nmost = 0",
            r"\[attributes.X] most: expected a positive integer",
        ),
        (
            "[attributes.X]\nkind = 'min'\nflag = '--m={value}'\nmost = true",
            r"\[attributes.X] most: expected a positive integer",
        ),
        (
            "[attributes.X]\nkind = 'min'\nflag = '--m={value}'\nrounding = 'near'",
            r"\[attributes.X] rounding: expected 'safe', 'up' or 'down'",
        ),
        (
            "[attributes.X]\nkind = 'eq'\nfeatures = { a = 'b' }\nterm = '-m={value}'",
            r"\[attributes.X] term: expected a word like arch=\{value}, or a slot of \[flag",
        ),
        (
            "[attributes.X]\nkind = 'eq'\nfeatures = { a = 'b' }\nterm = 'arch'",
            r"\[attributes.X] term: expected a word like arch=\{value}, or a slot of \[flag",
        ),
        (
            "[attributes.X]\nkind = 'bool'\nfeatures = { yes = 'gpu' }",
            r"\[attributes.X] features: expected a name for true, and for false if there is o",
        ),
        (
            "[attributes.X]\nkind = 'bool'\nfeatures = { true = 'a', false = 'a' }",
            r"\[attributes.X] features: expected different names for true and false",
        ),
        (
            "[attributes.X]\nkind = 'bucket'",
            r"\[attributes.X] buckets: expected a table of plain names of features to number",
        ),
        (
            "[attributes.X]\nkind = 'bucket'\nbuckets = { a = [5, 1] }",
            r"\[attributes.X] buckets: expected a table of plain names of features to number",
        ),
        (
            "[attributes.X]\nkind = 'bucket'\nbuckets = { 'a b' = 1 }",
            r"\[attributes.X] buckets: expected a table of plain names of features to number",
        ),
        (
            "[attributes.X]\nkind = 'name'\nname = 'a b'",
            r"\[attributes.X] name: expected the name of an attribute",
        ),
        (
            "[attributes.X]\nkind = 'python'\ncall = 'os.system'",
            r"\[attributes.X] call: expected a function like module:function",
        ),
        (
            "[terms]\nor = '|or|'",
            r"\[terms] or: expected '&', '&&', '\|', '\|\|', '!', '-', ':', ',' or",
        ),
        (
            "[terms]\nxor = '^'",
            r"\[terms] xor: expected and, or, not, nested, group or flat; did you",
        ),
        ("terms = '&'", r"\[terms]: expected a table"),
        ("[requests]\nnodes = 1", r"\[requests.nodes]: expected a table"),
        ("[requests]\nmemory = '--mem'", r"\[requests.memory]: expected a table"),
        (
            "[requests]\nmemory = { flag = '--m={value}', per_cpu = 1.5 }",
            r"\[requests.memory] per_cpu: expected True or False",
        ),
        (
            "submit = 'sbatch --wrap=id'",
            "submit: expected the name of a command, or a list of it and i",
        ),
        ("shell = 'bin/sh'", "shell: expected the full path of a program"),
        ("shell = 5", "shell: expected a text of ASCII characters"),
        ("style = 'words'", "style: expected 'flags', 'classad' or 'blah'"),
        ("quotes = 5", "quotes: expected a text of ASCII characters"),
        ("quotes = 'é'", "not TOML"),
        ("no_names = 'and'", "no_names: expected a list of words"),
        ("no_hosts = [1]", "no_hosts: expected a list of words"),
    ],
)
def test_a_bad_file_is_an_error_that_names_file_and_entry(
    site: Path, text: str, words: str
) -> None:
    site.write_bytes(text.encode("latin-1"))
    with pytest.raises(MappingError, match=words) as caught:
        load_mapping("slurm", site)
    assert str(caught.value).startswith(f"{site}: ")


@pytest.mark.parametrize(
    ("lrms", "words"), [("htcondor", "kind: expected kind name"), ("blah", "BLAH")]
)
def test_a_rule_that_would_not_be_used_is_an_error(site: Path, lrms: str, words: str) -> None:
    site.write_text('[attributes.X]\nkind = "eq"\nfeatures = { "8.10" = "el8" }')
    with pytest.raises(MappingError, match=rf"\[attributes.X\] .*{words}"):
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

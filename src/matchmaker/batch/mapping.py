"""Mappings: for each batch system a table of its flags, and for each host attribute a rule.

``load_mapping`` reads the package's table in ``systems`` and lays a site's own file over it. A flag
may have several forms: the first form whose slots are all filled is written. A form without slots
is a constant, or a default at the end of a list; ``with`` names slots that must be filled, too.
docs/mappings.md explains the entries.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Sequence
from collections.abc import Mapping as MappingType
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs

from matchmaker._limits import BATCH_LIMITS as LIMITS
from matchmaker.batch.errors import MappingError
from matchmaker.batch.rules import (
    RESOURCES,
    Request,
    Rule,
    TomlTable,
    alike,
    check_names,
    negate_of,
    read_requests,
    read_rule,
    term_of,
)
from matchmaker.batch.templates import (
    NAME_SIGNS,
    NUMBER_FORMATS,
    REPEATED,
    SHARED,
    assigned,
    formatted,
    safe,
    slot_of,
    slots,
    template,
)
from matchmaker.classad.errors import closest
from matchmaker.classad.operators import ascii_fold

# Printable ASCII alone: a line break would begin another line of the script.
_LINE: Final = re.compile(r"[\x20-\x7e]+")
# `+Project = x` of HTCondor's submit file, or `queue x`.
_ASSIGNMENT: Final = re.compile(r"\+?[A-Za-z_]\w*( =)? .+", re.ASCII)


@attrs.frozen(slots=True)
class Form:
    """One way to write a flag or a line.

    Attributes:
        text: the template.
        needs: the slots that must be filled for it: those in the text, and those of ``with``.
    """

    text: str
    needs: frozenset[str]

    @property
    def carries(self) -> frozenset[str]:
        """The slots in the text."""
        return frozenset(slots(self.text))


def form(text: str, beside: Iterable[str] = ()) -> Form:
    """Make a form of a template that also needs the slots ``beside``.

    >>> sorted(form("--gres=gpu:{type}:{gpus}").needs)
    ['gpus', 'type']
    """
    return Form(text, frozenset(slots(text)) | frozenset(beside))


def chosen(several: MappingType[str, tuple[Form, ...]], filled: Collection[str]) -> list[Form]:
    """Return, for each name, the first form whose slots are all filled, if there is one.

    >>> gpu = (form("--gres=gpu:{type}:{gpus}"), form("--gres=gpu:{gpus}"))
    >>> [each.text for each in chosen({"gpu": gpu}, {"gpus"})]
    ['--gres=gpu:{gpus}']
    """
    have = set(filled)
    firsts = (next((each for each in forms if each.needs <= have), None)
              for forms in several.values())  # fmt: skip
    return [first for first in firsts if first is not None]


def flag_forms(section: TomlTable, style: str) -> dict[str, tuple[Form, ...]]:
    """Read the forms in ``[flags]``: options, or for HTCondor lines of its submit file."""
    kind = "an option" if style == "flags" else "a line such as ['+Project', '=', 'x']"
    expected = f"{kind}, a list of such forms, or {{ with = SLOT, flag = FORM }}"

    def read(key: str, found: Any) -> str:
        text = template(found)
        option = text is not None and text.startswith("-")
        right = option if style == "flags" else text is not None and _ASSIGNMENT.fullmatch(text)
        if text is None or not right:
            words = "; the words of one form stand in a list of their own: [['-l', 'x={y}']]"
            section.fail(key, expected + (words if isinstance(found, str) else ""), found)
        return text

    return {key: _several(section, key, "flag", read, expected) for key in section.facts}


def line_forms(section: TomlTable) -> dict[str, tuple[Form, ...]]:
    """Read the forms in ``[lines]``: whole lines of a job script."""
    expected = "a line of ASCII characters, a list of such, or { with = SLOT, line = LINE }"

    def read(key: str, found: Any) -> str:
        if not isinstance(found, str) or not _LINE.fullmatch(found):
            section.fail(key, expected, found)
        unknown = [each for each in formatted(found).values() if each not in NUMBER_FORMATS]
        if unknown:
            section.fail(key, f"a format of {', '.join(NUMBER_FORMATS)}", unknown[0])
        return found

    return {key: _several(section, key, "line", read, expected) for key in section.facts}


def _several(section: TomlTable, key: str, word: str, read: Any, expected: str) -> tuple[Form, ...]:
    given = section.facts[key]
    found: list[Form] = []
    for each in given if isinstance(given, list) else [given]:
        if not isinstance(each, dict):
            found.append(form(read(key, each)))
            continue
        beside = each.get("with")
        names = [beside] if isinstance(beside, str) else beside
        if set(each) != {"with", word} or not isinstance(names, list):
            section.fail(key, expected, each)
        found.append(form(read(key, each[word]), map(str, names)))
    return tuple(found)


def check_slots(
    section: TomlTable,
    forms: MappingType[str, tuple[Form, ...]],
    known: Collection[str],
    numbers: Collection[str],
    flags: MappingType[str, str],
) -> None:
    """Raise MappingError for a slot that nothing fills, or a numeric format of a text.

    ``flags`` are those of requests, by name, which fill a slot of their name without them.
    """
    for key, several in forms.items():
        for each in several:
            for slot, name in formatted(each.text).items():
                if slot in known and slot not in numbers:
                    section.fail(key, f"{{{slot}}}, which is no number", f"{{{slot}:{name}}}")
            for slot in sorted(each.needs - set(known)):
                own = flags.get(slot, "")
                how = f"; requests.{slot} = {{}} fills it in place of {own!r}"
                how = how if own else alike(slot, known)
                names = ", ".join(sorted(known)) or "none"
                section.fail(key, f"slots that are filled ({names}){how}", f"{{{slot}}}")


FEATURES: Final = "features"
"""The slot for all terms together, and the name of its forms."""


@attrs.frozen(slots=True)
class TermSyntax:
    """How terms are joined: the signs for and, or, not, and whether parentheses nest.

    A batch system without a connective has no sign for it. ``group`` encloses a conjunction within
    alternatives. If ``flat``, the whole is always one disjunction of such groups.
    """

    and_: str = "&"
    or_: str = ""
    not_: str = ""
    nested: bool = False
    group: str = "({terms})"
    flat: bool = False


@attrs.frozen(slots=True)
class Mapping:
    """The table of one batch system. docs/batch.md explains the entries of the TOML file.

    Attributes:
        submit: the command for submitting, with the words that come first; empty without one.
        directive: the template of a line of a job script.
        exclude, include: templates of the flags that exclude nodes, or name those to use. One that
            is not an option is a term.
        rules: the rules by folded name of the attribute.
        flags: the flags with several slots or none, each with its forms.
        lines: other lines of a job script, each with its forms.
        ignore: the folded names of attributes in conditions that mean nothing here.
        letters: the long options that one letter stands for, by the letter with its dash.
        host_join: the sign between names of nodes.
        requests: how resources are requested, by name of the resource.
        style: ``flags``, ``classad`` (an expression in ``requirements``), or ``blah``.
        quotes: characters that make a word of a directive be quoted; empty without quotes.
        others: ``same`` if a pool has attributes without a rule under the same names.
        shell: the path of the site's own program.
        metadata, room: the place of a policy in the job, and how many characters it may have.
        signs: the signs that names of features may hold beside letters and digits.
        term, negate: how a feature is asked for, or its absence, if its rule says nothing else.
        no_names, no_hosts: words that mean something else than a feature, or a host, of that name.
        domains: name hosts with and without their domains.
        published: other names under which information systems publish the batch system.
        query, job_name: the command that shows a queued job, and a pattern of the names of jobs.
    """

    lrms: str
    submit: tuple[str, ...]
    directive: str
    exclude: str
    rules: MappingType[str, Rule]
    flags: MappingType[str, tuple[Form, ...]] = attrs.Factory(dict)
    lines: MappingType[str, tuple[Form, ...]] = attrs.Factory(dict)
    ignore: frozenset[str] = frozenset({"condorce"})
    letters: MappingType[str, str] = attrs.Factory(dict)
    include: str = ""
    host_join: str = ","
    terms: TermSyntax = attrs.field(factory=TermSyntax)
    requests: MappingType[str, Request] = attrs.Factory(dict)
    style: str = "flags"
    requirements: str = ""
    quotes: str = ""
    others: str = ""
    shell: str = ""
    metadata: str = ""
    room: int = LIMITS.policy
    signs: str = NAME_SIGNS
    term: str = "{value}"
    negate: str = ""
    no_names: tuple[str, ...] = ()
    no_hosts: tuple[str, ...] = ()
    domains: bool = False
    published: tuple[str, ...] = ()
    query: tuple[str, ...] = ()
    job_name: str = r"[0-9][A-Za-z0-9_.\[\]@-]*"

    @property
    def features(self) -> str:
        """The template of the flag for all terms together, in its last form."""
        forms = self.flags.get(FEATURES, ())
        return forms[-1].text if forms else ""

    @property
    def used(self) -> frozenset[str]:
        """The slots that a form of a flag or a line needs."""
        several = (*self.flags.values(), *self.lines.values())
        return frozenset(slot for forms in several for each in forms for slot in each.needs)

    @property
    def attributes(self) -> frozenset[str]:
        """The folded names of the host attributes that the mapping knows."""
        return frozenset(self.rules)


STYLES: Final = ("flags", "classad", "blah")

# HTCondor carries a policy as a text attribute, with the quotes of its submit file.
_ATTRIBUTE: Final = re.compile(r'\+[A-Za-z]+ = "\{policy\}"')


def known_lrms() -> tuple[str, ...]:
    """Return the batch systems that have a table: one for each file in ``systems``.

    >>> known_lrms()[:3]
    ('blah', 'flux', 'htcondor')
    """
    folder = files("matchmaker.batch").joinpath("systems")
    return tuple(
        sorted(f.name[: -len(".toml")] for f in folder.iterdir() if f.name.endswith(".toml"))
    )


def load_mapping(lrms: str, site: str | os.PathLike[str] | None = None) -> Mapping:
    """Load the mapping for a batch system, with the TOML file of a site laid over it.

    Raises:
        ValueError: the batch system is unknown.
        OSError: the site's file cannot be read.
        MappingError: the site's file is invalid.

    >>> load_mapping("slurm").rules["gluehostmainmemoryramsize"].flag
    '--mem={value}M'
    """
    mapping = _packaged(lrms)
    if site is None:
        return mapping
    name = os.fspath(site)
    data = Path(site).read_bytes()
    try:
        table = tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise MappingError(
            f"{name}: not TOML: byte {data[error.start]:#04x} in line {line} is not UTF-8 text"
        ) from None
    except (ValueError, RecursionError) as error:
        raise MappingError(f"{name}: not TOML: {error}") from None
    return _merged(mapping, table, name)


@cache
def _packaged(lrms: str) -> Mapping:
    if lrms not in known_lrms():
        raise unknown(lrms, known_lrms())
    text = files("matchmaker.batch").joinpath("systems", f"{lrms}.toml").read_text("utf-8")
    return _merged(None, tomllib.loads(text), f"{lrms}.toml")


def unknown(lrms: str, known: Sequence[str]) -> ValueError:
    """Make the error for an unknown batch system, with the ones probably meant.

    >>> print(unknown("pbs", ("lsf", "pbspro", "torque")))
    unknown batch system 'pbs': is it pbspro or torque? known: lsf, pbspro, torque
    """
    name = lrms.lower()
    meant = [one for one in known if same_system(name, one)]
    if not meant and (one := closest(name, {one: one for one in known}, 0.6)):
        meant = [one]
    hint = f": is it {' or '.join(meant)}?" if meant else ";"
    return ValueError(f"unknown batch system {lrms!r}{hint} known: {', '.join(known)}")


def same_system(published: str, lrms: str) -> bool:
    """Tell whether a queue that is published with a type may run on a batch system.

    >>> same_system("PBS", "torque"), same_system("slurm", "slurm"), same_system("lsf", "slurm")
    (True, True, False)
    """
    name, ours = published.lower(), lrms.lower()
    return name == ours or (ours in known_lrms() and name in _packaged(ours).published)


# --- reading --------------------------------------------------------------------------------------

_NO_RULE: Final = {
    "classad": "kind name, with the pool's name of the attribute: HTCondor takes expressions",
    "blah": "no rule: BLAH takes attributes under their own names; a mapping is for the system "
    "behind it",
}

_Read: TypeAlias = Callable[[TomlTable, str, Any], Any]
"""Reads an entry of a file by its name; a third argument is what it is without the entry."""

_EMPTY: Final = Mapping("", (), "", "", {})

_OWN_ENTRIES: Final = ("published", "query", "job_name", "letters")
"""Entries of the package's tables alone."""


def _merged(base: Mapping | None, table: MappingType[str, Any], where: str) -> Mapping:
    """Lay a table over a mapping, or read the package's table of a batch system itself."""
    before = base or _EMPTY
    file = TomlTable(where, "", table)
    lrms = table.get("lrms", before.lrms)
    if base is not None and lrms != base.lrms:
        raise MappingError(f"{where}: lrms: expected {base.lrms!r}, found {lrms!r}")
    known = [name for name in _READERS if base is None or name not in _OWN_ENTRIES]
    tables = ("attributes", "requests", "flags", "lines")
    file.only(("lrms", FEATURES, *known, *tables))
    style = file.choice("style", STYLES, before.style)
    entries = {name: read(file, name, getattr(before, name)) for name, read in _READERS.items()}
    made = Mapping(
        lrms=lrms,
        rules=_rules(file.section("attributes"), before, style, entries),
        requests=read_requests(file.section("requests"), before.requests),
        flags=_flags(file, before, style),
        lines={**before.lines, **line_forms(file.section("lines"))},
        **entries,
    )
    _check(made, file)
    return made


def _rules(
    section: TomlTable, before: Mapping, style: str, entries: MappingType[str, Any]
) -> dict[str, Rule]:
    found = dict(before.rules)
    spelled: dict[str, str] = {}
    for name in section.facts:
        folded = ascii_fold(name)
        if spelled.setdefault(folded, name) != name:
            section.fail(name, f"each attribute once: {spelled[folded]} is the same", name)
        own = section.section(name)
        found[folded] = rule = read_rule(name, own, entries["term"], entries["negate"])
        if style == "blah" or (style == "classad" and rule.kind != "name"):
            own.fail("kind", _NO_RULE[style])
    return found


def _flags(file: TomlTable, before: Mapping, style: str) -> dict[str, tuple[Form, ...]]:
    found = dict(before.flags)
    if FEATURES in file.facts:
        found[FEATURES] = (form(_flag(file, FEATURES, "{features}", "")),)
    return {**found, **flag_forms(file.section("flags"), style)}


def _check(table: Mapping, file: TomlTable) -> None:
    """Raise MappingError if parts of a mapping do not fit together."""
    check_names(table.rules.values(), file.where, table.lrms, table.signs, table.no_names)
    if table.style == "flags" and not (table.features and table.directive):
        file.fail("" if table.features else FEATURES, "features and directive")
    if table.style == "classad" and not table.submit:
        file.fail("submit", "the name of a command")
    own = {
        **{f"attributes.{r.attribute}": r.templates for r in table.rules.values()},
        **{f"requests.{r.name}": (r.flag,) for r in table.requests.values()},
    }
    filled = {slot_of(text): name for name, texts in own.items() for text in texts}
    filled.pop("", None)
    known = {*filled, FEATURES}
    numbers = {
        slot_of(text)
        for kind, text in (
            *((r.kind, r.flag) for r in table.requests.values()),
            *(("number", text) for r in table.rules.values() for text in (r.flag, r.greatest)),
        )
        if kind in ("number", "time")
    }
    by_request = {r.name: r.flag for r in table.requests.values()}
    check_slots(file.section("flags"), table.flags, known, numbers, by_request)
    # What joins or negates names means something to a shell.
    signs = {slot_of(r.term) for r in table.rules.values() if r.join or r.negate} | {FEATURES}
    check_slots(file.section("lines"), table.lines, known - signs, numbers, {})
    for slot, name in filled.items():
        kind, _, entry = name.partition(".")
        if slot not in table.used and entry in file.section(kind).facts:
            TomlTable(file.where, name, {}).fail(
                "flag", f"flag, term, or a form in [flags] with {{{slot}}}"
            )
    _check_options(table, own, file)
    if table.directive != "{flag}":
        quoted = [text for text in _every(table, own) if '"' in text]
        if quoted:
            file.fail("directive", "'{flag}', as a template has quotes", quoted[0])


def _every(table: Mapping, own: MappingType[str, tuple[str, ...]]) -> list[str]:
    forms = [each.text for several in table.flags.values() for each in several]
    return [*forms, *(text for texts in own.values() for text in texts)]


def _check_options(table: Mapping, own: MappingType[str, tuple[str, ...]], file: TomlTable) -> None:
    """Raise MappingError if an option is set in different ways: one would undo the other.

    A request and a condition may do so: the request is kept then, and the condition dropped.
    """
    where = file.where
    forms = {f"flags.{n}": tuple(form.text for form in table.flags[n]) for n in table.flags}
    # What names nodes is written beside all others. A site that sets it shares what it likes.
    named = {
        name: (text,)
        for name, text in (("exclude", table.exclude), ("include", table.include))
        if name not in file.facts
    }
    known: dict[str, list[tuple[str, str]]] = {}
    for name, texts in (*own.items(), *named.items(), *forms.items()):
        for text in texts:
            option = assigned(text) or _first(text)
            if text[:2] in table.letters:
                # Under two names one option would be set twice, and the last counts.
                TomlTable(where, name, {}).fail(
                    "", f"the long option, {table.letters[text[:2]]}", text
                )
            if not text.startswith("-") or not option:
                continue
            _check_share(table, name, text, where)
            for before, said in known.setdefault(option, []):
                kinds = {before.partition(".")[0], name.partition(".")[0]}
                if said != text and before != name and kinds != {"attributes", "requests"}:
                    TomlTable(where, name, {}).fail(
                        "",
                        f"an option that [{before}] does not set in another way, {said!r}"
                        f"{_replacing((before, name), table)}",
                        text,
                    )
            known[option].append((name, text))


def _replacing(entries: tuple[str, str], table: Mapping) -> str:
    """Advise how a site's file replaces that of some entries that the package has; else empty."""
    packaged, merged = replaceable(load_mapping(table.lrms)), replaceable(table)
    name = next((e for e in entries if packaged.get(e, ()) == merged.get(e)), "")
    kind, _, entry = name.partition(".")
    if not name:
        return ""
    how = {
        "flags": f"{name} = [] in this file removes",
        **dict.fromkeys(("exclude", "include"), f'{name} = "" in this file removes'),
        "requests": f"{name} = {{}} with a form of {{{entry}}} in [flags] replaces",
    }.get(kind, f"another [{name}] in this file replaces")
    return f" ({how} that of the package; classad flags --show-mapping {table.lrms} shows it)"


def replaceable(table: Mapping) -> dict[str, tuple[str, ...]]:
    """Return the entries that a site's file may replace, by name, with their templates.

    >>> replaceable(load_mapping("slurm"))["requests.cpus"]
    ('--cpus-per-task={value}',)
    """
    named = {"exclude": table.exclude, "include": table.include}
    return {
        **{name: (text,) for name, text in named.items() if text},
        **{f"flags.{name}": tuple(form.text for form in table.flags[name]) for name in table.flags},
        **{f"requests.{r.name}": (r.flag,) for r in table.requests.values()},
        **{f"attributes.{r.attribute}": r.templates or (r.name,) for r in table.rules.values()},
    }


def packaged_text(lrms: str) -> str:
    """Return the text of the package's table of a batch system, or raise ValueError."""
    load_mapping(lrms)
    return files("matchmaker.batch").joinpath("systems", f"{lrms}.toml").read_text("utf-8")


def _check_share(table: Mapping, name: str, text: str, where: str) -> None:
    """Raise MappingError for an amount of the whole host in an option that counts by processor."""
    kind, _, entry = name.partition(".")
    shares = {r.flag: r.name for r in table.requests.values() if r.per_cpu}
    request = table.requests.get(entry) if kind == "requests" else None
    whole = kind == "attributes" or (request is not None and request.name in RESOURCES)
    if not whole or (request is not None and request.per_cpu):
        return
    if _first(text) in SHARED or text in shares:
        also = f", in which [requests.{shares[text]}] has a share" if text in shares else ""
        right = "; per_cpu = true makes it one" if request is not None else ""
        TomlTable(where, name, {}).fail(
            "", f"an option for the whole host, and not for each processor{also}{right}", text
        )


def _first(text: str) -> str:
    """Return the option of a template; empty if it may be repeated with another value."""
    if text.startswith("--"):
        return re.split(r"[={<> ]", text, maxsplit=1)[0]
    option, _, value = text.partition(" ")
    # `-W` of PBS has names of its own, that of LSF has a time.
    repeated = option in REPEATED or (option == "-W" and "=" in value)
    return option if value and not repeated else ""


def _submit(file: TomlTable, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
    found = file.facts.get(name)
    if found is None:
        return default
    words = [found] if isinstance(found, str) else found
    plain = isinstance(words, list) and all(isinstance(w, str) and safe(w) for w in words)
    if found != "" and not plain:
        file.fail(name, "the name of a command, or a list of it and its first words")
    return tuple(words) if found else ()


def _flag(file: TomlTable, name: str, slot: str, default: str) -> str:
    """Read a template with a slot."""
    if name not in file.facts:
        return default
    found = template(file.facts[name])
    if file.facts[name] == "" and name != FEATURES:
        return ""
    if found is None or slot[1:-1] not in slots(found):
        file.fail(name, f"a flag without spaces, or a list of words, with {slot}")
    return found


def _like(pattern: str, expected: str) -> _Read:
    """Make a reader of a text that matches a pattern."""

    def read(file: TomlTable, name: str, default: str) -> str:
        found = file.text(name, default)
        if name in file.facts and not re.fullmatch(pattern, found):
            file.fail(name, expected)
        return found

    return read


def _choice(*choices: object) -> _Read:
    return lambda file, name, default: file.choice(name, choices, default)


def _metadata(file: TomlTable, name: str, default: str) -> str:
    """Read the place of a policy: a flag, or a line of HTCondor's submit file."""
    found = file.facts.get(name, default)
    if isinstance(found, str) and _ATTRIBUTE.fullmatch(found):
        return found
    return _flag(file, name, "{policy}", default)


def _letters(file: TomlTable, name: str, default: MappingType[str, str]) -> MappingType[str, str]:
    found = file.section(name).facts
    return {**default, **{f"-{letter}": str(option) for letter, option in found.items()}}


def _terms(file: TomlTable, name: str, default: TermSyntax) -> TermSyntax:
    if name not in file.facts:
        return default
    section = file.section(name)
    section.only(("and", "or", "not", "nested", "group", "flat"))
    joins = ("&", "&&", "|", "||", "!", "-", ":", ",", "")
    group = template(section.facts.get("group", default.group))
    if group is None or list(slots(group)) != ["terms"]:
        section.fail("group", "a word with {terms}")
    return TermSyntax(
        section.choice("and", joins, default.and_),
        section.choice("or", joins, default.or_),
        section.choice("not", joins, default.not_),
        section.choice("nested", (True, False), default.nested),
        group,
        section.choice("flat", (True, False), default.flat),
    )


_READERS: Final[MappingType[str, _Read]] = {
    "submit": _submit,
    "directive": _like(
        r"#[A-Za-z$]+:? \{flag\}|\{flag\}", "a comment such as #SBATCH with {flag}, or '{flag}'"
    ),
    "exclude": lambda file, name, default: _flag(file, name, "{hosts}", default),
    "include": lambda file, name, default: _flag(file, name, "{hosts}", default),
    "metadata": _metadata,
    "room": TomlTable.most,
    "host_join": _choice(",", "|", " ", "+", '","'),
    "style": _choice(*STYLES),
    "requirements": _like(
        r"([A-Za-z]+ = \{expression\})?", "a line like 'requirements = {expression}'"
    ),
    "quotes": TomlTable.text,
    "others": _choice("", "same"),
    "shell": _like(r"(/[ -~]*)?", "the full path of a program"),
    "signs": TomlTable.text,
    "term": lambda file, name, default: term_of(file, name) if name in file.facts else default,
    "negate": lambda file, name, default: negate_of(file, default),
    "no_names": TomlTable.words,
    "no_hosts": TomlTable.words,
    "domains": _choice(True, False),
    "terms": _terms,
    "ignore": lambda file, name, default: default | set(map(ascii_fold, file.words(name))),
    "published": TomlTable.words,
    "query": TomlTable.words,
    "job_name": TomlTable.text,
    "letters": _letters,
}
"""The entries of a file beside ``lrms``, ``features`` and its tables, in the order of messages."""

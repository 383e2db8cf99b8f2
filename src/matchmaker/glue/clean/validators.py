"""The findings of EGI's glue-validator and gstat-validation, under their own codes.

Their tests are data, in ``schemas/glue/checks.toml``: most are expressions on the values of one
entry, as it was published. This module reads the table and holds a source against it; it changes no
value, as `rules` do.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import Final

import attrs

from matchmaker._data import data_text
from matchmaker._diagnostics import NOTE, WARNING, Diagnostic
from matchmaker._limits import GLUE_LIMITS as LIMITS
from matchmaker.classad import UNDEFINED, ClassAd, Expr, Value, parse_expr
from matchmaker.classad.errors import shorten
from matchmaker.glue.clean import typed
from matchmaker.glue.clean.rules import moment
from matchmaker.glue.entries import Entry, rdns
from matchmaker.glue.issues import LEVELS, Report
from matchmaker.glue.schema import attribute, classes

_TIMES: Final = re.compile(
    r"GLUE2(?:EntityCreationTime|Endpoint(?:StartTime|Downtime(?:Announce|Start|End))"
    r"|ApplicationEnvironmentRemovalDate)",
    re.IGNORECASE,
)
_SHARE: Final = re.compile(r"Share=([^:]*):\s*([0-9]{1,9})\s*\Z")
# The integers that the LDAP schemas of the two versions mean.
_LARGEST: Final = {"1.3": 2**31 - 1, "2.0": 2**64 - 1}
# Classes of the tree above the entries of GLUE.
_FOREIGN: Final = frozenset({"organization", "mds", "top"})
_MOST: Final = 1000
"""Values of one attribute that are tested."""

_OF_SERVICE: Final = "glue-validator.W037"
"""The finding on a value that is reported once for all the entries of a service."""
_OTHER_INFO: Final = "glue2entityotherinfo"
_GROUP: Final = "GLUE2GroupID"


@attrs.frozen(slots=True)
class _Rule:
    """A condition on an attribute; the fault if it is false, and whether it looks at each value."""

    code: str
    holds: Expr
    says: str
    each: bool


@attrs.frozen(slots=True)
class _Words:
    """The words that an attribute may have; ``open`` if the schema allows others."""

    code: str
    words: frozenset[str]
    open: bool

    def says(self) -> str:
        known = sorted(self.words, key=lambda word: (word.lower(), word))
        shown = ", ".join(known[:8]) + (", …" if len(known) > 8 else "")
        return f"expected is {'for instance ' if self.open else ''}one of {shown}"


@attrs.frozen(slots=True)
class _Table:
    """The tests: by class in lower case the required attributes, by attribute the conditions."""

    absent: Mapping[str, tuple[tuple[str, tuple[str, ...]], ...]]
    words: Mapping[str, tuple[_Words, ...]]
    rules: Mapping[str, tuple[_Rule, ...]]
    named: frozenset[str]
    once: tuple[tuple[str, str, tuple[str, ...]], ...]
    beside: tuple[tuple[str, str, str], ...]
    levels: Mapping[str, str]

    def level(self, code: str, *, lenient: bool = False) -> str:
        """Return the severity of a finding."""
        letter = code.removeprefix("glue-validator.")[:1] if code[:4] == "glue" else ""
        return NOTE if lenient else self.levels.get(code, LEVELS.get(letter, WARNING))


@cache
def _table(tools: frozenset[str]) -> _Table:
    made = tomllib.loads(data_text("schemas", "glue", "checks.toml"))

    def chosen(part: str) -> Iterator[tuple[str, object]]:
        return ((c, facts) for c, facts in made[part].items() if c.partition(".")[0] in tools)

    absent: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for code, facts in chosen("absent"):
        for kind, names in facts.items():  # type: ignore[attr-defined]
            own = kind if kind.startswith("GLUE2") else ""
            listed = tuple(f"{own}{name}" for name in names.split())
            absent.setdefault(kind.lower(), []).append((code, listed))
    texts = {n: t for part in ("words", "open") for f in made[part].values() for n, t in f.items()}
    words: dict[str, list[_Words]] = {}
    for part in ("words", "open"):
        for code, facts in chosen(part):
            for name, text in facts.items():  # type: ignore[attr-defined]
                known = frozenset(texts.get(text, text).split("|"))
                words.setdefault(name.lower(), []).append(_Words(code, known, part == "open"))
    rules: dict[str, list[_Rule]] = {}
    mentioned: set[str] = set()
    for code, rows in chosen("rules"):
        for names, text, says in rows:  # type: ignore[attr-defined]
            holds = parse_expr(text)
            named = {ref.lower() for ref in holds.references().unscoped}
            mentioned |= named
            rule = _Rule(code, holds, says, bool(named & {"value", "text"}))
            for name in names.split():
                rules.setdefault(name.lower(), []).append(rule)
    once = ((code, *str(row).split()) for code, row in chosen("once"))
    return _Table(
        {kind: tuple(rows) for kind, rows in absent.items()},
        {name: tuple(rows) for name, rows in words.items()},
        {name: tuple(rows) for name, rows in rules.items()},
        frozenset(mentioned),
        tuple((code, kind, tuple(names)) for code, kind, *names in once),
        tuple(
            (code, *pair.split())  # type: ignore[misc]
            for code, pairs in chosen("beside")
            for pair in str(pairs).split("|")
        ),
        dict.fromkeys(made["levels"]["note"].split(), NOTE)
        | dict.fromkeys(made["levels"]["warning"].split(), WARNING),
    )


def validated(
    entries: Iterable[Entry], tools: frozenset[str], now: datetime, report: Report
) -> Iterator[Entry]:
    """Yield the entries of a source as they are, and report the findings of the tools.

    >>> from matchmaker.glue.entries import Attributes
    >>> from matchmaker.glue.clean import VALIDATORS
    >>> from datetime import UTC
    >>> place = Attributes([("objectClass", "GLUE2Location"), ("GLUE2LocationID", "l"),
    ...                     ("GLUE2LocationLatitude", "91")])
    >>> found = []
    >>> entries = validated([Entry("o=glue", place)], VALIDATORS, datetime.now(UTC), found.append)
    >>> [entry.dn for entry in entries], [finding.rule for finding in found if finding.raw]
    (['o=glue'], ['glue-validator.E009'])
    """
    tests = _Tests(tools, now, report)
    for entry in entries:
        tests.entry(entry)
        yield entry
    tests.end()


@attrs.frozen(slots=True)
class _Tests:
    """The tests of the tools on one source, and the classes, ids and services of its entries."""

    tools: frozenset[str]
    now: datetime
    report: Report
    _classes: Counter[str] = attrs.Factory(Counter)
    _ids: set[tuple[str, str]] = attrs.Factory(set)
    _of_services: set[tuple[str, str, str]] = attrs.Factory(set)

    def entry(self, entry: Entry) -> None:
        """Test one entry."""
        named = [text.strip() for text in entry.attributes.get("objectClass", ())]
        kinds = [kind.lower() for kind in named]
        self._classes.update(kinds)
        table = _table(self.tools)
        if "glue-validator" in self.tools:
            self._entry(entry, named)
        lost: dict[str, dict[str, None]] = {}
        for kind in kinds:
            for code, names in table.absent.get(kind, ()):
                here = (name for name in names if name not in entry.attributes)
                lost.setdefault(code, {}).update(dict.fromkeys(here))
        for code, gone in lost.items():
            if gone and not (gone.keys() == {_GROUP} and "GLUE2GroupName" in entry.attributes):
                self._say(entry, code, f"it does not have {', '.join(gone)}")
        for code, kind, names in table.once:
            if kind.lower() in kinds:
                ident = " ".join(t for n in names for t in entry.attributes.get(n, ())).lower()
                if (kind, ident) in self._ids:
                    self._say(entry, code, "an entry before it has this id", names[-1], ident)
                self._ids.add((kind, ident))
        self._values(entry)

    def _values(self, entry: Entry) -> None:
        table = _table(self.tools)
        ad: ClassAd | None = None
        for spelt, texts in entry.attributes.values_by_name.items():
            name = spelt.lower()
            for words in table.words.get(name, ()):
                for text in texts[:_MOST]:
                    if text.strip() not in words.words:
                        level = {"lenient": words.open}
                        self._say(entry, words.code, words.says(), spelt, text, **level)
            if rules := table.rules.get(name):
                ad = ad or self._facts(entry, table.named)
                self._hold(entry, spelt, texts[:_MOST], rules, ad)

    def _hold(
        self, entry: Entry, name: str, texts: list[str], rules: Iterable[_Rule], ad: ClassAd
    ) -> None:
        """Test the values of one attribute; the ad has the others that the rules may name."""
        ad["values"] = list(texts)
        for number, text in enumerate(texts):
            ad["text"], ad["value"] = text, _value(name, text)
            for rule in rules:
                if (rule.each or not number) and rule.holds.eval(my=ad) is False:
                    self._say(entry, rule.code, rule.says, name, text)

    def _facts(self, entry: Entry, named: frozenset[str]) -> ClassAd:
        """Return the first value of each attribute that a rule names, and other names."""
        found: dict[str, Value] = {
            name: _value(name, texts[0])
            for name, texts in entry.attributes.values_by_name.items()
            if name.lower() in named and name[:4].lower() == "glue"
        }
        found["now"] = int(self.now.timestamp())
        found["domain"] = rdns(entry.dn).get("glue2domainid", UNDEFINED)
        shares = [m for t in entry.attributes.get(_OTHER_INFO, ()) if (m := _SHARE.match(t))]
        found["shares"] = sum(int(share[2]) for share in shares)
        vos = Counter(share[1] for share in shares)
        if repeated := [vo for vo, times in vos.items() if times > 1]:
            found["repeated"] = repeated[0]
        return ClassAd(found)

    def _entry(self, entry: Entry, named: Iterable[str]) -> None:
        """Make the tests of glue-validator on any entry."""
        for kind in named:
            if kind.lower() not in classes() and kind.lower() not in _FOREIGN:
                self._say(entry, "glue-validator.E021", "no class of GLUE", "objectClass", kind)
        for name, texts in entry.attributes.values_by_name.items():
            known = attribute(name)
            if known is None:
                continue
            if len(texts) > 1 and not known.multi:
                said = "the schema allows one value"
                self._say(entry, "glue-validator.W036", said, name, "; ".join(texts))
            for text in texts:
                if not text.strip():
                    self._say(entry, "glue-validator.W038", "it is empty", name)
                elif known.ldap == "integer" and not _whole(text, known.version):
                    said = f"expected is a whole number{' from 0' if known.version > '1' else ''}"
                    self._say(entry, "glue-validator.W037", said, name, text)

    def end(self) -> None:
        """Test the source as a whole."""
        for code, kind, other in _table(self.tools).beside:
            if self._classes[kind.lower()] and not self._classes[other.lower()]:
                said = f"the source has entries of {kind} and none of {other}"
                self.report(Diagnostic(code, said, severity=_table(self.tools).level(code)))

    def _say(
        self,
        entry: Entry,
        code: str,
        said: str,
        name: str = "",
        raw: str = "",
        *,
        lenient: bool = False,
    ) -> None:
        if code == _OF_SERVICE and (service := _service(entry.dn)):
            # The queues and endpoints of a service repeat its values.
            if (service, name.lower(), raw) in self._of_services:
                return
            self._of_services.add((service, name.lower(), raw))
        level = _table(self.tools).level(code, lenient=lenient)
        raw = shorten(raw, LIMITS.raw)
        self.report(Diagnostic(code, said, entry.line, entry.dn, name, raw, severity=level))


def _service(dn: str) -> str:
    """Return the service of an entry, in lower case: in GLUE 1.3 the host of its queues."""
    names = rdns(dn)
    old = names.get("glueceuniqueid") or names.get("glueclusteruniqueid", "")
    return (names.get("glue2serviceid") or old.partition(":")[0]).lower()


def _value(name: str, text: str) -> Value:
    """Type a text by the schema, a time as seconds since 1970; as it is if it has no type."""
    if _TIMES.fullmatch(name):
        time = moment(text)
        return int(time.timestamp()) if time is not None else UNDEFINED
    found = typed(attribute(name), text.strip())
    return text if found is None else found


def _whole(text: str, version: str) -> bool:
    text = text.strip()
    if not re.fullmatch(r"[+-]?[0-9]{1,20}", text):
        return False
    return (0 if version == "2.0" else -_LARGEST[version]) <= int(text) <= _LARGEST[version]

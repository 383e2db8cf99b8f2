"""Today's information systems: the documents in which they describe queues, as GLUE records.

A module here is for the systems of one origin. Of each system a function recognises its documents
by the parsed root of a file, and another makes records. `SYSTEMS` is the table of them, and the
only place that a new one is entered in.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from io import BytesIO
from typing import Final, Literal, TypeAlias
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers.expat import ExpatError, ParserCreate

import attrs

from matchmaker._limits import GLUE_LIMITS as LIMITS
from matchmaker.classad.formats import read_ads
from matchmaker.glue.flatten import pending
from matchmaker.glue.issues import Report
from matchmaker.glue.readers import ReadBudget
from matchmaker.glue.records import Downtime, GlueRecords
from matchmaker.glue.systems import osg, queues_toml, wlcg

__all__ = [
    "SYSTEMS",
    "Downtime",
    "InformationSystem",
    "form_of",
    "known_forms",
    "parse",
    "pending",
    "read_document",
    "recognised",
]

Form: TypeAlias = Literal["xml", "json", "toml", "yaml", "ads", "other"]
"""The form of a file by its beginning. ``ads`` are old ads; new ads are as ``json``, those of XML
as ``xml``. ``other`` may be LDIF."""


@attrs.frozen(slots=True)
class InformationSystem:
    """An information system whose documents are read.

    Attributes:
        name: of the system and the document, for messages.
        recognises: whether the parsed root of a file is a document of the system.
        records: makes records of the root; calls the report with each finding. Raises ValueError if
            nothing of it can be read.
        roots: the names of root elements that its XML has, without their namespace. XML with any
            other root is not parsed for it.
    """

    name: str
    recognises: Callable[[object], bool]
    records: Callable[[object, Report], GlueRecords]
    roots: frozenset[str] = frozenset()


SYSTEMS: Final = (
    InformationSystem("queues.toml", queues_toml.recognises, queues_toml.records),
    InformationSystem("CRIC (JSON of PanDA queues or of CEs)", wlcg.is_cric, wlcg.cric_records),
    InformationSystem("CRR (JSON of computing resources)", wlcg.is_crr, wlcg.crr_records),
    InformationSystem("OSG collector (ads of CEs)", osg.has_catalogs, osg.collector_records),
    InformationSystem(
        "OSG topology (XML, or YAML of its repository)",
        osg.is_topology,
        osg.topology_records,
        osg.TOPOLOGY_ROOTS,
    ),
    InformationSystem(
        "GOCDB (XML of sites, service endpoints or downtimes)",
        wlcg.is_gocdb,
        wlcg.gocdb_records,
        wlcg.GOCDB_ROOTS,
    ),
    InformationSystem(
        "glideinWMS (XML of a factory's entries)",
        osg.is_factory,
        osg.factory_records,
        osg.GLIDEINWMS_ROOTS,
    ),
)
"""The systems, in the order in which they are asked."""


def known_forms() -> str:
    """Name the forms that are known, for messages."""
    names = ["GLUE (LDIF, or GLUE 2.0 as XML or JSON)", *(system.name for system in SYSTEMS)]
    return ", ".join(names)


def form_of(beginning: bytes) -> Form:
    r"""Tell the form of a file by its beginning.

    >>> [form_of(text) for text in (b" <a/>", b'{"a": 1}', b"[[queue]]\n", b"A = 1", b"dn: x")]
    ['xml', 'json', 'toml', 'ads', 'other']
    """
    text = beginning.removeprefix(b"\xef\xbb\xbf")
    for form, pattern in _FORMS.items():
        if pattern.match(text):
            return form
    return "other"


# After comments and empty lines the header of a table. A name and a value may be an old ad.
_TOML: Final = re.compile(
    rb"(?:\s*+#[^\n]*+\n)*+\s*+"
    rb"\[\[?[ \t]*+[A-Za-z_][\w-]*+[ \t]*+\]\]?[ \t]*+(?:#|\r?\n|\Z)"
)
_FORMS: Final[dict[Form, re.Pattern[bytes]]] = {
    "toml": _TOML,
    "yaml": osg.YAML,
    "xml": re.compile(rb"\s*+<"),
    "json": re.compile(rb"\s*+[{\[]"),
    "ads": re.compile(rb"(?:\s*+#[^\n]*+\n)*+\s*+[A-Za-z_]\w*+[ \t]*+="),
}
# A key of n parts takes the work and the memory of n * n.
_PART: Final = rb"""(?:(?<![\w-])[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_DOTTED: Final = re.compile(rb"(?:%b[ \t]*+\.[ \t]*+){%d}" % (_PART, LIMITS.depth))
_CATALOG: Final = osg.CATALOG.encode()


def parse(data: bytes, form: Form) -> object:
    """Parse a file into its root; None for XML with a root of no system, and for broken JSON.

    Ads are parsed if there is a catalogue of OSG's collector in them, and None otherwise.

    Raises:
        ValueError: TOML, YAML, ads or XML of a system cannot be read, or nest too deep.
    """
    if _CATALOG in data and form in ("xml", "json", "ads"):
        return list(read_ads(BytesIO(data)))
    if form == "xml":
        return _xml(data)
    if form == "yaml":
        return osg.parse_yaml(data)
    if form == "toml" and _DOTTED.search(data):
        raise ValueError("not TOML: nested too deeply")
    try:
        if form == "json":
            return json.loads(data)
        return tomllib.loads(data.decode("utf-8-sig")) if form == "toml" else None
    except (ValueError, RecursionError) as error:
        if form == "json":
            return None  # new ads also begin with a bracket
        said = "nested too deeply" if isinstance(error, RecursionError) else error
        raise ValueError(f"not TOML: {said}") from None


def read_document(document: object, report: Report) -> GlueRecords | None:
    """Make records of the parsed root of a file; None if no system recognises it.

    Raises ValueError if the document is of a system, and nothing of it can be read.
    """
    for system in SYSTEMS:
        if system.recognises(document):
            return system.records(document, report)
    return None


def recognised(document: object) -> bool:
    """Whether a system has documents like this."""
    return any(system.recognises(document) for system in SYSTEMS)


def _xml(data: bytes) -> Element | None:
    """Parse XML if a system has its root element. Entities are refused, and nothing is fetched."""
    roots = frozenset[str]().union(*(system.roots for system in SYSTEMS))
    builder = TreeBuilder()
    parser = ParserCreate(namespace_separator=" ")
    depth, begun = 0, False
    room = ReadBudget(max(LIMITS.document, len(data)))

    def start(tag: str, marks: dict[str, str]) -> None:
        nonlocal depth, begun
        room.take(1 + len(marks))
        name = tag.rpartition(" ")[2]
        if not depth and name not in roots:
            raise LookupError(name)
        depth, begun = depth + 1, True
        if depth > LIMITS.depth:
            raise ValueError(f"elements nested more than {LIMITS.depth} deep")
        builder.start(name, {key.rpartition(" ")[2]: text for key, text in marks.items()})

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(tag.rpartition(" ")[2])

    def refuse(*_: object) -> None:
        raise ValueError("a document that declares entities is not read")

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = builder.data
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except LookupError:
        return None
    except ExpatError as error:
        if not begun:
            return None
        raise ValueError(f"not XML: {error}") from None
    return builder.close()

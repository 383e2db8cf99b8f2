"""The cleaning rules on one text: what information providers publish in place of a fact.

They come from the GLUE 1.3 specification's placeholder values, the checks of glue-validator, and
the defaults of widespread information providers. Which are on, and who applies them, is in `clean`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import attrs

from matchmaker.glue.access import POLICY_RULE, RULES, UNREADABLE, is_rule
from matchmaker.glue.schema import attribute

UNLIMITED: Final = 999_999_999
"""What a limit becomes under the rule ``clean.limit-unlimited``: the number that templates publish.

So a limit has three states: a number, UNDEFINED (not known), and this (none).
"""


@attrs.frozen(slots=True)
class TextRule:
    """A rule on one text.

    Attributes:
        id: what switches it and marks its findings.
        message: what it found and did, for people.
        apply: from an attribute's name and a text to the text that is meant: the same one, another,
            or None for "not known".
        about: whether it says anything of an attribute of that name at all.
    """

    id: str
    message: str
    apply: Callable[[str, str], str | None]
    about: Callable[[str], bool]


_SAME_DIGIT = re.compile(r"(?:4{6,}|9{5,})\Z")
_PLACEHOLDER = re.compile(
    r"UNDEFINEDVALUE(?:\s*:.*)?|/?UNDEFINEDPATH(?:/.*)?|UNDEFINEDUSER"
    r"|192\.0\.2\.250|2001:DB8::FFFF"
    r"|unset|not defined|n\.a\.?|n/a|FIXME|none",
    re.IGNORECASE | re.DOTALL,
)
_PLACEHOLDERS_BEGIN = frozenset("Uu/12NnFf")
_EXAMPLE_HOST = re.compile(r"(?:^|[/@:.])(?:example\.org|[\w-]+\.invalid)(?=$|[:/])", re.IGNORECASE)
_STATUS = {
    "production": "Production",
    "closed": "Closed",
    "draining": "Draining",
    "queueing": "Queueing",
    "queuing": "Queueing",
}
_AMD64 = re.compile(r"amd64|x64|em64t|intel64|x86[-_]64|Intel\(R\) Xeon\(R\).*", re.IGNORECASE)
_PLATFORMS = {"GlueHostArchitecturePlatformType", "GLUE2ExecutionEnvironmentPlatform"}
_STATUSES = {"GlueCEStateStatus"}
_SERVING = {"GLUE2ComputingShareServingState", "GLUE2EndpointServingState"}
RULES_OF_ACCESS: Final = frozenset({RULES, POLICY_RULE})
"""The attributes that hold the rules of access of queues."""


def default_number(name: str, text: str) -> str | None:
    """444444 and its like: what a provider prints when it could not find out.

    A number of six or more fours, or of five or more nines where the attribute is a limit, is no
    count, memory or time either. Numbers that mean "no limit" to some are left to the limit rules.

    >>> default_number("GlueCEStateWaitingJobs", "444444") is None
    True
    >>> default_number("GlueCEStateWaitingJobs", "44")
    '44'
    """
    known = attribute(name)
    if known is None or not text.isdecimal() or is_limit(name, text):
        return text
    if text in map(str, known.sentinel):
        return None
    counted = known.scope == "policy" or bool(known.sentinel)
    if not counted or not _SAME_DIGIT.match(text):
        return text
    return None if text[0] == "4" or known.scope == "policy" else text


def response_time(name: str, text: str) -> str | None:
    """2146660842 seconds: the default of response times.

    >>> response_time("GlueCEStateWorstResponseTime", "2146660842") is None
    True
    """
    known = attribute(name)
    times = known is not None and 2146660842 in known.sentinel
    return None if times and text == "2146660842" else text


_NO_LIMIT = frozenset({"999999999", "9" * 18, "2147483647"})


def is_limit(name: str, text: str) -> bool:
    """Whether a text is one of the numbers published both for "not known" and for "no limit"."""
    known = attribute(name)
    return known is not None and known.scope == "policy" and text in _NO_LIMIT


def limit_unknown(name: str, text: str) -> str | None:
    """999999999 as a limit is "not known", as the GLUE specification says.

    >>> limit_unknown("GlueCEPolicyMaxCPUTime", "999999999") is None
    True
    """
    return None if is_limit(name, text) else text


def limit_unlimited(name: str, text: str) -> str | None:
    """999999999 as a limit is "no limit", as the templates of providers mean it. Off by default.

    >>> limit_unlimited("GlueCEPolicyMaxCPUTime", "2147483647")
    '999999999'
    """
    return str(UNLIMITED) if is_limit(name, text) else text


def placeholder(name: str, text: str) -> str | None:
    """The specification's UNDEFINEDVALUE and its like, and what is found in the wild.

    >>> placeholder("GlueHostProcessorModel", "n.a") is None
    True
    """
    return None if text[:1] in _PLACEHOLDERS_BEGIN and _PLACEHOLDER.fullmatch(text) else text


def example_host(name: str, text: str) -> str | None:
    """A host of example.org or .invalid, which the specification gives for "not known".

    >>> example_host("GlueSiteWeb", "http://www.example.org/") is None
    True
    """
    folded = text.lower()
    if "example.org" not in folded and ".invalid" not in folded:
        return text  # as nearly all are, for a tenth of the time of the pattern
    return None if _EXAMPLE_HOST.search(text) else text


def platform(name: str, text: str) -> str | None:
    """Spellings of x86_64, down to a processor's name. Never guesses from what is not known.

    >>> platform("GlueHostArchitecturePlatformType", "amd64")
    'x86_64'
    """
    return "x86_64" if name in _PLATFORMS and _AMD64.fullmatch(text) else text


def case(name: str, text: str) -> str | None:
    """``vo:`` for ``VO:`` and ``production`` for ``Production``.

    Space within a rule is dropped only where it denies: no mending admits anybody.

    >>> case("GlueCEAccessControlBaseRule", "vo:EGEE"), case("GlueCEStateStatus", "CLOSED")
    ('VO:EGEE', 'Closed')
    """
    if name in RULES_OF_ACCESS:
        prefix, colon, rest = text.partition(":")
        if colon and (kind := prefix.strip().upper()) in ("VO", "VOMS", "DENY"):
            return f"DENY:{rest.strip()}" if kind == "DENY" else f"{prefix.upper()}:{rest}"
    if name in _STATUSES and (meant := _STATUS.get(text.lower())) and meant.lower() == text.lower():
        return meant
    return text


def status(name: str, text: str) -> str | None:
    """A queue is in Production, Closed, Draining or Queueing (also spelt Queuing); else not known.

    >>> status("GlueCEStateStatus", "Queuing"), status("GlueCEStateStatus", "fine") is None
    ('Queueing', True)
    """
    if name in _SERVING:  # GLUE 2.0 spells them small, and must have one
        if text == "undefined":
            return text
        meant = _STATUS.get(text.lower())
        return text if meant == text.capitalize() else meant and meant.lower()
    if name not in _STATUSES or text in _STATUS.values():
        return text
    return _STATUS.get(text.lower())


def access_rule(name: str, text: str) -> str | None:
    """What is no rule of access is marked, so that its policy admits nobody.

    >>> access_rule("GlueCEAccessControlBaseRule", "EGEE")
    'unreadable'
    """
    return text if name not in RULES_OF_ACCESS or is_rule(text) else UNREADABLE


def _texts(name: str) -> bool:
    # A rule of access names no host, and one that denies must not be taken for nothing.
    known = attribute(name)
    return name not in RULES_OF_ACCESS and (known is None or known.classad == "string")


def _counts(name: str) -> bool:
    known = attribute(name)
    return known is not None and (known.scope == "policy" or bool(known.sentinel))


def _limits(name: str) -> bool:
    known = attribute(name)
    return known is not None and known.scope == "policy"


def _spelt(name: str) -> bool:
    return name in RULES_OF_ACCESS | _STATUSES | _SERVING


TEXT_RULES: Final = (
    TextRule("clean.placeholder", "a placeholder, taken as undefined", placeholder, _texts),
    TextRule("clean.example-host", "a placeholder host, taken as undefined", example_host, _texts),
    TextRule(
        "clean.response-time",
        "a provider's default time, taken as undefined",
        response_time,
        _counts,
    ),
    TextRule(
        "clean.limit-unlimited", "a placeholder limit, taken as no limit", limit_unlimited, _limits
    ),
    TextRule(
        "clean.limit-unknown", "a placeholder limit, taken as undefined", limit_unknown, _limits
    ),
    TextRule(
        "clean.default-number", "a provider's default, taken as undefined", default_number, _counts
    ),
    TextRule("clean.platform", "another name of x86_64", platform, _PLATFORMS.__contains__),
    TextRule("clean.case", "another case", case, _spelt),
    TextRule("clean.status", "not a status of a queue as the schema spells it", status, _spelt),
    TextRule(
        "clean.access-rule",
        "not a rule of access; the policy or queue that has it admits nobody by its own rules",
        access_rule,
        RULES_OF_ACCESS.__contains__,
    ),
)

"""Ads in which scopes are tried out, and the names that are looked up in them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

from tests.oracle.oracle import Case

# The ad of the expression. Names: both (in both ads), own, theirs, inner; circles; nested ads.
MY: Final = """[
    both = 1; own = 10; uses = theirs + 1; asks = TARGET.own; mine = MY.both; bare = other.theirs;
    circle = round; round = circle + 1; tells = isUndefined(circle); loop = loop;
    self_ = self.own; deep = inner.deeper.below; back = TARGET.back;
    inner = [
        both = 2; below = 20; up = own; mine = MY.both; asks = TARGET.both; bare = theirs;
        above = parent.both;
        deeper = [ below = 30; up = both; top = own; above = parent.parent.own; same = self.below ]
    ];
    ads = { [both = 3; at = own], [both = 4; at = both], 5, undefined };
    text = "own"
]"""
TARGET: Final = """[
    both = 5; theirs = 50; own = 500; back = TARGET.own; mine = MY.both; again = TARGET.asks;
    inner = [ both = 6; up = theirs; mine = MY.theirs; asks = TARGET.own ]
]"""

NAMES: Final = (
    "both", "own", "theirs", "uses", "asks", "mine", "bare", "circle", "round", "tells", "loop",
    "self_", "deep", "back", "again", "inner", "ads", "text", "missing", "up", "at",
)  # fmt: skip

PREFIXES: Final = (
    "", "MY.", "TARGET.", "self.", "other.", "inner.", "MY.inner.", "TARGET.inner.",
    "inner.deeper.", "ads.", "ads[0].", "ads[1].", "ads[2].", "missing.", "MY.missing.",
    "TARGET.missing.", "target.MY.", "my.target.", "TARGET.TARGET.",
)  # fmt: skip

WRITTEN: Final = (
    'eval("own")', "eval(text)", "eval(inner.below)", "unparse(uses)", "unresolved(uses)",
    'inner["both"]', 'MY["own"]', 'TARGET["own"]', 'inner["missing"]', "inner.parent.own",
    "inner.deeper.parent.below", "[a = own; b = a + 1].b", "[own = 3; b = own].b",
    "[a = theirs].a", "[a = TARGET.theirs].a", "[a = MY.own].a", "[own = 1; a = MY.own].a",
    "evalInEachContext(both + own, ads)", "evalInEachContext(TARGET.theirs, ads)",
    "evalInEachContext(theirs + at, ads)", "countMatches(theirs > both, ads)",
    "evalInEachContext(missing, {[a = theirs]})", "evalInEachContext(asks, {[theirs = 1]})",
    "countMatches(both > 3, ads)", "size(ads.both)", "sum(evalInEachContext(1, ads))",
    "[MY = [own = 7]; a = MY.own].a", "[TARGET = [own = 7]; a = TARGET.own].a",
    "[self = 1; a = self].a", "[parent = 1; a = parent].a", "MY", "TARGET", "self", "other",
    "isClassAd(MY)", "isClassAd(TARGET)", "isUndefined(parent)", "MY.own + TARGET.own",
    "own == TARGET.own", "ifThenElse(isUndefined(TARGET), 1, 2)", "TARGET.theirs ?: 1",
    "[x = y; y = x; z = isUndefined(x)].z", "[x = y + 1; y = x + 1].x",
    "[x = [y = x]].x.y.y.y", "[x = {x}].x[0]", "[a = 1; b = [a = a]].b.a",
    "[a = 1; b = [c = [d = a + 1]]].b.c.d", "[a = b.c; b = [c = a]].a",
    "[a = 1; b = {a, [c = a]}].b[1].c", "{[a = 1], [a = 2]}[1].a", "{own}[0]",
    "[a = 1; b = 2].c", "[a = 1].A", "[A = 1; a = 2].A", "[a = 1; a = a].a",
)  # fmt: skip


def scope_cases() -> Iterator[Case]:
    """Every name after every prefix, in either ad and in none, with and without a match."""
    texts = [prefix + name for prefix, name in itertools.product(PREFIXES, NAMES)]
    for text in (*texts, *WRITTEN):
        for my, target in (("", ""), (MY, ""), (MY, TARGET), (TARGET, MY), (TARGET, "")):
            yield Case(text, my, target)

"""Ads go back and forth between HTCondor's own tools and us in all four formats, unchanged."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence

import pytest

from matchmaker import ClassAd, parse_ad, parse_ads, write_ads
from tests.services.condor import Machine, Pool

pytestmark = pytest.mark.service

FORMS = {"long": "old", "new": "new", "json": "json", "xml": "xml"}

HARD = [
    r'"it\'s \"q\" \\ d <&> x &quot;"', r'"tab\there"', '"café ☃ 😀"', r'"back\\"', r'"a\\\"b"',
    r'"\001\177"', '"]]>"', '""', '"$(X) $$(Y) %d"', "1e300", "-0.5", 'real("INF")', 'real("NaN")',
    "undefined", "error", "{ }", "[ ]", '{1, "two", {3, [a = {4}]}}', "a =?= b", "a =!= undefined",
    "WantGPU == (TotalGPUs > 0)", "(a & b) == 3", "(a == b) < c", "1 << 2 + 3", "x | (y ^ z)",
    "x ? y : z", "(x ?: y) + 1", "-(5)", "- -a", "!a && b || !(c && d)", 'member("a", {"A"})',
    'absTime("2004-01-01T00:00:00+05:30")', "'two words' + 1", r'strcat("a\"b", "<x>")',
    'x is "é"', r'[a = [b = {[c = "it\'s"]}]]', r'regexp("a\\.b", n)', "a.b.c[1]", ".5 + x",
]  # fmt: skip


@pytest.fixture(scope="module")
def pool(condor: Callable[[Iterable[Machine]], Pool]) -> Pool:
    extra = {"Extra": '{1, "two", [a = 3; b = {4.5, undefined}]}', "Odd": r'"a\b <&> c"'}
    pool = condor([Machine("n1", 1, 1000, extra), Machine("n2", 2, 2000)])
    pool.submit(
        [], "requirements = TARGET.Memory > 9999999", "arguments = \"a 'b c' \"\"d\"\" <x>&\"",
        '+Nested = [ x = 1; y = { 2, "three" } ]', '+Note = "café"', "+Nothing = undefined",
        '+When = absTime("2004-01-01T00:00:00+00:00")',
    )  # fmt: skip
    return pool


@pytest.fixture(scope="module")
def ads(pool: Pool) -> list[ClassAd]:
    """All that the pool publishes, a job, and what is hard to write."""
    published = pool.run("condor_status", "-any", "-long") + "\n" + pool.run("condor_q", "-long")
    hard = [parse_ad(f"[ Number = {n}; x = {text} ]") for n, text in enumerate(HARD)]
    return [*parse_ads(published, "old"), *hard]


def shown(ads: Iterable[ClassAd]) -> list[dict[str, str]]:
    """Ads to compare: HTCondor writes reals with sixteen digits, and changes the order of names."""

    def text(value: object) -> str:
        return re.sub(r"\d+\.\d+(?:e[-+]\d+)?", lambda m: f"{float(m[0]):.14g}", str(value))

    return [{name.lower(): text(held) for name, held in ad.expressions().items()} for ad in ads]


def written(ads: Sequence[ClassAd], form: str) -> str:
    file = io.StringIO()
    write_ads(ads, file, FORMS[form])
    return file.getvalue()


@pytest.mark.parametrize("what", [("condor_status", "-any"), ("condor_q",)])
def test_what_its_tools_print_is_read_alike(pool: Pool, what: tuple[str, ...]) -> None:
    # Between two answers the clock goes on: one is written again in the other forms.
    long = pool.run(*what, "-long")
    wanted = shown(parse_ads(long, "old"))
    assert wanted
    for form, ours in FORMS.items():
        assert shown(parse_ads(pool.rewritten(long, "long", form), ours)) == wanted, form
        assert list(parse_ads(pool.run(*what, f"-long:{form}"), "auto")), form


@pytest.mark.parametrize("to", FORMS)
@pytest.mark.parametrize("form", ["long", "new", "xml"])
def test_its_tools_read_what_we_write(pool: Pool, ads: list[ClassAd], form: str, to: str) -> None:
    again = pool.rewritten(written(ads, form), form, to)
    assert shown(parse_ads(again, FORMS[to])) == shown(ads)


def test_its_tools_read_our_json(pool: Pool, ads: list[ClassAd]) -> None:
    # Of a list it reads the first ad only, of its own too.
    for ad in ads:
        again = pool.rewritten(written([ad], "json"), "json", "long")
        assert shown(parse_ads(again, "old")) == shown([ad])


def test_what_its_bindings_ask_of_the_pool_is_matched_as_it_is(pool: Pool) -> None:
    pytest.importorskip("htcondor2")
    code = (
        "import htcondor2, matchmaker as mm, sys;"
        " ads = htcondor2.Collector().query(htcondor2.AdType.Startd);"
        " pool = mm.Pool(ads); [job] = htcondor2.Schedd().query();"
        " print(len(pool), len(pool.match(job).keys), mm.match(job, ads[0]).matched)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env={**os.environ, **pool.environment}, timeout=60,
    )  # fmt: skip
    assert done.stdout == "2 0 False\n", done.stderr

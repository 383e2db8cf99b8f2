"""What each batch system's flags select, read back by a grammar of each language."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchmaker import ClassAd, Expr, batch, parse_expr, reduce
from matchmaker.batch import Fit, Mapping, NoFlagsError, NoHostError, load_mapping
from matchmaker.classad.nodes import Attr, Binary, Call, Literal, Ternary, Unary
from matchmaker.classad.operators import truth
from matchmaker.classad.walks import conjunction
from tests.batch.systems import SYSTEMS as EXPECTED
from tests.cases import cases
from tests.property import languages

RAM = "GlueHostMainMemoryRAMSize"
CPUS = "GlueHostArchitectureSMPSize"
SI00 = "GlueHostBenchmarkSI00"
OS = "GlueHostOperatingSystemName"
OUT = "GlueHostNetworkAdapterOutboundIP"
TAGS = "GlueHostApplicationSoftwareRunTimeEnvironment"

SITE = f"""
[attributes.{TAGS}]
kind = "member"
features = {{ A = "ta", B = "tb" }}

[attributes.{OS}]
kind = "eq"
features = {{ SL = "sl", Debian = "deb", CentOS = "cent" }}

[attributes.{OUT}]
kind = "bool"
features = {{ true = "outbound" }}

[attributes.{SI00}]
kind = "bucket"
buckets = {{ si0 = [0, 2], si3 = [3, 5], si6 = [6, 9] }}
"""

Node = dict[str, object]


def carried(node: ClassAd) -> set[str]:
    """The features of a node, as the site gives them out."""
    tags, speed = node.eval(TAGS), node.eval(SI00)
    assert isinstance(tags, list)
    assert isinstance(speed, int)
    # One system has no feature.
    system = {"SL": "sl", "Debian": "deb", "CentOS": "cent"}.get(str(node.eval(OS)), "none")
    # No bucket stands for a speed above 9.
    bucket = "si0" if speed < 3 else "si3" if speed < 6 else "si6" if speed < 10 else "fast"
    outbound = {"outbound"} if node.eval(OUT) is True else set()
    return {system, bucket, *(f"t{str(tag).lower()}" for tag in tags), *outbound}


def lsf(argv: tuple[str, ...], node: ClassAd) -> bool:
    facts = dict.fromkeys(carried(node), 1) | {"maxmem": size(node, RAM), "ncpus": size(node, CPUS)}
    assert argv[::2] == ("-R",) * (len(argv) // 2)
    return all(languages.lsf(word, facts) for word in argv[1::2])


def pbs(argv: tuple[str, ...], node: ClassAd) -> bool:
    facts = dict.fromkeys(carried(node), True)
    sizes = {"mem": size(node, RAM), "ncpus": size(node, CPUS)}
    assert argv[:-1] in ((), ("-l",))
    return all(languages.pbspro(word, {**facts, **sizes}) for word in argv[1:])


def torque(argv: tuple[str, ...], node: ClassAd) -> bool:
    assert argv[::2] == ("-l",) * (len(argv) // 2)
    memory = [word for word in argv[1::2] if word.startswith("mem=")]
    nodes = [word for word in argv[1::2] if word not in memory]
    assert len(memory) <= 1
    assert len(nodes) <= 1
    if any(
        languages.kilobytes(word.removeprefix("mem=")) > size(node, RAM) * 1024 for word in memory
    ):
        return False
    return all(languages.torque(word, carried(node), size(node, CPUS)) for word in nodes)


def size(node: ClassAd, name: str) -> int:
    found = node.eval(name)
    assert isinstance(found, int)
    return found


def htcondor(argv: tuple[str, ...], node: ClassAd) -> bool:
    """A machine that advertises what the mapping names."""
    machine = ClassAd((name, e) for name, e in node.items() if name not in (RAM, CPUS))
    machine.update({"DetectedMemory": node[RAM], "DetectedCpus": node[CPUS]})
    assert argv[::2] == ("-append",) * (len(argv) // 2)
    return all(
        truth(parse_expr(line.removeprefix("requirements = ")).eval(target=machine)) is True
        for line in argv[1::2]
    )


def kubernetes(lines: tuple[str, ...], node: ClassAd) -> bool:
    labels = dict.fromkeys(carried(node), "x") | {"kubernetes.io/hostname": str(node.eval("Name"))}
    return all(languages.kubernetes(line, labels) for line in lines)


def by_entry(lrms: str) -> Callable[[tuple[str, ...], ClassAd], bool]:
    judges = EXPECTED[lrms].selects
    assert judges is not None
    return lambda argv, node: judges(list(argv), node, carried(node))


SYSTEMS: dict[str, Callable[[tuple[str, ...], ClassAd], bool]] = {
    "lsf": lsf, "pbspro": pbs, "torque": torque, "htcondor": htcondor, "kubernetes": kubernetes,
    **{lrms: by_entry(lrms) for lrms in EXPECTED if EXPECTED[lrms].selects},
}  # fmt: skip


@pytest.fixture(scope="module", params=SYSTEMS)
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mapping:
    lrms = str(request.param)
    path: Path = tmp_path_factory.mktemp("site") / f"{lrms}.toml"
    path.write_text('others = "same"' if lrms == "htcondor" else SITE)
    return load_mapping(lrms, path)


def host(name: str) -> Expr:
    return Attr(Attr(None, "other", False), name, False)


relations = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])
conditions = st.one_of(
    st.builds(Binary, relations, st.sampled_from([RAM, CPUS]).map(host),
              (st.integers(-1, 9) | st.sampled_from([2.5, 4.0])).map(Literal)),
    st.builds(Binary, relations, st.just(host(SI00)), st.integers(0, 9).map(Literal)),
    st.builds(Binary, st.sampled_from(["==", "!="]), st.just(host(OS)),
              st.sampled_from(["sl", "Debian", "CentOS", "a|b"]).map(Literal)),
    st.lists(st.sampled_from(["SL", "Debian", "a|b", "!x"]), min_size=2, max_size=3).map(
        lambda texts: conjunction([Binary("!=", host(OS), Literal(text)) for text in texts])),
    st.sampled_from("ABab").map(lambda tag: Call("member", (Literal(tag), host(TAGS)))),
    st.just(host(OUT)),
    st.just(Binary(">", host(RAM), host(CPUS))),
)  # fmt: skip
residuals = st.recursive(
    conditions,
    lambda inner: st.one_of(
        st.builds(Binary, st.just("&&"), inner, inner),
        st.builds(Binary, st.sampled_from(["&&", "||"]), inner, inner),
        st.builds(Unary, st.just("!"), inner),
        st.builds(Ternary, inner, inner, inner),
    ),
    max_leaves=7,
)
nodes = st.builds(
    lambda name, ram, cpus, speed, system, out, tags: ClassAd(
        {"Name": name, RAM: ram, CPUS: cpus, SI00: speed, OS: system, OUT: out, TAGS: tags}
    ),
    st.integers(0, 999).map("wn{}".format), st.integers(0, 9), st.integers(0, 9),
    st.integers(0, 14), st.sampled_from(["SL", "Debian", "CentOS", "a|b"]), st.booleans(),
    st.lists(st.sampled_from("AB"), unique=True),
)  # fmt: skip


@settings(max_examples=cases(120))
@given(residual=residuals, several=st.lists(nodes, min_size=1, max_size=6),
       want=st.sampled_from([Fit.NECESSARY, Fit.SUFFICIENT]))  # fmt: skip
def test_flags_select_what_the_verdict_says(
    table: Mapping, residual: Expr, several: list[ClassAd], want: Fit
) -> None:
    reduction = reduce(ClassAd({"Requirements": residual}), ClassAd(), lambda _: "host")
    good = [truth(residual.eval(target=node)) is True for node in several]
    try:
        made = batch.flags(reduction, table.lrms, table, want=want)
    except NoHostError:
        assert not any(good)
        return
    except NoFlagsError:
        assert want is Fit.SUFFICIENT
        return
    for node, wanted in zip(several, good, strict=True):
        selected = SYSTEMS[table.lrms](made.argv if made.command else made.directives, node)
        if made.verdict is Fit.EXACT:
            assert selected == wanted, made
        elif made.verdict is Fit.NECESSARY:
            assert selected >= wanted, made
            if selected and made.recheck is not None:
                assert (truth(made.recheck.eval(target=node)) is True) == wanted, made
        else:
            assert selected <= wanted, made


@settings(max_examples=50)
@given(residual=residuals, several=st.lists(nodes, min_size=1, max_size=6,
                                            unique_by=lambda ad: str(ad.eval("Name"))))  # fmt: skip
def test_the_certificate_is_what_is_selected(
    table: Mapping, residual: Expr, several: list[ClassAd]
) -> None:
    reduction = reduce(ClassAd({"Requirements": residual}), ClassAd(), lambda _: "host")
    good = {str(n.eval("Name")) for n in several if truth(residual.eval(target=n)) is True}
    try:
        made = batch.flags(reduction, table.lrms, table, several)
    except NoHostError:
        assert not good
        return
    named = set(made.argv[made.argv.index("-m") + 1].split()) if "-m" in made.argv else None
    argv = (
        made.directives
        if not made.command
        else made.argv[: made.argv.index("-m")]
        if "-m" in made.argv
        else made.argv
    )
    selected = {
        name for node in several
        if SYSTEMS[table.lrms](argv, node)
        and ((name := str(node.eval("Name"))) in named if named is not None else True)
        and (name := str(node.eval("Name")))
    }  # fmt: skip
    assert made.certificate is not None
    assert set(made.certificate.wrongly_included) == selected - good
    assert set(made.certificate.wrongly_excluded) == good - selected == set()
    assert (made.verdict is Fit.EXACT) == (selected == good)

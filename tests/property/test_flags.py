"""Submit flags, for random residuals and inventories: what they select, and what is in them."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from matchmaker import ClassAd, Expr, batch, parse_ad, parse_expr, reduce
from matchmaker.batch import (
    Fit,
    Mapping,
    NoFlagsError,
    NoHostError,
    Resources,
    Submission,
    load_mapping,
)
from matchmaker.classad.nodes import Attr, Binary, Call, Literal, Ternary, Unary
from matchmaker.classad.operators import truth
from tests.cases import cases
from tests.strategies import RELATIONS

RAM = "GlueHostMainMemoryRAMSize"
CPUS = "GlueHostArchitectureSMPSize"
SI00 = "GlueHostBenchmarkSI00"
TAGS = "GlueHostApplicationSoftwareRunTimeEnvironment"

FEATURES = {"GLITE_1_2": "glite12", "APP1": "app1", "APP2": "app2"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Mapping:
    """The package's mapping with the tags as features."""
    pairs = ", ".join(f'"{tag}" = "{feature}"' for tag, feature in FEATURES.items())
    path: Path = tmp_path_factory.mktemp("site") / "site.toml"
    path.write_text(f'[attributes.{TAGS}]\nkind = "member"\nfeatures = {{ {pairs} }}\n')
    return load_mapping("slurm", path)


def host(name: str) -> Expr:
    return Attr(Attr(None, "other", False), name, False)


# --- residuals and inventories --------------------------------------------------------------------

sizes = st.sampled_from([0, 1, 2, 3, 4, 511, 512, 1000, 1001, 2048]) | st.integers(-5, 3000)
bounds = sizes | sizes.map(lambda n: n + 0.5) | sizes.map(float)


def compared(name: str, relations: Iterable[str] = RELATIONS) -> st.SearchStrategy[Expr]:
    return st.builds(
        Binary, st.sampled_from(tuple(relations)), st.just(host(name)), bounds.map(Literal)
    )


tagged = st.sampled_from([*FEATURES, "APP9"]).map(
    lambda tag: Call("member", (Literal(tag), host(TAGS)))
)
# What batch systems can be asked stands more often than what they cannot.
conditions = st.one_of(
    compared(RAM, (">", ">=")), compared(CPUS, (">", ">=")), compared(RAM), compared(CPUS),
    compared(SI00), tagged,
)  # fmt: skip


def joined(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.one_of(
        st.builds(Binary, st.just("&&"), inner, inner),
        st.builds(Binary, st.just("&&"), inner, inner),
        st.builds(Binary, st.just("||"), inner, inner),
        st.builds(Unary, st.just("!"), inner),
        st.builds(Ternary, inner, inner, inner),
    )


residuals = st.recursive(conditions, joined, max_leaves=6)


@st.composite
def inventories(draw: st.DrawFn) -> list[ClassAd]:
    """Nodes as a batch system reports them: whole sizes; the speed may be missing or a text."""
    nodes = []
    for number in range(draw(st.integers(1, 6))):
        node = ClassAd({"Name": f"wn{number}", RAM: draw(st.integers(0, 3000) | sizes.map(abs))})
        node[CPUS] = draw(st.integers(0, 8))
        node[TAGS] = draw(st.lists(st.sampled_from([*FEATURES, "APP9"]), unique=True))
        speed = draw(st.one_of(st.none(), sizes, st.just("fast"), st.booleans()))
        if speed is not None:
            node[SI00] = speed
        nodes.append(node)
    return nodes


# --- Slurm in a few lines -------------------------------------------------------------------------


def selects(argv: Iterable[str], node: ClassAd) -> bool:
    """Whether a job with these options may run on the node; an unknown option fails the test."""
    return all(_selects(*word.partition("=")[::2], node) for word in argv)


def _selects(option: str, value: str, node: ClassAd) -> bool:
    ram, cpus, tags = node.eval(RAM), node.eval(CPUS), node.eval(TAGS)
    assert isinstance(ram, int)
    assert isinstance(cpus, int)
    assert isinstance(tags, list)
    if option == "--mem":
        assert value[-1] == "M"
        return ram >= int(value[:-1])
    if option == "--mincpus":
        return cpus >= int(value)
    if option == "--constraint":
        return _constrained(value, {FEATURES.get(tag) for tag in tags})
    assert option == "--exclude"
    return node.eval("Name") not in value.split(",")


def _constrained(text: str, features: set[str | None]) -> bool:
    """Features with & or |, and with parentheses of one level around the other of the two."""
    whole = text if "(" in text else f"({text})"
    assert re.fullmatch(r"[a-z0-9&|]*(\([a-z0-9&|]+\)[a-z0-9&|]*)+", whole), text

    def flat(inner: str) -> str:
        assert not {"&", "|"} <= set(inner), text
        test = all if "|" not in inner else any
        return "app" if test(name in features for name in re.split("[&|]", inner)) else "none"

    outer = re.sub(r"\(([a-z0-9&|]+)\)", lambda match: flat(match.group(1)), whole)
    assert not {"&", "|"} <= set(outer), text
    features = {*features, "app"}
    return flat(outer) == "app"


def planned(residual: Expr, site: Mapping, nodes: list[ClassAd] | None) -> Submission | None:
    reduction = reduce(ClassAd({"Requirements": residual}), ClassAd(), lambda _: "host")
    try:
        return batch.flags(reduction, "slurm", site, nodes)
    except NoHostError:
        return None


def accepts(residual: Expr, node: ClassAd) -> bool:
    return truth(residual.eval(target=node)) is True


@settings(max_examples=cases(400))
@given(residual=residuals, nodes=inventories())
def test_without_an_inventory_the_verdict_holds_for_any_nodes(
    site: Mapping, residual: Expr, nodes: list[ClassAd]
) -> None:
    submission = planned(residual, site, None)
    for node in nodes:
        wanted = accepts(residual, node)
        if submission is None:
            assert not wanted
        elif submission.verdict is Fit.EXACT:
            assert selects(submission.argv, node) == wanted, submission
        elif submission.verdict is Fit.NECESSARY:
            assert selects(submission.argv, node) >= wanted, submission
        else:
            assert selects(submission.argv, node) <= wanted, submission


@settings(max_examples=cases(400))
@given(residual=residuals, nodes=inventories())
def test_with_an_inventory_exactly_its_accepted_nodes_are_selected(
    site: Mapping, residual: Expr, nodes: list[ClassAd]
) -> None:
    submission = planned(residual, site, nodes)
    wanted = [accepts(residual, node) for node in nodes]
    if submission is None:
        assert not any(wanted)
    else:
        assert submission.verdict is Fit.EXACT
        assert [selects(submission.argv, node) for node in nodes] == wanted, submission


# What nodes require of the job leads through its attributes back to the nodes.
JOB = f"""[ Owner = "ana"; Ok = TARGET.Load < 5; Deep = Ok && Far; Far = TARGET.{SI00} > 2;
    Listed = member("APP1", TARGET.{TAGS}) ]"""
willing = st.sampled_from(
    ["TARGET.Ok", "TARGET.Deep", "other.Listed", "Load < 7", 'TARGET.Owner == "ana"', "true"]
)


amounts = st.integers(1, 5).map(lambda count: count * 1024)


@settings(max_examples=cases(150))
@given(
    units=st.tuples(st.sampled_from([1, 1024]), st.sampled_from([1, 1024])),
    bounds_of=st.dictionaries(st.sampled_from([RAM, "A", "B"]), amounts, min_size=1),
    asked=st.dictionaries(st.sampled_from(["RequestMemory", "RequestCpus", "N"]), amounts),
    flag=st.sampled_from(["{s}", "--s={value}"]),
)
def test_one_flag_carries_numbers_of_one_thing_only(
    units: tuple[int, int], bounds_of: dict[str, int], asked: dict[str, int], flag: str
) -> None:
    """All that is not checked again is of one attribute in one unit, which the number reaches."""
    rule = f'{{ kind = "min", flag = "{flag}", unit = {units[0]} }}'
    request = f'{{ flag = "{flag}", unit = {units[1]} }}'
    site_text = "".join(f"attributes.{name} = {rule}\n" for name in (RAM, "A", "B"))
    site_text += "".join(f"requests.{name} = {request}\n" for name in ("memory", "cpus", "N"))
    if flag == "{s}":
        site_text += 'flags.s = "--s={s}"\n'
    wanted = " && ".join(f"other.{name} >= {bound}" for name, bound in bounds_of.items())
    facts = "; ".join(f"{name} = {amount}" for name, amount in asked.items())
    job = parse_ad(f"[ Requirements = {wanted}; {facts} ]")
    made = batch.flags(reduce(job, ClassAd(), lambda _: "host"), mapping=shared_mapping(site_text))
    (word,) = made.argv
    lost = {str(each.clause) for each in made.dropped}
    needs = {"RequestMemory": RAM, "RequestCpus": CPUS}
    kept = {
        (name, units[0], bound)
        for name, bound in bounds_of.items()
        if f"other.{name} >= {bound}" not in lost
    }
    kept |= {
        (needs.get(name, name), units[1], amount)
        for name, amount in asked.items()
        if not any(needs.get(name, name) in text and text.startswith(("isU", "N")) for text in lost)
    }
    assert len({(name, unit) for name, unit, _ in kept}) == 1
    number = int(word.removeprefix("--s="))
    assert number == max(-(-bound // unit) for _, unit, bound in kept)


@cache
def shared_mapping(text: str) -> Mapping:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "site.toml"
        path.write_text(text)
        return load_mapping("slurm", path)


@settings(max_examples=cases(150))
@given(
    residual=residuals,
    nodes=inventories(),
    demands=st.lists(st.tuples(st.none() | willing, st.integers(0, 9)), min_size=6, max_size=6),
    resources=st.builds(Resources, memory=sizes.map(abs), cpus=st.integers(0, 8)),
)
def test_nodes_that_refuse_the_job_or_are_too_small_are_not_selected(
    site: Mapping,
    residual: Expr,
    nodes: list[ClassAd],
    demands: list[tuple[str | None, int]],
    resources: Resources,
) -> None:
    job = parse_ad(JOB)
    job["Requirements"] = residual
    for node, (requirement, load) in zip(nodes, demands, strict=False):
        node["Load"] = load
        if requirement is not None:
            node["Requirements"] = parse_expr(requirement)
    wanted = [
        accepts(residual, node)
        and ("Requirements" not in node or truth(node.eval("Requirements", target=job)) is True)
        and int(str(node[RAM])) >= resources.memory
        and int(str(node[CPUS])) >= resources.cpus
        for node in nodes
    ]
    reduction = reduce(job, ClassAd(), lambda _: "host")
    try:
        submission = batch.flags(reduction, "slurm", site, nodes, resources=resources)
    except NoHostError:
        assert not any(wanted)
        return
    argv = [word.replace("--cpus-per-task", "--mincpus") for word in submission.argv]
    assert submission.verdict is Fit.EXACT
    assert [selects(argv, node) for node in nodes] == wanted, submission


def alternatives(parts: list[Expr]) -> Expr:
    joined_parts = parts[0]
    for part in parts[1:]:
        joined_parts = Binary("||", joined_parts, part)
    return joined_parts


@settings(max_examples=cases(400))
@given(
    residual=residuals | st.lists(residuals, min_size=2, max_size=3).map(alternatives),
    nodes=inventories(),
)
def test_flags_that_make_sure_select_accepted_nodes_only(
    site: Mapping, residual: Expr, nodes: list[ClassAd]
) -> None:
    reduction = reduce(ClassAd({"Requirements": residual}), ClassAd(), lambda _: "host")
    try:
        submission = batch.flags(reduction, "slurm", site, want=Fit.SUFFICIENT)
    except NoFlagsError:
        return
    assert submission.verdict in (Fit.EXACT, Fit.SUFFICIENT)
    for node in nodes:
        if selects(submission.argv, node):
            assert accepts(residual, node), submission


@given(parts=st.lists(conditions, min_size=1, max_size=5))
def test_a_conjunction_of_what_can_be_asked_is_exact_and_drops_nothing(
    site: Mapping, parts: list[Expr]
) -> None:
    askable = [
        part for part in parts
        if (isinstance(part, Call) and part.arguments[0] is not Literal("APP9"))
        or (isinstance(part, Binary) and part.operator in (">", ">=") and SI00 not in str(part))
    ]  # fmt: skip
    residual: Expr = Literal(True)
    for part in askable:
        residual = Binary("&&", residual, part)
    submission = planned(residual, site, None)
    assert submission is not None
    assert submission.verdict is Fit.EXACT
    assert submission.dropped == ()


@given(residual=residuals)
def test_what_is_dropped_is_named_exactly_where_the_verdict_is_not_exact(
    site: Mapping, residual: Expr
) -> None:
    submission = planned(residual, site, None)
    if submission is not None:
        assert bool(submission.dropped) == (submission.verdict is not Fit.EXACT)
        assert all(dropped.reason for dropped in submission.dropped)


# --- hostile text ---------------------------------------------------------------------------------

SAFE_WORD = re.compile(
    r"--mem=[0-9]+M|--mincpus=[0-9]+|--constraint=[a-z0-9]+(&[a-z0-9]+)*"
    r"|--exclude=[A-Za-z0-9][A-Za-z0-9._+:-]*(,[A-Za-z0-9][A-Za-z0-9._+:-]*)*",
    re.ASCII,
)

HOSTILE = [
    "--wrap=id", "; id", "$(id)", "`id`", "a b", "a\nb", "\n#SBATCH --wrap=id", "a,b", "n[1-9]",
    "'", '"', "\\", "-", "", " ", "a/../b", "/etc/passwd", "a&b", "a|b", "ALL", "é", "\u2028",
    "\x1b[2J", RAM + "\n", RAM + ";id", "=", "{value}", "{hosts}", "{features}", "{flag}",
]  # fmt: skip
characters = st.characters(codec="utf-8", exclude_characters="\0")
texts = st.sampled_from(HOSTILE) | st.text(characters, max_size=8)
names = st.sampled_from([RAM, CPUS, SI00, TAGS]) | texts.filter(bool)
values = st.one_of(
    bounds, texts, st.booleans(), st.sampled_from([1e300, float("inf"), float("nan"), 2**63 - 1])
).map(Literal)
hostile_conditions = st.one_of(
    st.builds(
        lambda op, name, v: Binary(op, host(name), v), st.sampled_from(RELATIONS), names, values
    ),
    st.builds(lambda v, name: Call("member", (v, host(name))), values, names),
    names.map(host),
)
hostile_nodes = st.lists(
    st.fixed_dictionaries(
        {"Name": texts | st.sampled_from(["wn1", "wn2.grid"])},
        optional={RAM: st.integers(0, 3000), CPUS: st.integers(0, 8), SI00: texts},
    ).map(ClassAd),
    max_size=4,
)


@given(
    residual=st.recursive(hostile_conditions, joined, max_leaves=4),
    nodes=st.none() | hostile_nodes,
)
@example(Binary(">", host(RAM), Literal(5)), [ClassAd({"Name": "a/../b"}), ClassAd({RAM: 9})])
@example(Binary(">", host(RAM), Literal(5)), [ClassAd({"Name": "a,b"}), ClassAd({RAM: 9})])
@example(Binary("==", host(TAGS), Literal("\n#SBATCH --wrap=id")), None)
@example(Binary(">=", host(RAM + "\n--wrap=id"), Literal(5)), None)
def test_flags_hold_safe_words_only(
    site: Mapping, residual: Expr, nodes: list[ClassAd] | None
) -> None:
    try:
        submission = planned(residual, site, nodes)
    except ValueError:
        return  # an inventory whose names cannot be written is refused as a whole
    if submission is not None:
        for word, line in zip(submission.argv, submission.directives, strict=True):
            assert SAFE_WORD.fullmatch(word), word
            assert line == f"#SBATCH {word}"


def test_safe_inventories_are_not_refused(site: Mapping) -> None:
    nodes = [ClassAd({"Name": "wn1", RAM: 1}), ClassAd({"Name": "wn2.grid-a_b", RAM: 9})]
    submission = planned(Binary(">", host(RAM), Literal(5)), site, nodes)
    assert submission is not None
    assert submission.argv == ("--mem=6M", "--exclude=wn1")

"""The limits of the library: the most that one input, evaluation or question may take.

Texts, ads, descriptions of grids and job scripts come from strangers, so each of these numbers
ends work that could fill the memory or go on for ever. Each class is the limits of one part. A
field says in the words of ``docs/safety.md`` what is counted, and in which unit; a test compares
the two pages. Real inputs stay far below, but for numbers that bound what people are shown.

Bounds that a command line, a plan or a policy sets (of a task, of a store, of a binder) are not
here but with their settings.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

# The classes are neither compared nor printed: each generated method costs every start time.


def limit(default: Any, counted: str) -> Any:
    """Define a limit: its value, and the unit and things that it counts."""
    return attrs.field(default=default, metadata={"counted": counted})


@attrs.frozen(slots=True, kw_only=True, eq=False, repr=False)
class ClassAdLimits:
    """Limits of reading and evaluating ClassAds.

    A reader raises ParseError. An evaluation gives ERROR with the reason: ``Budget.spend`` raises
    OutOfBoundsError within it. How steps are counted is in ``classad.budget``.
    """

    text: int = limit(1 << 24, "characters of an expression, of an ad in a stream, of a tag or"
                      " comment in XML")  # fmt: skip
    # Each token takes some hundred bytes of tree.
    syntax: int = limit(1 << 20, "of these, outside of strings: of an expression, or of an ad that"
                        " cannot be read attribute by attribute")  # fmt: skip
    # Parser, printer and compiler recurse: Python's stack ends at some thousand frames.
    nesting: int = limit(200, "how deep an expression or an ad nests; chains such as"
                         r" `a \|\| b \|\| …` do not count")  # fmt: skip

    # About a second of one processor.
    steps: int = limit(1_000_000, "steps of an evaluation")
    depth: int = limit(300, "levels that attributes lead into each other, and `eval()` into its"
                       " texts, the nesting of each expression included")  # fmt: skip
    result: int = limit(1 << 20, "characters of a text that a function gives")
    items: int = limit(200_000, "elements of a list that a function makes")
    time_format: int = limit(1024, "characters of the format of `formatTime`")
    # No count of characters foretells the time of a regular expression, so it is measured.
    seconds: float = limit(0.5, "seconds of processor time of all regular expressions of an"
                           " evaluation")  # fmt: skip
    question: int = limit(2_000_000, "steps of all evaluations of a question about one job, such"
                          " as its flags for all nodes")  # fmt: skip
    question_each: int = limit(2_000, "steps that each evaluation of it has even then")
    question_seconds: float = limit(2.0, "seconds of processor time of all regular expressions of"
                                    " such a question")  # fmt: skip
    question_least: float = limit(0.002, "seconds of them that each evaluation has even then")
    # Such a pattern takes a megabyte a millisecond.
    recursive_seconds: float = limit(0.05, "seconds of processor time of a regular expression that"
                                     " calls itself, such as `(?R)`")  # fmt: skip
    pattern: int = limit(4_000, "characters of a regular expression")
    # Repetitions of repetitions multiply: `((a{99}){99}){99}` compiles to a million nodes.
    pattern_size: int = limit(50_000, "size of a regular expression with its repetitions written"
                              " out")  # fmt: skip
    # PCRE allows as many.
    pattern_depth: int = limit(250, "how deep its groups stand in each other")
    subject: int = limit(1 << 17, "characters of a text in which a regular expression is searched")
    facts: int = limit(20, "names of a clause whose values are shown; how many more there are is"
                           " said")  # fmt: skip

    # Some 10 MB that stay for the life of the process, because ads refer to them.
    spellings: int = limit(1 << 15, "names of attributes whose first spelling is kept for good")
    spelling: int = limit(100, "characters of such a name")

    trace_parts: int = limit(2_000, "parts that a trace shows")
    trace_depth: int = limit(100, "how deep it shows them")
    trace_steps: int = limit(100_000, "steps of the evaluation that it follows")


@attrs.frozen(slots=True, kw_only=True, eq=False, repr=False)
class PoolLimits:
    """Limits of one question to a pool. ``Pool(limits=…)`` sets others.

    Beyond the steps by columns, each ad is evaluated alone, within its allowance; beyond that an
    evaluation is ERROR and does not match. How steps are shared is in
    ``matching.columns.evaluator``.
    """

    flat: int = limit(5_000_000, "steps by columns of a question about all ads")
    each: int = limit(2_000, "and more steps for each ad")
    seconds: float = limit(2.0, "seconds of processor time of all regular expressions of a"
                           " question, before each evaluation has only a little")  # fmt: skip
    least: float = limit(0.002, "seconds of regular expressions that each evaluation has then")
    second: int = limit(2_000_000, "steps that a second in regular expressions counts")
    kept: int = limit(1 << 24, "bytes of masks and ranks that are kept between jobs")
    kept_each: int = limit(1 << 8, "and more bytes for each ad")


@attrs.frozen(slots=True, kw_only=True, eq=False, repr=False)
class ExplanationLimits:
    """Limits of an explanation: of its work, and of the length that people read.

    Nothing is raised: an explanation leaves out what is beyond, and says so if it would matter.
    """

    clauses: int = limit(256, "clauses of a job, followed through names")
    conflict: int = limit(4, "clauses of one conflict")
    conflict_work: int = limit(100_000_000, "combinations of clauses that are compared with slots"
                               " to find conflicts")  # fmt: skip
    conflicts: int = limit(100, "conflicts that are found")
    groups: int = limit(64, "distinct requirements of slots, or definitions of a name, that are"
                        " counted apart, the most frequent first")  # fmt: skip
    comparisons: int = limit(64, "comparisons that may be changed")
    attributes: int = limit(8, "attributes of the job in one comparison that may be changed")
    listed: int = limit(4096, "slots whose lists of ads are looked at for a clause that asks their"
                        " elements for conditions")  # fmt: skip
    elements: int = limit(32, "elements of a list that are shown of one slot")
    terms: int = limit(64, "terms of a sum in a comparison")
    changed: int = limit(64, "clauses that one change may affect")
    # Each is a question to the pool: they are most of the time of an explanation.
    tried: int = limit(12, "changes that are tried, those first that promise most")
    tried_anywhere: int = limit(6, "changes that are tried if a clause of the job may depend on"
                                " any attribute")  # fmt: skip
    suggestions: int = limit(8, "suggestions")
    lasting: int = limit(3, "suggestions for machines whose jobs have ended")
    # Their choices multiply.
    levers: int = limit(8, "attributes of the job that may be changed together")
    shared: int = limit(4, "clauses of the job that rest on such an attribute, of which some may be"
                        " dropped")  # fmt: skip
    choices: int = limit(4, "strings and truths that are tried for such an attribute")
    joint: int = limit(4096, "choices of attributes to change together")
    joint_work: int = limit(20_000_000, "clauses that are looked at, in all patterns of slots, to"
                            " find the smallest set of changes")  # fmt: skip
    notes: int = limit(8, "notes; how many more there are is said")
    followed: int = limit(16, "definitions in the job that are searched for missing names")
    layouts: int = limit(4096, "orders of attributes of slots whose names are looked at for similar"
                         " ones")  # fmt: skip
    names: int = limit(4096, "attributes among which similar names are looked for")
    deep: int = limit(8, "how deep names are followed in an explanation of one pair")
    stages: int = limit(30, "clauses in the picture; of more, only those that exclude something")
    shown: int = limit(20, "clauses of slots that are shown to people; the data holds all")


@attrs.frozen(slots=True, kw_only=True, eq=False, repr=False)
class ReductionLimits:
    """Limits of a reduction, and of the bounds of a residual.

    A reduction beyond them raises ReductionError. Bounds become coarser instead: fewer
    alternatives, each of them wider, are still necessary for the condition.
    """

    steps: int = limit(100_000, "steps of a reduction: parts that facts are put into")
    evaluated: int = limit(2_000_000, "steps of evaluating all facts of a reduction; of one fact,"
                           " half of them")  # fmt: skip
    boxes: int = limit(32, "alternatives that bounds keep; beyond them, the hull and the"
                       " condition itself")  # fmt: skip
    clause_steps: int = limit(50_000, "comparisons of alternatives for one clause; for all"
                              " clauses, twice as many")  # fmt: skip
    united: int = limit(200_000, "comparisons of alternatives of different clauses; beyond them,"
                        " the hull and the clause itself")  # fmt: skip


@attrs.frozen(slots=True, kw_only=True, eq=False, repr=False)
class LintLimits:
    """Limits of the linter, whose time is to be linear in the length of the text.

    Nothing is raised: findings beyond them are not looked for.
    """

    # The distance of two names takes time by the product of their lengths.
    names: int = limit(200_000, "comparisons of names, after which nothing is suggested")
    mended: int = limit(20, "syntax errors that are reported in one ad or expression")
    circles: int = limit(20, "circles of attributes that are reported in one ad")
    bounds: int = limit(60, "bounds of one attribute in a chain that are compared in pairs")
    pattern: int = limit(1_000, "size of a regular expression that is tried")
    fixed: int = limit(1_024, "characters of a text in which it is tried whether a fix needs"
                       " parentheses")  # fmt: skip


@attrs.frozen(slots=True, kw_only=True, eq=False, repr=False)
class GlueLimits:
    """Limits of descriptions of grids: LDIF, LDAP servers, documents, and the ads made of them.

    A file beyond the first two is refused with LdifError or DocumentError. A reader leaves out
    what is beyond any other limit, and reports it as an issue.
    """

    file: int = limit(1 << 28, "bytes of a file of LDIF, counted after unpacking (`--max-size`)")
    # That of a large ARC site, with its jobs, has some 10 MB.
    document: int = limit(1 << 26, "bytes of a document of GLUE 2.0, likewise")
    # Real ones stay below a few kB.
    line: int = limit(1 << 20, "bytes of a line of LDIF, with what is folded onto it")
    pairs: int = limit(64, "attributes on a line that lost its newlines")
    entry: int = limit(1 << 24, "bytes of an entry of LDIF")
    # A list of software has some thousand.
    values: int = limit(1 << 17, "values of an entry, in a dump or from a server")

    # Real ones stay below a few kB, and messages below 100 kB. The grid of 2012 took some 150 MB;
    # 300 sites with 5,000 queues have some 50,000 entries.
    value: int = limit(1 << 16, "bytes of a value from an LDAP server, or of an entry's name")
    message: int = limit(1 << 20, "bytes of an entry from an LDAP server, in all")
    answer: int = limit(1 << 29, "bytes of all that a server answers")
    entries: int = limit(500_000, "entries of a server")
    empty_pages: int = limit(100, "pages without an entry that a server sends in a row")
    timeout: float = limit(30.0, "seconds to wait for each piece of an answer (`--timeout`)")
    total: float = limit(900.0, "seconds to wait for all of an answer")

    objects: int = limit(200_000, "objects of a document, without its jobs")
    depth: int = limit(60, "how deep elements and objects of a document nest")
    text: int = limit(1 << 16, "characters of a value of a document")
    # A grid of 300 sites has some 3,000 queues.
    described: int = limit(50_000, "queues that a document of an information system describes")
    swell: int = limit(16, "characters of ids within ids and links for each byte of a document")

    # A grid of 5,000 queues with four views each has some 60 for each entry.
    ads: int = limit(
        1_000_000, "attributes and list items that the ads of all queues have together"
    )
    ads_each: int = limit(100, "and more of them for each entry")
    links: int = limit(10_000, "links of GLUE 2.0 between entries")
    links_each: int = limit(64, "and more links for each entry")
    # A few thousand entries could else make millions.
    queues: int = limit(1_000, "queues of a service of GLUE 2.0, each share at each endpoint")
    tags: int = limit(100_000, "applications on the hosts of a manager, each on each set of hosts")
    repeated: int = limit(20, "or of both, for each entry that they are made of")
    # Each queue repeats the values of its share and endpoint. An honest queue has some 100.
    taken: int = limit(100_000, "values that the queues of a service take from its entries")
    taken_each: int = limit(100, "and more values for each endpoint and share")

    downtimes: int = limit(100, "downtimes of a place, the first ones, that close its queues")
    registered: int = limit(
        16, "computing elements of a host, without queues, that its queues heed"
    )
    again: int = limit(100, "ads of OSG's collector about a queue that came before")

    issues: int = limit(10_000, "findings of a rule that are kept; those beyond are counted")
    raw: int = limit(1_000, "characters of published text that a finding repeats")


@attrs.frozen(slots=True, kw_only=True, eq=False, repr=False)
class BatchLimits:
    """Limits of the flags of one job, and of the description of one batch system.

    NotTakenError, NoFlagsError, DescriptionError or the error of a site's program name the limit
    that was passed. The two numbers of words and hosts stay below what Linux takes in one word of
    a command, 131,072 bytes.
    """

    alternatives: int = limit(16, "alternatives of one clause in flags")
    written: int = limit(64, "alternatives of all clauses, if parentheses do not nest")
    rounds: int = limit(16, "passes over the clauses, each of which may remove alternatives")
    word: int = limit(120_000, "characters of all terms in one word of a command")
    hosts: int = limit(60_000, "characters of the names of nodes in one word of a command")
    policy: int = limit(3000, "characters of a policy that a job carries, unless a table has less")
    # Batch systems keep requests in integers of 32 bits.
    amount: int = limit(2_000_000_000, "a requested amount, unless a table has another limit")
    text: int = limit(64, "characters of a job's text in a flag, unless a table has another limit")
    pattern_seconds: float = limit(1.0, "seconds to match such a text with a site's pattern")
    script: int = limit(1 << 20, "characters of a job script that are compared with its flags")
    variables: int = limit(4 << 20, "characters of the shell variables that BLAH passes")
    site_seconds: float = limit(10.0, "seconds of a site's own program")
    site_output: int = limit(64 << 10, "bytes that a site's own program prints")
    query_seconds: float = limit(30.0, "seconds of a command that shows one job")
    query_output: int = limit(4 << 20, "bytes that a command prints about one job")
    describe_seconds: float = limit(60.0, "seconds of a command that describes nodes or queues")
    describe_output: int = limit(1 << 28, "bytes that such a command prints, or characters of"
                                 " what was saved")  # fmt: skip
    name: int = limit(1000, "characters of a name within names of a description in JSON")
    depth: int = limit(64, "how deep objects of such a description nest")
    shown: int = limit(200, "characters of a clause in a message")
    complaint: int = limit(300, "characters of a command's standard error in a message")
    listed: int = limit(5, "nodes that a finding about a mapping names")


@attrs.frozen(slots=True, kw_only=True, eq=False, repr=False)
class DelegationLimits:
    """Limits of a row of the ledger, and of the files that are read for one.

    ``submit`` and ``renew`` raise before anything is written.
    """

    script: int = limit(16 << 20, "bytes of the script of a job that is handed over")
    ad: int = limit(1 << 20, "characters of its ad")
    environment: int = limit(1 << 20, "characters of its environment")
    words: int = limit(120_000, "characters of all words for the batch system's command")
    seconds: int = limit(10**9, "seconds of its lease, and of each deadline")
    reason: int = limit(1000, "characters of a reason in the ledger")


CLASSAD_LIMITS: Final = ClassAdLimits()
POOL_LIMITS: Final = PoolLimits()
EXPLANATION_LIMITS: Final = ExplanationLimits()
REDUCTION_LIMITS: Final = ReductionLimits()
LINT_LIMITS: Final = LintLimits()
GLUE_LIMITS: Final = GlueLimits()
BATCH_LIMITS: Final = BatchLimits()
DELEGATION_LIMITS: Final = DelegationLimits()

UNCACHED_POOL: Final = attrs.evolve(POOL_LIMITS, kept=0)
"""Limits of a pool that keeps no masks for other jobs: it is asked once."""

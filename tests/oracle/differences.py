"""Where we differ from HTCondor on purpose: the one list, each with its reason and examples.

The order is that in which rules are laid over each other where several differences meet in one
expression. ``test_differences`` checks of every example that both sides still answer so, so that
nothing stays here without need, and that no other answer of ours is accounted for.
"""

from __future__ import annotations

from typing import Final

from tests.oracle.answers import Compared, agree, same
from tests.oracle.difference import Difference, Example, computed
from tests.oracle.oracle import Answer
from tests.oracle.rules import lists, long_times, numbers, scopes, texts, times


def account(one: Compared) -> tuple[str, ...]:
    """The names of the differences that a disagreement comes from; none where it is a fault.

    A single one if there is, else as few as it takes together.
    """
    if agree(one) or not same(one.ours, one.compiled):
        return ()
    for known in DIFFERENCES:
        if known.accounts_for(one):
            return (known.name,)
    chosen = [known for known in DIFFERENCES if known.theirs is not None]
    if not computed(one, chosen):
        return ()
    for known in list(chosen):
        fewer = [other for other in chosen if other is not known]
        if computed(one, fewer):
            chosen = fewer
    return tuple(known.name for known in chosen)


def _integer(number: int) -> Answer:
    return ["integer", str(number)]


_TRUE: Final[Answer] = ["boolean", True]
_FALSE: Final[Answer] = ["boolean", False]
_ERROR: Final[Answer] = ["error"]
_UNDEFINED: Final[Answer] = ["undefined"]

DIFFERENCES: Final = (
    Difference(
        "rest of texts",
        "eval() reads all of a text; HTCondor's does not look at what follows a choice, a ? b : c",
        (
            Example('eval("1 ? 2 : 3 4")', _ERROR),
            Example('eval("0 ? 2 : real(3)(4)")', _ERROR),
            Example('eval("x ? 2 : -1y" "z)")', _ERROR),
        ),
        theirs=texts.REST,
    ),
    Difference(
        "literals",
        "an integer that does not fit 64 bits is a syntax error; HTCondor reads it as 0",
        (
            Example("9223372036854775808", ["unreadable"]),
            Example("1 + 99999999999999999999", ["unreadable"]),
            Example('eval("99999999999999999999")', _ERROR),
        ),
        theirs=texts.INTEGERS,
        ours=texts.OUR_INTEGERS,
    ),
    Difference(
        "needless zeros",
        "no integer begins with a needless 0; HTCondor reads a negative one",
        (
            Example("-010", ["unreadable"]),
            Example("{1, -00}", ["unreadable"]),
            Example("-0x1F", ["unreadable"]),
            Example('eval("-01")', _ERROR),
        ),
        theirs=texts.ZEROS,
        ours=texts.OUR_ZEROS,
    ),
    Difference(
        "punctuation",
        "a name has one dot before it, and arguments commas between them; HTCondor minds neither",
        (
            Example("x..y", ["unreadable"]),
            Example("[a = 1]..a", ["unreadable"]),
            Example("1 + ..25", ["unreadable"]),
            Example('strcat("a"; "b")', ["unreadable"]),
            Example('eval("x..y")', _ERROR),
        ),
        theirs=texts.PUNCTUATION,
        ours=texts.OUR_PUNCTUATION,
    ),
    Difference(
        "quoted names",
        "a name in quotes has a character and one pair of quotes; HTCondor joins several names",
        (
            Example("''", ["unreadable"]),
            Example("'a' 'b'", ["unreadable"], "[ab = 1]"),
            Example("{x.''}", ["unreadable"], "[x = [a = 1]]"),
            Example("eval(\"''\")", _ERROR),
        ),
        theirs=texts.QUOTED_NAMES,
        ours=texts.OUR_QUOTED_NAMES,
    ),
    Difference(
        "characters",
        "strings are counted and matched in characters; HTCondor counts bytes of UTF-8",
        (
            Example('size("é")', _integer(1)),
            Example('substr("héllo", 1, 1)', ["string", "é"]),
            Example('regexp("^.$", "é")', _TRUE),
        ),
        theirs=texts.BYTES,
    ),
    Difference(
        "saturation",
        "a real that is no 64-bit integer becomes the nearest one, NaN 0; in C++ it is undefined",
        (
            Example("int(1e30)", _integer(2**63 - 1)),
            Example('floor(real("NaN"))', _integer(0)),
        ),
        theirs=numbers.SATURATION,
        ours=numbers.OUR_SATURATION,
    ),
    Difference(
        "powers",
        "a power of integers is exact; HTCondor goes by way of a real and adds one half",
        (
            Example("pow(-2, 3)", _integer(-8)),
            Example("pow(3, 39)", _integer(4052555153018976267)),
            Example("pow(2, 63)", _integer(2**63 - 1)),
        ),
        theirs=numbers.POWERS,
        ours=numbers.OUR_POWERS,
    ),
    Difference(
        "shifts",
        "a shift right takes places modulo 64; HTCondor's goes wrong there with negative numbers",
        (
            Example("-1 >>> 0", _integer(-1)),
            Example("-9223372036854775808 >> -1", _integer(-1)),
            Example("-5 >> 65", _integer(-3)),
        ),
        theirs=numbers.SHIFTS,
        ours=numbers.OUR_SHIFTS,
    ),
    Difference(
        "long times",
        "a relative time is finite and below 10^9 days, an offset below a day",
        (
            Example("relTime(1) / 0", _ERROR),
            Example("relTime(1) * 1e300", _ERROR),
            Example('relTime(0) * real("INF")', _ERROR),
            Example("absTime(0, 86400)", _ERROR),
            Example("absTime(0, 86400) == absTime(0)", _ERROR),
            Example("absTime(0, 86400) is relTime(1) / 0", _TRUE),
            Example("absTime(0, 86400) - relTime(5)", _ERROR),
            Example("-(relTime(1) / 0)", _ERROR),
            Example("string(absTime(0, 86400))", _ERROR),
            Example("absTime(relTime(1) / 0)", _ERROR),
            Example("relTime(1e300)", _ERROR),
            Example("splitTime(1000000000000)", _ERROR),
            Example('formatTime(1000000000000, "%Y")', _ERROR),
        ),
        theirs=long_times.LONG,
        ours=long_times.OUR_LONG,
    ),
    Difference(
        "32 bits",
        "positions and seconds have 64 bits; HTCondor drops all but 32 of them",
        (
            Example("{1, 2}[4294967296]", _ERROR),
            Example("interval(10000000000)", ["string", "115740+17:46:40"]),
            Example("relTime(2147483648)", ["relative time", "2147483648.0"]),
            Example("absTime(2147483648)", ["absolute time", "2038-01-19T03:14:08-00:00"]),
        ),
        theirs=numbers.BITS,
        ours=numbers.OUR_BITS,
    ),
    Difference(
        "fractions of times",
        "absolute times keep fractions of a second; HTCondor's have whole seconds",
        (
            Example(
                "absTime(10, 0) - relTime(2.5)", ["absolute time", "1970-01-01T00:00:07-00:00"]
            ),
            Example(
                'absTime("2004-01-01T00:00:00.5Z")',
                ["absolute time", "2004-01-01T00:00:00-00:00"],
            ),
            Example(
                'string({absTime("2004-01-01T00:00:00.5Z")})',
                ["string", '{ absTime("2004-01-01T00:00:00.500000+00:00") }'],
            ),
        ),
        theirs=times.FRACTIONS,
    ),
    Difference(
        "microseconds",
        "a relative time has whole microseconds; HTCondor's is a real",
        (
            Example(
                "splitTime(relTime(1) / 3)",
                [
                    "classad",
                    [
                        ["days", _integer(0)],
                        ["hours", _integer(0)],
                        ["minutes", _integer(0)],
                        ["seconds", ["real", "0.333333"]],
                        ["type", ["string", "RelativeTime"]],
                    ],
                ],
            ),
        ),
        theirs=times.MICROSECONDS,
    ),
    Difference(
        "refusals",
        "an error stays where it is; HTCondor gives up the whole expression after some calls",
        (
            Example("absTime(5, -1)", ["absolute time", "1970-01-01T00:00:04-00:00"]),
            Example("isError(userHome())", _TRUE),
        ),
        theirs=times.REFUSALS,
    ),
    Difference(
        "places of arguments",
        "evalInEachContext() looks from where it stands; HTCondor's from where it found its name",
        (
            Example(
                "evalInEachContext(b, l)",
                ["list", [["integer", "5"]]],
                "[l = {[b = 5]}]",
                "[z = 1]",
            ),
        ),
        theirs=scopes.PLACES,
        ours=scopes.OUR_PLACES,
    ),
    Difference(
        "elements of lists",
        "the elements of a list are evaluated with it; HTCondor's where and when they are wanted",
        (
            Example("[x = {x}].x[0]", _UNDEFINED),
            Example("sum(TARGET.l)", _integer(3), "[y = 4]", "[y = 3; l = {y}]"),
            Example("{[x = 1; a = [b = x]]}.a[0].b", _integer(1)),
            Example("x[0]", _UNDEFINED, "[x = {x[0]}]"),
            Example("{x.y}[0]", ["list", [_UNDEFINED]], "[x = {x.y}]"),
            Example("join(x)", _UNDEFINED, "[x = {join(x)}]"),
            Example("evalInEachContext(0, x)", ["list", [_UNDEFINED]], "[x = {x.y}]"),
            Example(
                "evalInEachContext(1 + [k = j].k, {[j = 5]})", ["list", [_integer(6)]], "[j = 7]"
            ),
        ),
        theirs=lists.LISTS,
        ours=lists.OUR_LISTS,
    ),
    Difference(
        "kinds of lists",
        "a list is a list; to HTCondor one that a function has made is of another type",
        (Example('split("a") is {"a"}', _ERROR),),
        theirs=lists.KINDS,
        ours=lists.OUR_KINDS,
    ),
    Difference(
        "texts of lists and ads",
        "the text of a list has its values, that of an ad our spelling; HTCondor has expressions",
        (
            Example("string({1 + 1})", ["string", "{ 2 }"]),
            Example("string([])", ["string", "[ ]"]),
            Example("[a = 0.1; b = unparse(a)].b", ["string", "0.1"]),
        ),
        theirs=lists.TEXTS,
        ours=lists.OUR_TEXTS,
    ),
    Difference(
        "relative time literals",
        'relTime("…") is a relative time; HTCondor 25 makes a real of what it puts into a literal',
        (
            Example('isRelTime(relTime("1d"))', _TRUE),
            Example('relTime("1d") + 1', _ERROR),
            Example("isRelTime({[a = relTime(5)]}.a[0])", _TRUE),
        ),
        theirs=times.LITERALS,
    ),
    Difference(
        "texts of times",
        "a text that is no time is an error where it is evaluated, and a computed text is read too",
        (
            Example('absTime("garbage")', _ERROR),
            Example('absTime(strcat("garbage", ""))', _ERROR),
            Example('relTime(strcat("1", "d"))', ["relative time", "86400.0"]),
        ),
        theirs=times.TEXTS,
        ours=times.OUR_TEXTS,
    ),
    Difference(
        "shortened dates",
        "a date has a year of four digits, a month and a day of two; HTCondor makes the rest up",
        (
            Example(
                'absTime("2004-01")',
                _ERROR,
                theirs=["absolute time", "2003-12-31T00:00:00-00:00"],
            ),
            Example(
                'string(absTime("2004"))', _ERROR, theirs=["string", "2003-12-31T00:00:00-00:00"]
            ),
            Example(
                'string(absTime("01/02/2004"))',
                _ERROR,
                theirs=["string", "1-02-20T04:00:00-00:00"],
            ),
            Example(
                'string(absTime("2004-01"))',
                _ERROR,
                theirs=["string", "2003-12-31T00:00:00-00:00"],
            ),
            Example('relTime("")', _ERROR, theirs=["real", "0.0"]),
        ),
    ),
    Difference(
        "crashes",
        "everything has a value; HTCondor's library ends the process, or never ends, over some",
        (
            Example("evalInEachContext({x}, {[x = 1]})", ["list", [["list", [["integer", "1"]]]]]),
            Example('[l = split("a b")].l.x', ["list", [_ERROR, _ERROR]]),
        ),
        unanswered=True,
    ),
    Difference(
        "numbers in string lists",
        "stringListMax() and its kin take numbers as they are; HTCondor's as reals, and one more",
        (
            Example('stringListMax("-1,-2")', _integer(-1)),
            Example('stringListMax("-1.5,-2")', ["real", "-1.5"]),
            Example('stringListMin("1e39")', ["real", "1e+39"]),
            Example('stringListSum("9007199254740993")', _integer(9007199254740993)),
        ),
        theirs=texts.STRING_LISTS,
        ours=texts.OUR_STRING_LISTS,
    ),
    Difference(
        "broken patterns",
        "a broken pattern is an error in regexpMember as it is in regexp; HTCondor says false",
        (Example('regexpMember("(", {"a"})', _ERROR),),
        theirs=texts.BROKEN,
        ours=texts.OUR_BROKEN,
    ),
    Difference(
        "regular expressions",
        "another library matches them: it knows look-behind of any length, and no PCRE verbs",
        (
            Example('regexp("(?<=a*)b", "ab")', _TRUE, theirs=_ERROR),
            Example('regexp("(?<=a*)b","ab")', _TRUE, theirs=_ERROR),
            Example('regexp("(*ANYCRLF)a","a")', _ERROR, theirs=_TRUE),
            Example('regexp("(a+)+$","aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab")', _FALSE, theirs=_ERROR),
            Example(r'regexp("[\\d-z]","-")', _TRUE, theirs=_ERROR),
            Example(r'regexp("[a-\\d]","-")', _TRUE, theirs=_ERROR),
            Example(r'regexp("\\o{101}","A")', _ERROR, theirs=_TRUE),
            Example(r'regexp("\\b{2}","a")', _TRUE, theirs=_ERROR),
            Example(r'regexp("\\N{U+41}","A")', _FALSE, theirs=_ERROR),
            Example(r'regexp("\\C","a")', _ERROR, theirs=_TRUE),
            Example(r'regexp("\\P","P")', _TRUE, theirs=_ERROR),
            Example(r'regexp("[\\Qa]\\E]","]")', _ERROR, theirs=_TRUE),
        ),
    ),
    Difference(
        "the outermost ad",
        "root and parent of an ad in a match end with that ad; HTCondor shows its own match ad",
        (
            Example("isUndefined(parent)", _TRUE, "[a = 1]", "[b = 1]"),
            Example("root.a", _integer(1), "[a = 1]", "[b = 1]"),
            Example("left.a", _UNDEFINED, "[a = 1]", "[b = 1]"),
        ),
        theirs=scopes.OUTERMOST,
        ours=scopes.OUR_OUTERMOST,
    ),
    Difference(
        "unresolved",
        "unresolved() speaks of the ad alone; HTCondor's looks around it and gives up at circles",
        (
            Example("unresolved(a)", _UNDEFINED, "[b = 1]", "[a = c]"),
            Example("unresolved(a)", ["string", "q"], "[a = b; b = a + q]"),
        ),
        theirs=scopes.UNRESOLVED,
        ours=scopes.OUR_UNRESOLVED,
    ),
    Difference(
        "parentheses",
        "a name in parentheses is the name; HTCondor takes it as an expression in countMatches()",
        (Example("[f = x > 1; n = countMatches((f), {[x = 2]})].n", _integer(1)),),
        theirs=texts.PARENTHESES,
        ours=texts.OUR_PARENTHESES,
    ),
    Difference(
        "bounds",
        "long chains are evaluated; HTCondor gives up at a depth of 400",
        (
            Example(" || ".join(["false"] * 500), _FALSE, theirs=["exception", "ClassAdException"]),
            Example(
                " + ".join(["1"] * 500), _integer(500), theirs=["exception", "ClassAdException"]
            ),
        ),
    ),
)

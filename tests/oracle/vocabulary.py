"""The words of which random expressions are made: constants and names of each kind, functions."""

from __future__ import annotations

from typing import Final

LEAVES: Final[dict[str, tuple[str, ...]]] = {
    "integer": (
        "0", "1", "-1", "2", "3", "-7", "10", "63", "64", "100", "-64", "2147483647", "4294967296",
        "9007199254740993", "9223372036854775807", "-9223372036854775808", "1073741824",
    ),
    "real": (
        "0.0", "-0.0", "0.5", ".25", "-1.5", "2.5", "3.0", "1e3", "1.5E-2", "1e308", "-1e308",
        "1e-320", "9007199254740992.0", "9.3e18", 'real("INF")', 'real("-INF")', 'real("NaN")',
        "123456.789",
    ),
    "string": (
        '""', '"a"', '"A"', '"b"', '"abc"', '"ABC"', '"hello world"', '"10"', '"9"', '"1.5"',
        '"-3"', '"%Y-%m-%dT%H"',
        '"0x1F"', '"1e2"', '"12abc"', '"true"', '"FALSE"', '"a,b,c"', '"a, b,,c"', '"1,2,3"',
        '"-1.5, 2"', '"x y\\tz"', '"1.2.3"', '"1.10"', '"8.9.1"', '"slot1@host.org"', '"u@d@e"',
        '"A=1 B=2"', '"a=1;b=x y"', '"it\'s"', '"q\\"q"', '"back\\\\slash"', '"\\101\\n"',
        '"ab" "cd"', '"."', '"^a"', '"b+"', '"<"', '"is"', '" "', '";"', '"é"', '"日本"',
    ),
    "boolean": ("true", "false", "true", "false", "TRUE", "False", "1", "0.0"),
    "list": (
        "{}", "{1}", "{1, 2, 3}", '{"a", "B"}', "{1, 2.5, true}", "{undefined, 1}", "{error}",
        '{"1.2", "x"}', "{{1, 2}, {}}", "{[i = 1], [i = 2]}", '{[s = "a"; i = 5]}',
    ),
    "ad": ("[]", "[i = 1]", '[s = "x"]', "[i = j]", "[x = i]", "[a = [i = 3]]"),
    "ads": (
        "{[i = 1], [i = 2]}", "{}", '{[s = "a"], [i = 5; j = i], 7}', "{[a = [i = 3]], undefined}",
    ),
    "time": (
        'absTime("2004-01-01T00:00:00+00:00")', 'absTime("2004-06-30T23:59:59-05:00")',
        'absTime("1999-12-31 12:00:00")', "absTime(0)", "absTime(86400, 3600)",
        "absTime(1074124800, -5400)",
    ),
    "span": (
        "relTime(0)", "relTime(90)", "relTime(-1.5)", "relTime(86400)", "relTime(93784.25)",
        "relTime(-100000)",
    ),
}  # fmt: skip

NAMES: Final[dict[str, tuple[str, ...]]] = {
    "integer": ("i", "j", "k", "Cpus"),
    "real": ("r", "load"),
    "string": ("s", "t", "Name"),
    "boolean": ("p", "q"),
    "list": ("l", "m"),
    "ads": ("slots",),
    "ad": ("a", "b", "inner"),
    "time": ("u",),
    "span": ("v",),
    "any": ("x", "y", "missing"),
}

_CALLS: Final = {
    "integer": """
        size(string) size(list) size(ad) int(real) int(string) int(span) floor(real)
        ceiling(real) ceil(string) round(real) pow(integer,integer) quantize(integer,integer)
        quantize(integer,list) strcmp(string,string) stricmp(string,string)
        versioncmp(string,string) sum(list) min(list) max(list) getHours(time) getMinutes(span)
        getSeconds(span) getDays(span) getYear(time) getMonth(time) getDayOfYear(time)
        getDayOfWeek(time) getDayOfMonth(time) stringListSize(string) stringListSum(string)
        stringListAvg(string) stringListMin(string) ifThenElse(boolean,integer,integer)
        countMatches(boolean,ads) debug(integer)
    """,
    "real": """
        real(integer) real(string) real(time) avg(list) sum(list) pow(real,real)
        pow(real,integer) quantize(real,real) quantize(real,list) max(list)
        stringListSum(string,string) ifThenElse(boolean,real,real) stringListMax(string)
    """,
    "string": """
        strcat(string,string) strcat(any,any) strcat(real) string(any) string(integer)
        string(list) join(string,list) join(string,string,string) join(list) toUpper(string)
        toLower(any) substr(string,integer) substr(string,integer,integer) interval(integer)
        interval(span) regexps(pattern,string,string) replace(pattern,string,string)
        replaceAll(pattern,string,string) formatTime(time,string) formatTime(time)
        envV1ToV2(string) mergeEnvironment(string,string) listToArgs(list) unparse(name)
        userHome(string,string) ifThenElse(boolean,string,string)
        regexps(pattern,string,string,options)
    """,
    "boolean": """
        isUndefined(any) isError(any) isString(any) isInteger(any) isReal(any) isList(any)
        isClassAd(any) isBoolean(any) isAbsTime(any) isRelTime(any) member(any,list)
        member(string,list) identicalMember(any,list) bool(string) bool(integer)
        regexp(pattern,string) regexp(pattern,string,options) regexpMember(pattern,list)
        anyCompare(operator,list,integer) allCompare(operator,list,any)
        stringListMember(string,string) stringListIMember(string,string)
        stringListSubsetMatch(string,string) stringListISubsetMatch(string,string)
        stringListsIntersect(string,string) versionLE(string,string) versionLT(string,string)
        versionGE(string,string) versionGT(string,string) versionEQ(string,string)
        version_in_range(string,string,string) stringList_regexpMember(pattern,string)
        ifThenElse(boolean,boolean,boolean)
    """,
    "list": """
        split(string) split(string,string) splitUserName(string) splitSlotName(string)
        argsToList(string) ifThenElse(boolean,list,list)
    """,
    "ads": """
        ifThenElse(boolean,ads,ads)
    """,
    "ad": """
        splitTime(time) splitTime(span) ifThenElse(boolean,ad,ad)
    """,
    "time": """
        absTime(integer) absTime(time) absTime(integer,offset)
    """,
    "span": """
        relTime(integer) relTime(seconds) relTime(time) relTime(span)
    """,
}

SIGNATURES: Final[dict[str, list[tuple[str, list[str]]]]] = {
    kind: [
        (name, arguments.split(","))
        for name, _, arguments in (call.removesuffix(")").partition("(") for call in calls.split())
    ]
    for kind, calls in _CALLS.items()
}
"""Functions by the kind of their result: the name and the kinds of the arguments."""

PATTERN_PARTS: Final = (
    "a", "b", "A", ".", "a+", "b*", "[a-c]", "[^a]", "(a)", "(b|c)", "(a)?", "^", "$", "\\d",
    "\\w+", "\\s", "a{2}", "[0-9]+", "\\.", "(?:ab)+", "x|", "b??", "(?i)", "[[:alpha:]]", "\\b",
)  # fmt: skip

ARGUMENTS: Final = {
    "options": ('"i"', '"g"', '"f"', '"fg"', '"im"', '"s"', '"x"', '""', "undefined"),
    "operator": ('"<"', '"<="', '"=="', '"!="', '">="', '">"', '"is"', '"isnt"', '"=?="', '"+"'),
    "pattern": ('"a"', '"^A"', '"[a-c]+"', '"(b)?"', '"."', '"x|$"', '"(a)(b)"', '"\\\\d+"', '"("'),
    "factor": ("2", "4", "-8", "0.5", "0"),
    "seconds": ("1.5", "-2.25", "0.0", "1e9", "1e300", 'real("INF")', 'real("NaN")', "undefined"),
    "offset": ("relTime(3600)", "relTime(-5400)", "7200", "-60", "relTime(90.5)", "100000"),
}
"""What is given to functions where anything else would only go wrong."""

TOKENS: Final = (
    "(", ")", "[", "]", "{", "}", ".", ",", ";", ":", "?", "?:", "-", "+", "!", "~", "*", "&", "&&",
    "|", "=", "==", "=?=", "is", "1", "1.5", "x", "'q'", '"s"', "true", "/", "//", "/*", "*/", " ",
    "\n", "'", '"', "\\", "#", "$", "@", "0", "09", "1e", ".5", "%", "<", ">>>",
)  # fmt: skip
"""What is put into an expression to break it."""

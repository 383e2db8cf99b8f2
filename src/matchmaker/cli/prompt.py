"""The prompt of ``classad eval``: evaluates expressions as they are typed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import attrs
from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory

import matchmaker as mm
from matchmaker import ClassAd, ParseError, parse_expr
from matchmaker.classad.functions import FUNCTIONS
from matchmaker.classad.nodes import MY_SCOPES, TARGET_SCOPES
from matchmaker.classad.printer import RESERVED
from matchmaker.cli import inputs
from matchmaker.cli.output import count, print_trace, printable
from matchmaker.matching.pair import value_text

MESSAGE: Final = "classad> "
CONTINUATION: Final = "     ... "

KEYWORDS: Final = (*RESERVED, "MY.", "TARGET.")

# Strings and comments, in which brackets do not count; then brackets.
_TOKEN: Final = re.compile(
    r"""
    "(?:[^"\\]|\\.)*(?:"|\Z) | '(?:[^'\\]|\\.)*(?:'|\Z) | //[^\n]* | /\*.*?(?:\*/|\Z)
    | (?P<open>[(\[{]) | (?P<close>[)\]}])
    """,
    re.VERBOSE | re.DOTALL,
)


@attrs.define(slots=True)
class _Desk:
    """The two ads that expressions are evaluated in."""

    my: ClassAd
    target: ClassAd | None = None


def interact(my: ClassAd, target: ClassAd | None, ads: int = 0) -> int:
    """Ask for expressions and commands until the end of input. Gives the exit status."""
    desk = _Desk(my, target)
    session: PromptSession[str] = PromptSession(
        MESSAGE, history=_history(), completer=_Names(desk), complete_while_typing=False,
        multiline=Condition(lambda: is_open(get_app().current_buffer.text)),
        prompt_continuation=CONTINUATION,
    )  # fmt: skip
    print("An expression gives its value; :help lists commands; Ctrl-D ends.")
    if ads > 1:
        print(f"MY is the first of {ads} ads; :ad FILE NUMBER takes another.")
    while True:
        try:
            line = session.prompt()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return 0
        try:
            if line.strip() and not answer(line.strip(), desk):
                return 0
        except KeyboardInterrupt:
            print("interrupted")


def answer(line: str, desk: _Desk) -> bool:
    """Run a line, and print its errors. Returns whether to go on."""
    try:
        if not line.startswith(":"):
            print(printable(value_text(parse_expr(line).eval(desk.my, desk.target))))
            return True
        word, _, rest = line[1:].partition(" ")
        if word in ("quit", "q", "exit"):
            return False
        if word not in COMMANDS:
            print(f"there is no :{printable(word)}; :help lists the commands")
        else:
            COMMANDS[word][0](rest.strip(), desk)
    except ParseError as error:
        for part in str(error).split("\n"):
            print(printable(part))
    except OSError as error:
        print(printable(f"{error.filename or ''}: {error.strerror or error}"))
    except ValueError as error:
        print(printable(str(error)))
    return True


def is_open(text: str) -> bool:
    """Whether the text has an open bracket.

    >>> is_open("{1,"), is_open('size("{")'), is_open("a)")
    (True, False, False)
    """
    if text.lstrip().startswith(":") and not text.lstrip().startswith((":set", ":trace")):
        return False
    depth = 0
    for token in _TOKEN.finditer(text):
        depth += (token["open"] is not None) - (token["close"] is not None)
    return depth > 0


# --- commands -------------------------------------------------------------------------------------


def _numbered(rest: str) -> ClassAd:
    """The ad of a file, the first one or the one of the number after the file's name."""
    match = re.fullmatch(r"(.+?)(?:\s+(\d+))?", rest)
    if match is None:
        raise ValueError("which file?")
    path, number = Path(match[1]).expanduser(), int(match[2] or 1)
    if str(path) == "-":
        raise ValueError("standard input is the prompt's")
    ads = inputs.ads(str(path))
    if not 1 <= number <= len(ads):
        raise ValueError(f"{path} has {count(len(ads), 'ad')}")
    more = f", number {number} of {len(ads)}" if len(ads) > 1 else ""
    print(printable(f"{count(len(ads[number - 1]), 'attribute')}{more}"))
    return ads[number - 1]


def _take_ad(rest: str, desk: _Desk) -> None:
    desk.my = _numbered(rest)


def _take_target(rest: str, desk: _Desk) -> None:
    desk.target = _numbered(rest)


def _set(rest: str, desk: _Desk) -> None:
    match = re.fullmatch(r"([A-Za-z_]\w*)\s*=(?!=)(.*)", rest, re.DOTALL | re.ASCII)
    if match is None:
        raise ValueError("what? for example :set Memory = 4 * 1024")
    desk.my[match[1]] = parse_expr(match[2].strip())


def _trace(rest: str, desk: _Desk) -> None:
    print_trace(mm.trace(rest, desk.my, desk.target))


def _show(rest: str, desk: _Desk) -> None:
    for name, ad in (("MY", desk.my), ("TARGET", desk.target)):
        if ad is not None:
            print(f"{name} has {count(len(ad), 'attribute')}")
            for attribute, expression in ad.expressions().items():
                print(printable(f"  {attribute} = {expression}"))


def _help(rest: str, desk: _Desk) -> None:
    for name, (_, usage, meaning) in COMMANDS.items():
        print(f"{f':{name} {usage}':24}{meaning}")
    print(f"{':quit':24}ends, as does Ctrl-D")
    print("Tab completes names; an open bracket lets an expression go on in the next line.")


COMMANDS: Final[dict[str, tuple[Callable[[str, _Desk], None], str, str]]] = {
    "ad": (_take_ad, "FILE [NUMBER]", "takes an ad of a file as MY"),
    "target": (_take_target, "FILE [NUMBER]", "takes an ad of a file as TARGET"),
    "set": (_set, "NAME = EXPR", "sets an attribute of MY"),
    "trace": (_trace, "EXPR", "shows the value of each part of an expression"),
    "show": (_show, "", "shows both ads"),
    "help": (_help, "", "shows this"),
}


# --- completion and history -----------------------------------------------------------------------


@attrs.frozen(slots=True, eq=False)
class _Names(Completer):
    """Completes commands, files after those that take one, and names in expressions."""

    desk: _Desk

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        text = document.text_before_cursor
        file = re.match(r"\s*:(?:ad|target)\s+", text)
        if file is not None:
            rest = Document(text[file.end() :])
            yield from PathCompleter(expanduser=True).get_completions(rest, complete_event)
            return
        match = re.search(r"(?:(\w+)\.)?(\w*)\Z", text)
        scope, word = (match[1] or "", match[2]) if match else ("", "")
        names: Iterable[str] = self._names(scope.lower())
        if re.fullmatch(r"\s*:\w*", text):
            names = [*COMMANDS, "quit"]
        for name in sorted(set(names), key=str.lower):
            if name.lower().startswith(word.lower()):
                yield Completion(name, -len(word))

    def _names(self, scope: str) -> Iterator[str]:
        if scope not in TARGET_SCOPES:
            yield from self.desk.my
        if self.desk.target is not None and scope not in MY_SCOPES:
            yield from self.desk.target
        if not scope:
            yield from (f"{function.name}(" for function in FUNCTIONS.values())
            yield from KEYWORDS


def _history() -> History:
    """The history of earlier sessions, or of this one if no file can be written."""
    home = os.environ.get("XDG_STATE_HOME", "")
    # The specification has relative paths ignored.
    folder = Path(home) if Path(home).is_absolute() else Path("~/.local/state").expanduser()
    try:
        (folder / "classad").mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / "classad" / "history"
        path.touch(mode=0o600)
    except (OSError, RuntimeError):
        return InMemoryHistory()
    return FileHistory(str(path))

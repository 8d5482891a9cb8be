"""The dialogues of a Markdown page: commands, and the output that the page shows for them.

A block with the language `sh` has commands that a reader can paste: a command a line, and here
documents. A block with the language `text` directly after it is the output of its last command;
the others print nothing. A line `…` stands for any lines.
With LAKEHOUSE_WRITE_PAGES=1 the output is written into the page instead of compared.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from tests.pages.shell import ROOT, Shell, Told

COMMANDS, OUTPUT = "sh", "text"
ANY_LINES = "…"
WRITES = os.environ.get("LAKEHOUSE_WRITE_PAGES") == "1"

_FENCE = re.compile(r"^ *```(\S*)")
_HEARTBEAT = re.compile(r"^.*\(\d+ s\)$")
_DURATION = re.compile(r"\d+(\.\d+)? (s|min|h|d)\b( \d+ (s|min|h)\b)?")
_RUNS = re.compile(r"─+|\s+")
_HERE_DOCUMENT = re.compile(r"<<'(\w+)'$")
_ADDRESS = re.compile(r"127\.0\.0\.1:\d+")


class Step(NamedTuple):
    """A command, the output that the page shows, and the lines of the page where that stands."""

    command: str
    shown: list[str]
    begin: int
    end: int


def blocks(page: Path) -> Iterator[tuple[str, int, list[str]]]:
    """The fenced blocks of a page: language, number of the first line, lines."""
    language, first = None, 0
    lines = page.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        fence = _FENCE.match(line)
        if fence and language is None:
            language, first = fence[1], number + 1
        elif fence:
            yield str(language), first, lines[first:number]
            language = None


def steps(page: Path) -> list[Step]:
    """All commands of the page's dialogues, in order."""
    found: list[Step] = []
    pasted = -1
    for language, first, lines in blocks(page):
        if language == COMMANDS:
            found += _pasted(first, lines)
            pasted = first + len(lines)
        elif language == OUTPUT and first == pasted + 3:
            found[-1] = Step(found[-1].command, lines, first, first + len(lines))
    return found


def follow(
    page: Path,
    shell: Shell,
    before: Callable[[str], None] = lambda _: None,
    own: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Type what the page says, and compare what is printed with what the page shows.

    `before` is called with each command before it is typed. `own` has what a reader types in place
    of the page's examples: names and addresses of his own.
    """
    printed: list[tuple[Step, list[str]]] = []
    commands = "\n".join(step.command for step in steps(page))
    assert all(example in commands for example in own), f"{page}: no command has one of {list(own)}"
    try:
        for step in steps(page):
            before(step.command)
            told = shell.type(_of_reader(step.command, own))
            printed.append((step, plain(told.text)))
            _check(page, told, *printed[-1])
    finally:
        if WRITES:
            _write(page, printed)


def _of_reader(command: str, own: Mapping[str, str]) -> str:
    for example, word in own.items():
        command = command.replace(example, word)
    return command


def _check(page: Path, told: Told, step: Step, lines: Sequence[str]) -> None:
    place = f"{page.relative_to(ROOT)}, line {step.begin + 1}: $ {step.command}"
    fails = any(line.startswith("error: ") for line in lines)
    assert (told.code != 0) == fails, f"{place}\ncode {told.code}: {told.text}"
    assert WRITES or fits(step.shown, lines), f"{place}\n" + "\n".join(lines)


def plain(text: str) -> list[str]:
    """The lines of an output without the ones that only say that work goes on."""
    lines = [line.rstrip() for line in text.splitlines()]
    return [line for line in lines if not _HEARTBEAT.match(line)]


def fits(shown: Sequence[str], printed: Sequence[str]) -> bool:
    """Whether the lines are those of the page, apart from durations, ports and widths."""
    parts = [""]
    for line in shown:
        if line.strip() == ANY_LINES:
            parts.append("")
        else:
            parts[-1] += f"{_alike(line)}\n"
    pattern = r"(?:.*\n)*".join(map(re.escape, parts))
    return re.fullmatch(pattern, "".join(f"{_alike(line)}\n" for line in printed)) is not None


def _alike(line: str) -> str:
    fixed = _ADDRESS.sub("ADDRESS", _DURATION.sub("TIME", line))
    return _RUNS.sub(lambda found: found[0][0], fixed).strip()


def _pasted(first: int, lines: Sequence[str]) -> Iterator[Step]:
    """The commands of a block without output, each where the block ends."""
    end, at = first + len(lines), 0
    while at < len(lines):
        begin, document = at, _HERE_DOCUMENT.search(lines[at])
        while document and lines[at] != document[1]:
            at += 1
        at += 1
        yield Step("\n".join(lines[begin:at]), [], end, end)


def _write(page: Path, printed: Sequence[tuple[Step, list[str]]]) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    for step, output in reversed(printed):
        if ANY_LINES not in step.shown or not fits(step.shown, output):
            lines[step.begin : step.end] = output
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")

"""What is wrong with an expression in SQL, as far as its tokens show without Spark.

Only what no reader of SQL accepts is a fault: a quote or bracket that is not closed, and an
operator without something on both of its sides; and `::`, which fails a batch for one value that it
cannot convert, where `CAST` costs a row. Spark's own parser has the last word in a run.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

_TOKEN = re.compile(
    r"""(?P<blank>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`)
    |(?P<open>['"`])
    |(?P<other>[0-9][\w.]*|\w+|<=>|<=|>=|<>|!=|==|\|\||&&|::|->|=>|.)""",
    re.DOTALL | re.VERBOSE,
)
_CLOSERS = {")": "(", "]": "["}
_SIGNS = {"=", "==", "<>", "!=", "<", "<=", ">=", "<=>", "/", "%", "||", "&&"}
_WORDS = {"and", "or", "is", "in", "between"}
_MATCHERS = {"like", "ilike", "rlike", "regexp", "div"}
"""Operators that are names of functions as well."""
_BINARY = _SIGNS | _WORDS
_UNFINISHED = _BINARY | _MATCHERS | {">", "not", "-", "+", "*", "~", "!", ",", "."}
"""What an expression cannot end with; before a bracket `*` and `>` may stand: `count(*)`."""


class _Token(NamedTuple):
    text: str
    at: int

    @property
    def word(self) -> str:
        """The token in small letters."""
        return self.text.lower()


def find_sql_fault(text: str) -> str | None:
    """What keeps a text from being an expression in SQL, as a phrase; None if nothing is seen."""
    opened: list[_Token] = []
    before = _Token("", 0)
    for token in _split_tokens(text):
        if token.text in "'\"`" or token.text == ";":
            return f"{_name(token)} {'is not closed' if token.text != ';' else 'ends it'}"
        if token.text == "::":
            return f"{_name(token)} fails on what it cannot convert; write CAST(x AS type)"
        if token.text in ("(", "["):
            opened.append(token)
        elif token.text in _CLOSERS and (not opened or opened.pop().text != _CLOSERS[token.text]):
            return f"{_name(token)} closes nothing"
        if fault := _find_lonely(before, token):
            return fault
        before = token
    if opened:
        return f"{_name(opened[-1])} is not closed"
    if not before.text:
        return "nothing in it"
    return f"nothing follows {_name(before)}" if before.word in _UNFINISHED else None


def _split_tokens(text: str) -> Iterator[_Token]:
    """The tokens but for blanks and comments; a name after a point is no word of SQL."""
    before = ""
    for match in _TOKEN.finditer(text):
        if match.lastgroup != "blank":
            yield _Token(f"`{match[0]}" if before == "." else match[0], match.start() + 1)
            before = match[0]


def _find_lonely(before: _Token, token: _Token) -> str | None:
    """An operator that lacks what it works on, at the border of two tokens."""
    if token.word in _BINARY and before.word in _BINARY | {"", "(", "[", ","}:
        return f"nothing stands before {_name(token)}"
    if token.text in (")", "]", ",") and before.word in _BINARY | {"not"}:
        return f"nothing follows {_name(before)}"
    return None


def _name(token: _Token) -> str:
    return f"{token.text.lstrip('`') or '`'} (character {token.at})"

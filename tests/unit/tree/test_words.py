"""Pages, help texts and messages use the words of the glossary, and none of a dialect."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.tree.test_architecture import MODULES, named
from tests.unit.tree.test_markdown import PAGES, prose, text_of

INSTEAD = {
    r"heirs?|inherit(s|ed)?": "key change with an unavailable value",
    r"sightings?": "snapshot progress",
    r"unlike": "schema mismatch",
    r"(un)?sealed": "plan barrier",
    r"told|tells?": "says, shows, names, distinguishes",
    r"(?<!daily )(?<!the --)extracts?(?! and --)": "snapshot file, daily extract",
    r"holes?": "missing changes, data loss",
    r"what (still )?waits|bring in what came": "pending changes",
    r"ways? out": "remedies",
    r"bad nights?": "troubleshooting",
    r"prove[sdn]?|proof|provabl[ey]": "verify, show, search",
    r"whoever hears|asked for it": "recipient",
}
"""By expression: what is said in its place."""
BANNED = re.compile("|".join(rf"\b(?:{words})\b" for words in INSTEAD), re.IGNORECASE)
OF_THE_PAST = (
    "CHANGELOG.md",
    "docs/reference/version-0.3.md",
    "docs/reference/earlier-versions.md",
)
"""They quote names that older versions had."""
NO_PROSE = re.compile(r"`[^`]*`|\]\([^)]*\)|--extract|\b(SELECT|extract\().*", re.DOTALL)
STORED = "columns of extracts"
"""A key within a table's stored state."""

HAND_MADE = [page for page in PAGES if named(page) not in OF_THE_PAST]


def found_in(text: str) -> list[str]:
    return [match[0] for match in BANNED.finditer(NO_PROSE.sub("", text))]


@pytest.mark.parametrize("page", HAND_MADE, ids=named)
def test_a_page_uses_the_words_of_the_glossary(page: Path) -> None:
    """Results of benchmarks keep the names that they were measured under."""
    kept = re.findall(r"<!-- result \S+ -->(.*?)<!-- end -->", text_of(page), re.DOTALL)
    measured = {line for block in kept for line in block.splitlines()}
    lines = [line for line in prose(page) if line not in measured]
    assert [(word, line) for line in lines for word in found_in(line)] == []


def messages(module: Path) -> Iterator[str]:
    """Texts of several words that are no docstrings: messages, help, comments of columns."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield from (text for text in [node.value] if " " in text and text != STORED)


@pytest.mark.parametrize("module", MODULES, ids=named)
def test_a_message_uses_the_words_of_the_glossary(module: Path) -> None:
    assert [(word, text) for text in messages(module) for word in found_in(text)] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("status tells how late it is", ["tells"]),
        ("`run --extract DIR` reads daily extracts", []),
        ("an extract as the only source", ["extract"]),
        ("SELECT greatest(x) AS holes FROM t", []),
    ],
)
def test_a_banned_word_is_found_in_prose_only(text: str, words: list[str]) -> None:
    assert found_in(text) == words

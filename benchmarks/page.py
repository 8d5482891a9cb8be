"""The figures in `docs/benchmarks`: a table, a picture and a command for each kept result.

A page says where a result stands by two comments, `<!-- result apply -->` and `<!-- end -->`; what
is between them is written anew. So is the last column of the table in `index.md`: with which
version the figures of each page were measured.

`python -m benchmarks.page` writes all of it from the kept results, and measures nothing.
"""

import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.picture import compares, svg
from benchmarks.result import Line, Result, kept, table

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "benchmarks"
_BLOCK = re.compile(r"(<!-- result (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
_ROW = re.compile(r"^(\| \[[^|]*\]\((\S+\.md)\) \|[^|]*\|)[^|\n]*\|$", re.MULTILINE)
_MEASURED = re.compile(r"cdc-lakehouse\s+(\d+\.\d+\.\d+)")
_WIDTH = 150


def write() -> None:
    """Writes the pictures and the blocks of all pages anew.

    Raises:
        ValueError: a result has no place on any page.
    """
    results = {result.name: result for result in kept()}
    pages = {file: file.read_text() for file in sorted(FOLDER.glob("*.md"))}
    placed = {name for text in pages.values() for _, name, _ in _BLOCK.findall(text)}
    if homeless := sorted(results.keys() - placed):
        wanted = f"<!-- result {homeless[0]} -->"
        raise ValueError(f"no page in {FOLDER} has a place for {homeless}: add {wanted}")
    for old in FOLDER.glob("*.svg"):
        old.unlink()
    for name, result in results.items():
        if compares(result):
            (FOLDER / f"{name}.svg").write_text(svg(result))
    texts = {file.name: filled(text, results) for file, text in pages.items()}
    for file in pages:
        file.write_text(with_versions(texts[file.name], texts, current_version()))


def filled(text: str, results: Mapping[str, Result]) -> str:
    """The text of a page with the results in their places; places without a result stay."""

    def block(found: re.Match[str]) -> str:
        result = results.get(found[2])
        return f"{found[1]}{section(result)}{found[3]}" if result else found[0]

    return _BLOCK.sub(block, text)


def with_versions(text: str, pages: Mapping[str, str], current: str) -> str:
    """The text of the index: each row ends with the versions of the page that it leads to."""

    def row(found: re.Match[str]) -> str:
        return f"{found[1]} {measured_with(pages.get(found[2], ''), current)} |"

    return _ROW.sub(row, text)


def measured_with(text: str, current: str) -> str:
    """The versions that a page's figures were measured with; what is older is marked."""
    versions = sorted(set(_MEASURED.findall(text)), reverse=True)
    older = [version for version in versions if version != current]
    marked = [current] if current in versions else []
    marked += [f"**older**: {', '.join(older)}"] if older else []
    return "; ".join(marked) or "not measured"


def current_version() -> str:
    """The version of this checkout."""
    found = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    return found[1] if found else ""


def section(result: Result) -> str:
    """One result: what was measured, its figures, its picture, and how they were made."""
    made = "\n".join(textwrap.wrap(f"Measured on {result.made_on}.", _WIDTH))
    picture = f"![{result.subject}]({result.name}.svg)\n\n" if compares(result) else ""
    return (
        f"\n{result.question}: {result.subject}.\n\n{table(result.lines)}\n\n"
        f"{_parts(result)}{queries(result.lines)}{picture}"
        f"`{result.command}`\n\n{made}\n\n"
    )


def queries(lines: Sequence[Line]) -> str:
    """A list of the Spark queries per table run, of the lines that count them."""
    told = [
        f"- {line.name}: {', '.join(f'{count:.1f} {kind}' for kind, count in line.queries.items())}"
        for line in lines
        if line.queries
    ]
    return "\n".join(["Spark queries of silver per table run:", "", *told, "\n"]) if told else ""


def _parts(result: Result) -> str:
    """Where the first competitor's time went."""
    parts = result.lines[0].parts or {}
    told = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in parts.items())
    return f"{result.lines[0].name}: {told}.\n\n" if told else ""


if __name__ == "__main__":
    write()

"""`benchmarks/README.md`, made from the kept results: a table, a picture and a command for each."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.picture import svg
from benchmarks.result import KEPT, Line, Result, kept, table

FILE = Path(__file__).parent / "README.md"
HEAD = Path(__file__).parent / "head.md"


def write() -> None:
    """Writes the page and its pictures anew."""
    results = kept()
    for result in results:
        (KEPT / f"{result.name}.svg").write_text(svg(result))
    FILE.write_text("\n".join([HEAD.read_text(), *map(section, results)]))


def section(result: Result) -> str:
    """One question: its picture, its figures, and how they were made."""
    return (
        f"## {result.question}: {result.subject}\n\n"
        f"![{result.question}](results/{result.name}.svg)\n\n{table(result.lines)}\n\n"
        f"{_parts(result)}{queries(result.lines)}`{result.command}`  \n{result.made_on}\n"
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

"""One picture per question: a bar per competitor, as SVG that needs nothing else.

A bar is the mean, the thin line over it goes from the fastest round to the slowest. The colours
follow the light or dark mode of the reader.
"""

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from benchmarks.result import Line, Result

WIDTH, EDGE, TOP, ROW, BAR = 800, 12, 82, 32, 20
LETTER = 8.0
"""Pixels that a letter of 13 pixels takes at most, on average over a label."""
OURS = ("cdc-lakehouse", "auto_cdc")
CONTROL = "plain"
"""The table without this project, beside which its own are read."""
ONCE_MORE = (", maintained", ", again")
STYLE = """
.card{fill:#fff} .ink{fill:#1c2127} .grey{fill:#59636e} .wrong{fill:#b3341d}
.ours{fill:#1f6f5c} .others{fill:#9aa5b1} .range{stroke:#1c2127;stroke-width:1.5}
@media (prefers-color-scheme: dark){
.card{fill:#1b1f24} .ink{fill:#e6e9ec} .grey{fill:#a3adb8} .wrong{fill:#ff9478}
.ours{fill:#45b394} .others{fill:#626d79} .range{stroke:#e6e9ec}}
"""


def drawn(result: Result) -> list[Line]:
    """The lines with a bar: competitors, each once.

    A MERGE after the last round is no competitor, and what is read once more after `maintain`
    stands in the table below the picture.
    """
    parts = tuple(f"{name}: " for name in OURS)
    lines = [line for line in result.lines if not line.name.startswith(parts)]
    return [line for line in lines if not line.name.endswith(ONCE_MORE)]


def is_ours(line: Line, result: Result) -> bool:
    """Whether the line is this project's own work."""
    if any(each.name.startswith(OURS) for each in result.lines):
        return line.name.startswith(OURS)
    return not _variant(line.name).startswith(CONTROL)


def compares(result: Result) -> bool:
    """Whether a picture says anything: there is a competitor, or three cases at least."""
    lines = drawn(result)
    return len(lines) > 2 or any(not is_ours(line, result) for line in lines)


def svg(result: Result) -> str:
    """The picture; wrong rows are named in red beside the time."""
    rows = [*_rows(drawn(result))]
    height = TOP + len(rows) * ROW
    rounds = max(len(line.seconds) for line in drawn(result))
    measured = (
        f"mean of {rounds} rounds; thin line: fastest to slowest" if rounds > 1 else "1 round"
    )
    texts = [
        _text(EDGE, 25, result.question, "ink", 15),
        _text(EDGE, 45, result.subject, "grey"),
        _text(EDGE, 63, f"seconds, {measured}; {version(result)}", "grey"),
    ]
    lines = [row for row in rows if isinstance(row, Line)]
    places = _Places(lines, grouped=len(lines) < len(rows))
    for at, row in enumerate(rows):
        top = TOP + at * ROW
        if isinstance(row, Line):
            texts.append(_bar(row, top, places, "ours" if is_ours(row, result) else "others"))
        else:
            texts.append(_text(EDGE, top + BAR * 0.7, row, "ink"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
        f' font-family="system-ui, sans-serif"><title>{escape(result.question)}</title>'
        f'<style>{STYLE}</style><rect class="card" width="{WIDTH}" height="{height}" rx="6"/>\n'
        + "\n".join(texts)
        + "\n</svg>\n"
    )


def version(result: Result) -> str:
    """The version of this project that was measured, as `cdc-lakehouse 0.3.0`."""
    parts = [part for part in result.made_on.split(", ") if part.startswith("cdc-lakehouse ")]
    return parts[0] if parts else "version not recorded"


class _Places:
    """Where names end, where figures begin, and how long a second is."""

    def __init__(self, lines: Sequence[Line], grouped: bool) -> None:
        longest = max(len(_variant(line.name) if grouped else line.name) for line in lines)
        self.grouped = grouped
        self.indent = 2 * EDGE if grouped else EDGE
        self.left = self.indent + longest * LETTER + EDGE
        figures = max(sum(len(text) for text in _figures(line).values()) for line in lines)
        room = WIDTH - self.left - figures * LETTER - 4 * EDGE
        self.second = room / max(max(line.seconds) for line in lines)


def _rows(lines: Sequence[Line]) -> Iterator[str | Line]:
    """The lines; where several share what stands before a colon, below it as a heading."""
    groups = [line.name.partition(": ")[0] for line in lines]
    if len(set(groups)) == len(lines):
        yield from lines
        return
    for group in dict.fromkeys(groups):
        yield group
        yield from (line for line, its in zip(lines, groups, strict=True) if its == group)


def _bar(line: Line, top: int, places: _Places, kind: str) -> str:
    left, second = places.left, places.second
    fastest, slowest = min(line.seconds), max(line.seconds)
    middle = top + BAR / 2
    spread = (
        f'<line class="range" x1="{left + fastest * second:.1f}" x2="{left + slowest * second:.1f}"'
        f' y1="{middle}" y2="{middle}"/>'
        if len(line.seconds) > 1
        else ""
    )
    figures = "".join(
        f'<tspan class="{style}" dx="{EDGE if at else 0}">{escape(text)}</tspan>'
        for at, (style, text) in enumerate(_figures(line).items())
        if text
    )
    name = _variant(line.name) if places.grouped else line.name
    base = top + BAR * 0.7
    return (
        f'<rect class="{kind}" x="{left:.1f}" y="{top}" height="{BAR}" rx="3"'
        f' width="{max(2.0, line.mean * second):.1f}"/>{spread}'
        f"{_text(places.indent, base, name, 'ink')}"
        f'<text x="{left + slowest * second + EDGE:.1f}" y="{base:.1f}" font-size="13">{figures}'
        "</text>"
    )


def _figures(line: Line) -> dict[str, str]:
    """What stands beside a bar, by its style: mean, range, wrong rows."""
    several = len(line.seconds) > 1
    return {
        "ink": f"{line.mean:.2f} s",
        "grey": f"{min(line.seconds):.2f} to {max(line.seconds):.2f}" if several else "",
        "wrong": f"{line.wrong:,} wrong rows" if line.wrong else "",
    }


def _variant(name: str) -> str:
    """What stands behind a colon, or all of the name."""
    return name.rpartition(": ")[2]


def _text(x: float, y: float, text: str, style: str, size: int = 13) -> str:
    place = f'class="{style}" x="{x:.1f}" y="{y:.1f}" font-size="{size}"'
    return f"<text {place}>{escape(text)}</text>"

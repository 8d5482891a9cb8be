"""One picture per question: a bar per competitor, as SVG that needs nothing else."""

from xml.sax.saxutils import escape

from benchmarks.result import Line, Result

WIDTH, NAMES, BAR, GAP, TOP = 760, 210, 22, 12, 58
OURS, OTHERS, WRONG, INK, GREY = "#1f6f5c", "#9aa5b1", "#c2452d", "#1c2127", "#59636e"


def svg(result: Result) -> str:
    """The picture: length is the median, what is wrong is said in red beside it."""
    longest = max(line.median for line in result.lines)
    height = TOP + len(result.lines) * (BAR + GAP) + GAP
    bars = "".join(_bar(line, at, longest) for at, line in enumerate(result.lines))
    title = _text(12, 24, result.question, INK, 15)
    subject = _text(12, 43, f"{result.subject}; seconds, median", GREY)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
        f' font-family="system-ui, sans-serif">'
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>{title}{subject}{bars}</svg>\n'
    )


def _bar(line: Line, at: int, longest: float) -> str:
    top, room = TOP + at * (BAR + GAP), WIDTH - NAMES - 190
    length = max(2.0, room * line.median / longest)
    middle = top + BAR * 0.7
    figure = _text(NAMES + length + 8, middle, f"{line.median:.2f} s", INK)
    wrong = f"{line.wrong:,} wrong rows" if line.wrong else ""
    colour = OURS if at == 0 else OTHERS
    return (
        f'<rect x="{NAMES}" y="{top}" width="{length:.1f}" height="{BAR}" rx="3" fill="{colour}"/>'
        f"{_text(12, middle, line.name, INK)}{figure}"
        f"{_text(NAMES + length + 66, middle, wrong, WRONG)}"
    )


def _text(x: float, y: float, text: str, colour: str, size: int = 13) -> str:
    if not text:
        return ""
    place = f'x="{x:.1f}" y="{y:.1f}" fill="{colour}" font-size="{size}"'
    return f"<text {place}>{escape(text)}</text>"

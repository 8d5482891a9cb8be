"""Every page is short, leads nowhere wrong, and reads the same on a forge and on the site."""

import re
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDERS = ("docs", "examples", "benchmarks")
PAGES = sorted(
    [*ROOT.glob("*.md"), *(page for name in FOLDERS for page in (ROOT / name).rglob("*.md"))]
)
GENERATED = "<!-- Generated"
MOST_CHARACTERS, WIDEST_LINE = 12_000, 160
LINK = re.compile(r"(?<!`)\[[^\]]*\]\(([^)\s]+)\)")
ITEM = re.compile(r"([-*]|\d+\.) ")
NARROW_NESTED_ITEM = re.compile(r" {1,3}([-*]|\d+\.) ")
ONLY_ON_THE_SITE = re.compile(r"(!!!|\?\?\?|===) |\{[:%]|::: ")

SITE = [page for page in PAGES if page.is_relative_to(ROOT / "docs")]


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


each_page = pytest.mark.parametrize("page", PAGES, ids=named)


@cache
def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def prose(page: Path) -> list[str]:
    """The page's lines; those of code blocks are empty."""
    lines, fence = [], False
    for line in text_of(page).splitlines():
        marks = line.lstrip().startswith("```")
        fence ^= marks
        lines.append("" if fence or marks else line)
    return lines


def anchors(page: Path) -> set[str]:
    """The names of the page's headings, as a forge and the site make them."""
    headings = [line.lstrip("#").strip() for line in prose(page) if line.startswith("#")]
    plain = [re.sub(r"[^\w\s-]", "", heading.lower()) for heading in headings]
    return {re.sub(r"\s", "-", heading) for heading in plain}


@each_page
def test_a_page_is_short(page: Path) -> None:
    if text_of(page).startswith(GENERATED):
        return
    wide = [line for line in text_of(page).splitlines() if len(line) > WIDEST_LINE]
    assert len(text_of(page)) <= MOST_CHARACTERS
    assert wide == []


@each_page
def test_a_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    lost = []
    for link in LINK.findall("\n".join(prose(page))):
        path, _, anchor = link.partition("#")
        there = page.parent / path if path else page
        known = link.startswith(("http://", "https://", "mailto:")) or there.exists()
        if not known or (anchor and there.suffix == ".md" and anchor not in anchors(there)):
            lost.append(link)
    assert lost == []


@pytest.mark.parametrize("page", SITE, ids=named)
def test_a_page_reads_the_same_on_a_forge_and_on_the_site(page: Path) -> None:
    """The site needs an empty line before a list, and four spaces before a list in a list."""
    lines = prose(page)
    unseparated = [
        line
        for before, line in pairwise(lines)
        if ITEM.match(line) and before and not before.startswith(" ") and not ITEM.match(before)
    ]
    assert unseparated + [line for line in lines if NARROW_NESTED_ITEM.match(line)] == []
    assert [line for line in lines if ONLY_ON_THE_SITE.match(line)] == []
    assert "```mermaid" not in text_of(page), "the site would fetch the script that draws it"


def test_an_overtaken_decision_says_so_on_its_page_and_in_the_index() -> None:
    folder = ROOT / "docs" / "decisions"
    index = dict(re.findall(r"^- \[(\d{3}): .*?\]\(\S+\)(.*)$", text_of(folder / "index.md"), re.M))
    pages = {page.name[:3]: text_of(page) for page in folder.glob("0*.md")}
    assert index.keys() == pages.keys()
    for number, text in pages.items():
        note = re.search(r"^# .*\n\n> Overtaken (in part )?by (.*) \(.*\)\.\n", text)
        assert bool(note) == ("vertaken" in text), number
        later = " and ".join(re.findall(r"\[(\d{3})\]", note[2])) if note else ""
        assert index[number] == (f" (overtaken {note[1] or ''}by {later})" if note else "")

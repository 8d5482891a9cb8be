"""What MkDocs does besides: the navigation, and links to files outside of `docs`."""

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

SECTIONS = {
    "getting-started": "Getting started",
    "concepts": "Concepts",
    "guides": "Guides",
    "reference": "Reference",
    "decisions": "Decisions",
    "benchmarks": "Benchmarks",
}
FIRST = ("index.md", "limits.md", "comparison.md")
_PAGE = re.compile(r"\]\(([^()#:/\s]+\.md)")
_GROUP = re.compile(r"^([^\n#|-][^\n]*):\n\n(?=- \[)", re.MULTILINE)
_OUTSIDE = re.compile(r"\]\(((?:\.\./)+[^()\s]*)\)")


def on_config(config: MkDocsConfig) -> None:
    """Each section has the pages that its `index.md` links to, in that order and those groups."""
    docs = Path(config.docs_dir)
    config.nav = [*FIRST, *({title: _pages(docs / name)} for name, title in SECTIONS.items())]


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links that leave `docs` lead to the repository."""
    folder = PurePosixPath("docs", page.file.src_uri).parent

    def link(found: re.Match[str]) -> str:
        path = normpath(folder / found[1])
        if path.startswith("docs/"):
            return found[0]
        return f"]({config.extra['repository']}/blob/main/{path})"

    return _OUTSIDE.sub(link, markdown)


def _pages(section: Path) -> list[str | dict[str, list[str]]]:
    """The pages, and below a line `Group:` in front of a list those of that list as one entry."""
    pages: list[str | dict[str, list[str]]] = [f"{section.name}/index.md"]
    seen = {"index.md"}
    text = (section / "index.md").read_text(encoding="utf-8")
    before, *rest = _GROUP.split(text)
    for title, part in [("", before), *zip(rest[::2], rest[1::2], strict=True)]:
        names = [name for name in dict.fromkeys(_PAGE.findall(part)) if name not in seen]
        seen.update(names)
        linked = [f"{section.name}/{name}" for name in names]
        pages += [{title: linked}] if title and linked else linked
    return pages

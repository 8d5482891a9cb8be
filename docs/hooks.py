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
_PAGE = re.compile(r"\]\(([^()#:/\s]+\.md)")
_OUTSIDE = re.compile(r"\]\(((?:\.\./)+[^()\s]*)\)")


def on_config(config: MkDocsConfig) -> None:
    """Each section has the pages that its `index.md` links to, in that order."""
    docs = Path(config.docs_dir)
    config.nav = ["index.md", *({title: _pages(docs / name)} for name, title in SECTIONS.items())]


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links that leave `docs` lead to the repository."""
    folder = PurePosixPath("docs", page.file.src_uri).parent

    def link(found: re.Match[str]) -> str:
        path = normpath(folder / found[1])
        if path.startswith("docs/"):
            return found[0]
        return f"]({config.extra['repository']}/blob/main/{path})"

    return _OUTSIDE.sub(link, markdown)


def _pages(section: Path) -> list[str]:
    linked = _PAGE.findall((section / "index.md").read_text(encoding="utf-8"))
    return [f"{section.name}/{name}" for name in dict.fromkeys(["index.md", *linked])]

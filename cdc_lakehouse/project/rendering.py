"""The files of a project, rendered from `template/`.

The folder is a template of Databricks' CLI: files that end in `.tmpl` are Go templates, all others
are copied. The few kinds of actions in them are translated for Jinja, so that one source serves
both.
"""

import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from lakehouse.config.unpacking import table_schema

TEMPLATE = Path(__file__).with_name("template")
SUFFIX, PREAMBLE = ".tmpl", "__preamble"
EXAMPLE = ("conf/tables/*", "tests/landing/*", "tests/expected/*")
"""Files of the example table."""
Mode = Literal["files", "ticks", "continuous"]
MODES: tuple[Mode, ...] = get_args(Mode)

_ACTION = re.compile(r"\{\{(-?)\s*(.*?)\s*(-?)\}\}")
_FIELD = re.compile(r"\.(\w+)")
_CONDITION = re.compile(r'if (?:(eq|ne) )?\.(\w+)(?: ("\w+"))?')
_SKIP = re.compile(r'skip ("[^"]+")')


class ProjectAnswers(NamedTuple):
    """What a project was made with.

    Attributes:
        name: the name of the bundle, and of what it deploys.
        version: the version of this program.
        catalog: what `_dev` and `_prod` are appended to.
        mode: what keeps the tables up to date.
        wheel_volume: the folder of the wheels in a volume, for a workspace that reaches no index.
        wheel: the file in `wheels` that the jobs install; empty where they install by name.
        offline: not empty where `wheels` has all that the jobs need.
    """

    name: str
    version: str
    catalog: str = "lakehouse"
    mode: Mode = "files"
    wheel_volume: str = ""
    wheel: str = ""
    offline: str = ""


def render_project(answers: ProjectAnswers) -> dict[str, str]:
    """Every file of a project, by its path below the project's folder."""
    given = answers._asdict()
    skipped: list[str] = []
    preamble = TEMPLATE / f"{PREAMBLE}{SUFFIX}"
    _render_text(preamble.read_text(encoding="utf-8"), given, skipped.append)
    texts = {"conf/table.schema.json": table_schema()}
    for file in sorted(file for file in TEMPLATE.rglob("*") if file.is_file()):
        path = file.relative_to(TEMPLATE).as_posix()
        name = path.removesuffix(SUFFIX)
        if "__pycache__" not in path and not any(fnmatch(name, each) for each in skipped):
            text = file.read_text(encoding="utf-8")
            texts[name] = _render_text(text, given, skipped.append) if name != path else text
    return texts


def is_example(path: str) -> bool:
    """Whether a file of a project belongs to the example table."""
    return any(fnmatch(path, pattern) for pattern in EXAMPLE)


def _render_text(text: str, given: Mapping[str, str], skip: Callable[[str], None]) -> str:
    def skipping(pattern: str) -> str:
        skip(pattern)
        return ""

    from jinja2 import Environment, StrictUndefined

    jinja = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)
    return jinja.from_string(_ACTION.sub(_translate, text)).render(given, skip=skipping)


def _translate(action: re.Match[str]) -> str:
    """An action of a Go template as Jinja writes it.

    Raises:
        ValueError: the template uses more of Go's language than is translated here.
    """
    left, body, right = action.groups()
    if field := _FIELD.fullmatch(body):
        return f"{{{{{left} {field[1]} {right}}}}}"
    if skip := _SKIP.fullmatch(body):
        return f"{{{{{left} skip({skip[1]}) {right}}}}}"
    if condition := _CONDITION.fullmatch(body):
        comparison = {"eq": "==", "ne": "!="}.get(condition[1] or "", "")
        body = f"if {condition[2]} {comparison} {condition[3] or ''}"
    elif body not in ("else", "end"):
        raise ValueError(f"found {action[0]}, expected a field, if, else, end or skip")
    return f"{{%{left} {'endif' if body == 'end' else body} {right}%}}"

"""Loads the configuration folder: `targets/NAME.yml` and `tables/*.yml`, with all checks."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from lakehouse.config import shared
from lakehouse.config.records.many_tables import FindTopics, Waiting, expand
from lakehouse.config.shared import Document
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.config.unpacking import Check, find_nearest, unpack_table, unpack_target
from lakehouse.errors import ConfigurationError, ManyConfigurationErrors

RESERVED = ("pipeline_runs", "pipeline_status", "pipeline_quality", "pipeline_reads")
SUFFIXES = (
    "_history",
    "_changes",
    "_pending",
    "_dead_letters",
    "_folded",
    "_sensitive",
    "_published",
)
COMMAND_LINE = "command line"
# Keys of a target for places outside of its root.
OUTSIDE = ("catalog", "schemas", "landing", "clean_landing", "checkpoints")


def load_target(
    conf: Path, name: str, root: str | None = None, settings: Sequence[str] = ()
) -> Target:
    """The target NAME; with `root` it writes everything below that folder instead.

    Each setting is KEY=VALUE with a dotted key, and overrides the file.

    Raises:
        ConfigurationError: there is no such file, or it cannot be read.
        ManyConfigurationErrors: the file has errors.
    """
    file = find_yaml(conf / "targets", name)
    if not file.is_file():
        raise _unknown_target(conf, name)
    document = read_yaml(file)
    if isinstance(document, dict):
        document = with_settings(document, settings)
        document = document if root is None else with_root(document, root)
    target = unpack_target(document, str(file), name)
    shared.check_defaults(target.defaults, str(file))
    return target


def find_yaml(folder: Path, name: str) -> Path:
    """The file NAME.yml of a folder, or NAME.yaml where that is there.

    Raises:
        ConfigurationError: both are there.
    """
    file, other = folder / f"{name}.yml", folder / f"{name}.yaml"
    if not other.is_file():
        return file
    if file.is_file():
        action = f"keep one of them, remove {file.name} or {other.name}"
        raise ConfigurationError(str(folder), name, f"{file.name} and {other.name}", "one", action)
    return other


def with_settings(document: Document, settings: Sequence[str]) -> Document:
    """The document with every KEY=VALUE set; values are YAML."""
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not (key and equals):
            expected = "KEY=VALUE, such as schemas.gold=dev_gold"
            raise ConfigurationError(COMMAND_LINE, "--set", setting, expected, "correct it")
        document = _set_key(document, key.split("."), yaml.safe_load(value))
    return document


def with_root(document: Document, root: str) -> Document:
    """The document with another root, without places outside of it and without Databricks."""
    kept = {key: document[key] for key in document if key not in OUTSIDE}
    here = {"kind": "local"} if document.get("kind") == "databricks" else {}
    return kept | here | {"root": root}


def load_tables(
    conf: Path,
    only: Sequence[str] = (),
    checks: Sequence[Check] = (),
    of_target: Mapping[str, Any] | None = None,
    find_topics: FindTopics | None = None,
    waiting: list[Waiting] | None = None,
) -> list[Table]:
    """All tables sorted by name, or those named in `only`; every file is checked.

    `checks` are additional checks of a table. `of_target` are the target's defaults, which override
    those of `defaults.yml`. `find_topics` finds the tables of a file that has many, of which
    `waiting` gets those without a key.

    Raises:
        ConfigurationError: no tables, or a name in `only` that no file describes.
        ManyConfigurationErrors: the errors of all files.
    """
    files = sorted([*(conf / "tables").glob("*.yml"), *(conf / "tables").glob("*.yaml")])
    if not files:
        expected = "at least one table in tables/*.yml"
        action = "write one: `lakehouse init --from FILE`, or name another folder with --conf"
        raise ConfigurationError(str(conf), "tables/", "no file", expected, action)
    common = find_yaml(conf, "defaults")
    given = shared.check_defaults(read_yaml(common), str(common)) if common.is_file() else {}
    defaults = shared.merge(of_target or {}, given)
    lists = sorted((conf / "rules").glob("*.y*ml"))
    rules = {file.stem: shared.check_rules(read_yaml(file), str(file)) for file in lists}

    def complete(document: object, file: str) -> object:
        if not isinstance(document, dict):
            return document
        return shared.with_rules(shared.with_defaults(document, defaults), file, rules)

    find = find_topics or (lambda *_: [])
    documents = _read_all(files, find, [] if waiting is None else waiting)
    tables = _load_all(documents, checks, complete)
    return select_tables(sorted(tables, key=lambda table: table.table), only)


def select_tables(tables: Sequence[Table], only: Sequence[str]) -> list[Table]:
    """The tables named in `only`, in the order of `tables`; all if `only` is empty."""
    names = [table.table for table in tables]
    for name in only:
        if name not in names:
            meant = find_nearest(name, names)
            action = f"did you mean {meant}?" if meant else "see `lakehouse validate`"
            expected = f"one of {', '.join(names)}"
            raise ConfigurationError(COMMAND_LINE, "--table", name, expected, action)
    return [table for table in tables if not only or table.table in only]


def _set_key(document: Document, place: Sequence[str], value: object) -> Document:
    key, *below = place
    inner = document.get(key)
    inside = inner if isinstance(inner, dict) else {}
    return document | {key: _set_key(inside, below, value) if below else value}


class _Written(NamedTuple):
    """A table's document and its file, or the errors of the file."""

    file: Path
    document: object
    errors: Sequence[ConfigurationError] = ()

    @property
    def name(self) -> str:
        """The table's name; without one that of the file."""
        document = self.document if isinstance(self.document, dict) else {}
        return str(document.get("table", self.file.stem))


def _read_all(
    files: Sequence[Path], find_topics: FindTopics, waiting: list[Waiting]
) -> list[_Written]:
    """The documents of all files; of a table that a pattern finds, its own file over that."""
    single: list[_Written] = []
    by_pattern: dict[str, _Written] = {}
    waits: dict[str, Waiting] = {}
    finds = False
    for file in files:
        try:
            document = read_yaml(file)
            if not isinstance(document, dict) or "tables" not in document:
                single.append(_Written(file, document))
                continue
            finds = True
            several, keyless = expand(document, str(file), find_topics)
            by_pattern |= {name: _Written(file, each) for name, each in several.items()}
            waits |= {each.table: each for each in keyless}
        except ConfigurationError as error:
            single.append(_Written(file, None, [error]))
        except ManyConfigurationErrors as several_errors:
            single.append(_Written(file, None, several_errors.errors))
    kept = [*_put_over(by_pattern, single, waits)] if finds else single
    waiting.extend(waits.values())
    every = [*kept, *by_pattern.values()]
    return [one for one in every if one.errors or one.name not in waits]


def _put_over(
    by_pattern: dict[str, _Written], single: Sequence[_Written], waits: dict[str, Waiting]
) -> Iterator[_Written]:
    """The files of one table, over what a pattern says of it; a table may wait for its topic."""
    merged = set[str]()
    for file, document, errors in single:
        name = _Written(file, document).name
        if errors or not isinstance(document, dict):
            yield _Written(file, document, errors)
        elif name in by_pattern:
            given = by_pattern.pop(name).document
            merged.add(name)
            if "keys" in document:
                waits.pop(name, None)
            yield _Written(file, shared.merge(document, given if isinstance(given, dict) else {}))
        elif name in merged or {"source", "sources"} & document.keys():
            yield _Written(file, document)
        else:
            waits[name] = Waiting(name, None)


def _load_all(
    documents: Sequence[_Written],
    checks: Sequence[Check],
    complete: Callable[[object, str], object],
) -> list[Table]:
    tables: list[tuple[Path, Table]] = []
    errors: list[ConfigurationError] = []
    for file, document, given in documents:
        errors.extend(given)
        try:
            if not given:
                completed = complete(document, str(file))
                tables.append((file, unpack_table(completed, str(file), checks)))
        except ConfigurationError as error:
            errors.append(error)
        except ManyConfigurationErrors as several:
            errors.extend(several.errors)
    errors.extend(_name_clashes(tables))
    if errors:
        raise ManyConfigurationErrors(errors)
    return [table for _, table in tables]


def _name_clashes(tables: Sequence[tuple[Path, Table]]) -> Iterator[ConfigurationError]:
    """Errors for names that two tables share, or that the lakehouse itself uses."""
    counts = Counter(table.table.lower() for _, table in tables)
    beside = {name + suffix for name in counts for suffix in SUFFIXES}
    for file, table in tables:
        name = table.table.lower()
        if counts[name] > 1:
            yield _name_clash(file, table.table, "a name that no other file has")
        elif name in beside or name in RESERVED or name.startswith("feed_"):
            yield _name_clash(file, table.table, "a name that the lakehouse does not use itself")


def _name_clash(file: Path, name: str, expected: str) -> ConfigurationError:
    return ConfigurationError(str(file), "table", name, expected, "rename the table")


def _unknown_target(conf: Path, name: str) -> ConfigurationError:
    names = sorted(file.stem for file in (conf / "targets").glob("*.y*ml"))
    if not names:
        expected = "a folder with targets/NAME.yml and tables/"
        action = "go to the project's folder, or make a project here: `lakehouse init`"
        return ConfigurationError(COMMAND_LINE, "--conf", str(conf), expected, action)
    meant = find_nearest(name, names)
    action = f"did you mean {meant}?" if meant else "name one of them"
    return ConfigurationError(COMMAND_LINE, "--target", name, f"one of {', '.join(names)}", action)


class _UniqueKeys(yaml.SafeLoader):
    """SafeLoader that refuses a mapping with the same key twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """The mapping; raises a MarkedYAMLError for a key that is there twice."""
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag != "tag:yaml.org,2002:merge" and key.value in seen:
                problem = f"the key {key.value} a second time"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> object:
    """The YAML document of a file.

    Raises:
        ConfigurationError: the file cannot be read or is not YAML; its key is the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
        return yaml.load(text, Loader=_UniqueKeys)
    except yaml.MarkedYAMLError as failure:
        mark = failure.problem_mark
        line = f"line {mark.line + 1}" if mark else "(file)"
        problem = str(failure.problem).removeprefix("found ")
        raise ConfigurationError(str(path), line, problem, "YAML", "correct the line") from failure
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as failure:
        expected, action = "a readable file of UTF-8 text", "mend or remove the file"
        raise ConfigurationError(str(path), "(file)", str(failure), expected, action) from failure

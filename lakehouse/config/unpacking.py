"""From what a YAML file says to a model: every problem of the file, named for a person."""

import difflib
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from lakehouse.config import target as targets
from lakehouse.config.table import EXPECTATION_TYPE, IDENTIFIER, FileFormat, Table
from lakehouse.config.table_rules import contradictions
from lakehouse.config.target import MEMORY, WEBHOOK, Target
from lakehouse.errors import ConfigurationError, ManyConfigurationErrors, Problem

Place: TypeAlias = tuple[str | int, ...]
Schema: TypeAlias = dict[str, Any]
Model = TypeVar("Model", bound=BaseModel)
Described: TypeAlias = tuple[str, str, str]
Check: TypeAlias = Callable[[Table], Sequence[str]]
Describe: TypeAlias = Callable[[type[BaseModel], Place, ErrorDetails], Described]


def unpack_table(document: object, file: str, checks: Sequence[Check] = ()) -> Table:
    """The table a document describes.

    A check gives lines such as `expectations[0].column: found 3, expected a column`.

    Raises:
        ManyConfigurationErrors: everything that is wrong with it.
    """
    table = unpack(Table, document, file)
    found = [_from_line(line) for check in checks for line in check(table)]
    _refuse(file, [*contradictions(table), *found])
    return table


def unpack_target(document: object, file: str, name: str) -> Target:
    """The target a document describes; its name is the file's.

    Raises:
        ManyConfigurationErrors: everything that is wrong with it.
    """
    named = {"name": name, **document} if isinstance(document, dict) else document
    target = unpack(Target, named, file)
    _refuse(file, targets.contradictions(target))
    return target


def unpack(model: type[Model], document: object, file: str) -> Model:
    """The document as a model of this kind.

    Raises:
        ManyConfigurationErrors: everything that is wrong with it.
    """
    if not isinstance(document, dict):
        found = "an empty file" if document is None else shown(document)
        raise ManyConfigurationErrors(
            [ConfigurationError(file, "(file)", found, "a mapping of keys", "write `key: value`")]
        )
    try:
        return model.model_validate(document)
    except ValidationError as failure:
        problems = _problems(model, document, failure.errors(include_url=False))
    raise _together(file, problems)


def refuse_lines(file: str, lines: Iterable[str]) -> None:
    """Raise what checks have found, if anything."""
    _refuse(file, map(_from_line, lines))


def nearest(word: str, words: Iterable[str]) -> str | None:
    """The word that was probably meant."""
    return next(iter(difflib.get_close_matches(word, list(words), n=1, cutoff=0.6)), None)


def _from_line(line: str) -> Problem:
    key, _, rest = line.partition(": ")
    found, _, expected = rest.removeprefix("found ").partition(", ")
    return Problem(key, found, expected.removeprefix("expected "), "correct it")


def _refuse(file: str, problems: Iterable[Problem]) -> None:
    listed = list(problems)
    if listed:
        raise _together(file, listed)


def _together(file: str, problems: Iterable[Problem]) -> ManyConfigurationErrors:
    return ManyConfigurationErrors([ConfigurationError(file, *problem) for problem in problems])


def _problems(
    model: type[BaseModel], document: object, errors: Sequence[ErrorDetails]
) -> list[Problem]:
    """One problem per place: the branches of a union are told as alternatives."""
    merged: dict[str, Problem] = {}
    for error in errors:
        place = _real(document, error["loc"], error["type"])
        problem = _problem(model, place, error)
        known = merged.get(problem.key)
        if known and known.expected != problem.expected:
            problem = known._replace(expected=f"{known.expected}, or {problem.expected}")
        merged[problem.key] = problem
    return list(merged.values())


def _real(document: object, location: Place, kind: str) -> Place:
    """The location without pydantic's own parts (names of union branches)."""
    kept: list[str | int] = []
    for part in location:
        match document, part:
            case (dict(), _) if part in document:
                document = document[part]
            case list(), int():
                document = document[part]
            case _ if kind != "missing" or part != location[-1]:
                continue
        kept.append(part)
    return tuple(kept)


def _problem(model: type[BaseModel], place: Place, error: ErrorDetails) -> Problem:
    key = _dotted(place)
    return Problem(key, *_KINDS.get(error["type"], _wrong_value)(model, place, error))


def _dotted(place: Place) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return text.removeprefix(".")


def _missing(model: type[BaseModel], place: Place, error: ErrorDetails) -> Described:
    return "nothing", f"the key {place[-1]}", f"add {place[-1]}"


def _unknown_key(model: type[BaseModel], place: Place, error: ErrorDetails) -> Described:
    known, written = keys_at(model.model_json_schema(), place[:-1]), str(place[-1])
    other = _KEYS_OF_OTHERS.get(written.lower())
    meant = other if other in known else nearest(written, known)
    action = f"did you mean {meant}?" if meant else "remove it"
    action = _NEEDLESS.get(written, action)
    return f"the unknown key {written}", f"one of {', '.join(known)}", action


def _wrong_choice(model: type[BaseModel], place: Place, error: ErrorDetails) -> Described:
    expected = str(error["ctx"]["expected"])
    meant = nearest(
        str(error["input"]), expected.replace("'", "").replace(" or ", ", ").split(", ")
    )
    action = f"did you mean {meant}?" if meant else "choose one of them"
    if place[-1:] == ("format",) and error["input"] in get_args(FileFormat):
        action = f"write format: rows and file_format: {error['input']}, if each line is a row"
    return shown(error["input"]), expected, action


def _wrong_value(model: type[BaseModel], place: Place, error: ErrorDetails) -> Described:
    expected = str(error["msg"]).removeprefix("Value error, ")
    return shown(error["input"]), expected.replace("Input should be", "").strip(), "correct it"


def shown(value: object) -> str:
    """A value from YAML as a person would recognise it, shortened."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _wrong_text(model: type[BaseModel], place: Place, error: ErrorDetails) -> Described:
    return shown(error["input"]), _PATTERNS[str(error["ctx"]["pattern"])], "correct it"


def _no_mapping(model: type[BaseModel], place: Place, error: ErrorDetails) -> Described:
    return shown(error["input"]), "a mapping", "write `key: value`, a line each"


def _no_text(model: type[BaseModel], place: Place, error: ErrorDetails) -> Described:
    value = shown(error["input"])
    plain = not isinstance(error["input"], dict | list)
    return value, "a text", f"write '{value}', in quotes" if plain else "correct it"


def _no_list(model: type[BaseModel], place: Place, error: ErrorDetails) -> Described:
    value = shown(error["input"])
    return value, "a list", f"write a list, such as [{value.strip(chr(34))}]"


_PATTERNS = {
    EXPECTATION_TYPE: "a name of Great Expectations, expect_…",
    IDENTIFIER: "a letter, then letters, digits and _",
    MEMORY: "megabytes or gigabytes, as 512m or 4g",
    WEBHOOK: "https://…, or env:NAME for a variable that holds the URL",
}
_KEYS_OF_OTHERS = {
    **dict.fromkeys(("delimiter", "separator", "seperator"), "sep"),
    **dict.fromkeys(("primary_key", "primary_keys"), "keys"),
    **dict.fromkeys(("folder", "directory"), "path"),
    **dict.fromkeys(("scd_type", "history"), "stored_as_scd_type"),
    "brokers": "bootstrap_servers",
}
"""Keys as other programs call them, and as they are called here."""
_NEEDLESS = {
    "interval_handling_mode": "remove it: an interval is what its records have, microseconds"
    " (declare bigint) or text in ISO 8601 (declare string)",
}
"""Options of a connector that would have no effect here, with what to do."""
_KINDS: dict[str, Describe] = {
    "dict_type": _no_mapping,
    "model_type": _no_mapping,
    "string_type": _no_text,
    "string_pattern_mismatch": _wrong_text,
    "list_type": _no_list,
    "missing": _missing,
    "extra_forbidden": _unknown_key,
    "literal_error": _wrong_choice,
}


def table_schema() -> str:
    """The text of `conf/table.schema.json`."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"} | Table.model_json_schema()
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def keys_at(schema: Schema, place: Place) -> list[str]:
    """Keys that the schema knows in the mapping at a place; empty where there is none."""
    here = [schema]
    for part in place:
        below = [_step(branch, part) for branch in here]
        here = [branch for found in below if found for branch in _branches(schema, found)]
    return [key for branch in here for key in branch.get("properties", {})]


def _branches(root: Schema, schema: Schema) -> list[Schema]:
    """The schema itself, or the alternatives of a union, with references followed."""
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    schema = root["$defs"][name] if name else schema
    alternatives = schema.get("anyOf")
    return [b for each in alternatives for b in _branches(root, each)] if alternatives else [schema]


def _step(schema: Schema, part: str | int) -> Schema | None:
    if isinstance(part, int):
        return schema.get("items")
    below = schema.get("properties", {}).get(part) or schema.get("additionalProperties")
    return below if isinstance(below, dict) else None

"""Turns YAML documents into models, or into readable problems."""

import difflib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from lakehouse.config import target as targets
from lakehouse.config.formats import Format
from lakehouse.config.source import REMOVE, FileFormat, find_formats
from lakehouse.config.table import EXPECTATION_TYPE, IDENTIFIER, Table
from lakehouse.config.table_rules import find_contradictions
from lakehouse.config.target import MEMORY, WEBHOOK, Target
from lakehouse.errors import ConfigurationError, ManyConfigurationErrors, Problem

Place: TypeAlias = tuple[str | int, ...]
Schema: TypeAlias = dict[str, Any]
Model = TypeVar("Model", bound=BaseModel)
Described: TypeAlias = tuple[str, str, str]
Check: TypeAlias = Callable[[Table], Sequence[str]]
Describe: TypeAlias = Callable[[type[BaseModel], Place, ErrorDetails], Described]


def unpack_table(document: object, file: str, checks: Sequence[Check] = ()) -> Table:
    """The table that a document describes.

    A check returns lines such as `expectations[0].column: found 3, expected a column`.

    Raises:
        ManyConfigurationErrors: all errors of the document.
    """
    table = unpack_model(Table, document, file)
    more = [_from_line(line) for check in checks for line in check(table)]
    _raise_problems(file, [*find_contradictions(table), *more])
    return table


def unpack_target(document: object, file: str, name: str) -> Target:
    """The target that a document describes; its name is the file's.

    Raises:
        ManyConfigurationErrors: all errors of the document.
    """
    named = {"name": name, **document} if isinstance(document, dict) else document
    target = unpack_model(Target, named, file)
    _raise_problems(file, targets.find_contradictions(target))
    return target


def unpack_model(model: type[Model], document: object, file: str) -> Model:
    """The document as a model.

    Raises:
        ManyConfigurationErrors: all errors of the document.
    """
    if not isinstance(document, dict):
        actual = "an empty file" if document is None else shorten_value(document)
        raise ManyConfigurationErrors(
            [ConfigurationError(file, "(file)", actual, "a mapping of keys", "write `key: value`")]
        )
    try:
        return model.model_validate(document)
    except ValidationError as failure:
        problems = _to_problems(model, document, failure.errors(include_url=False))
    raise _to_error(file, problems)


def refuse_lines(file: str, lines: Iterable[str]) -> None:
    """Raises the problems that checks found, if any."""
    _raise_problems(file, map(_from_line, lines))


def find_nearest(word: str, words: Iterable[str]) -> str | None:
    """The most similar word; None if none is similar."""
    return next(iter(difflib.get_close_matches(word, list(words), n=1, cutoff=0.6)), None)


def _from_line(line: str) -> Problem:
    key, _, rest = line.partition(": ")
    actual, _, expected = rest.removeprefix("found ").partition(", ")
    return Problem(key, actual, expected.removeprefix("expected "), "correct it")


def _raise_problems(file: str, problems: Iterable[Problem]) -> None:
    listed = list(problems)
    if listed:
        raise _to_error(file, listed)


def _to_error(file: str, problems: Iterable[Problem]) -> ManyConfigurationErrors:
    return ManyConfigurationErrors([ConfigurationError(file, *problem) for problem in problems])


def _to_problems(
    model: type[BaseModel], document: object, errors: Sequence[ErrorDetails]
) -> list[Problem]:
    """One problem per place: branches of a union become alternatives."""
    merged: dict[str, Problem] = {}
    for error in map(_name_choice, errors):
        place = _document_place(document, error["loc"], error["type"])
        named = place[:-1] if str(place[-1:]).endswith(")',)") else place
        key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in named)
        describe = _KINDS.get(error["type"], _wrong_value)
        problem = Problem(key.removeprefix("."), *describe(model, place, error))
        previous = merged.get(problem.key)
        if previous and previous.expected != problem.expected:
            problem = previous._replace(expected=f"{previous.expected}, or {problem.expected}")
        merged[problem.key] = problem
    return list(merged.values())


def _name_choice(error: ErrorDetails) -> ErrorDetails:
    """An error of the key that chooses a union's branch, as an error of a plain key."""
    if not error["type"].startswith("union_tag_"):
        return error
    named = error["ctx"]["discriminator"].strip("'")
    chosen = error.copy()
    chosen["loc"], chosen["type"] = (*error["loc"], named), "missing"
    if error["type"] == "union_tag_invalid":
        most, _, last = error["ctx"]["expected_tags"].rpartition(", ")
        chosen["type"], chosen["input"] = "literal_error", error["input"][named]
        chosen["ctx"] = {"expected": f"{most} or {last}"}
    return chosen


def _document_place(document: object, location: Place, kind: str) -> Place:
    """The place in the document, without pydantic's names of union branches."""
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


def _missing_key(model: type[BaseModel], place: Place, error: ErrorDetails) -> Described:
    key = str(place[-1])
    choices = list_keys(model, error["loc"][:-1]).get(key, {}).get("enum", ())
    values = f": {' or '.join(choices)}" if choices else ""
    return "nothing", f"the key {key}", f"add {key}{values}"


def _unknown_key(model: type[BaseModel], place: Place, error: ErrorDetails) -> Described:
    keys, written = list_keys(model, error["loc"][:-1]), str(place[-1])
    elsewhere = find_formats(written) if place[0] in ("source", "sources") else []
    if elsewhere and error["loc"][-2] in get_args(Format):
        actual = f"{written} with format {error['loc'][-2]}"
        return actual, f"{written} only with {' or '.join(elsewhere)}", REMOVE
    other = _KEYS_OF_OTHERS.get(written.lower())
    meant = other if other in keys else find_nearest(written, keys)
    action = f"did you mean {meant}?" if meant else "remove it"
    action = _NEEDLESS.get(written, action)
    return f"the unknown key {written}", f"one of {', '.join(keys)}", action


def _wrong_choice(model: type[BaseModel], place: Place, error: ErrorDetails) -> Described:
    expected = str(error["ctx"]["expected"])
    meant = find_nearest(
        str(error["input"]), expected.replace("'", "").replace(" or ", ", ").split(", ")
    )
    action = f"did you mean {meant}?" if meant else "choose one of them"
    if place[-1:] == ("format",) and error["input"] in get_args(FileFormat):
        action = f"write format: rows and file_format: {error['input']}, if each line is a row"
    return shorten_value(error["input"]), expected, action


def _wrong_value(model: type[BaseModel], place: Place, error: ErrorDetails) -> Described:
    expected = str(error["msg"]).removeprefix("Value error, ")
    expected = expected.replace("Input should be", "").strip()
    return shorten_value(error["input"]), expected, "correct it"


def shorten_value(value: object) -> str:
    """A value of the YAML as JSON, at most 80 characters, without the password of a URL."""
    text = re.sub(r"://[^\s\"]*@", "://…@", json.dumps(value, default=str, ensure_ascii=False))
    return text if len(text) <= 80 else f"{text[:77]}..."


def _wrong_text(model: type[BaseModel], place: Place, error: ErrorDetails) -> Described:
    return shorten_value(error["input"]), _PATTERNS[str(error["ctx"]["pattern"])], "correct it"


_QUOTE_TYPE = "put the type in quotes, 'decimal(10,2)': a comma in braces ends a value"


def _no_mapping(model: type[BaseModel], place: Place, error: ErrorDetails) -> Described:
    if error["input"] is None and str(place[-1]).endswith(")"):
        return f"{place[-1]} after a comma", "the rest of a type", _QUOTE_TYPE
    return shorten_value(error["input"]), "a mapping", "write `key: value`, a line each"


def _no_text(model: type[BaseModel], place: Place, error: ErrorDetails) -> Described:
    value = shorten_value(error["input"])
    if isinstance(error["input"], bool):
        words = "'yes' or 'on'" if error["input"] else "'no' or 'off'"
        return (
            value,
            "a text",
            f"put the word in quotes: YAML reads {words} without them as {value}",
        )
    plain = not isinstance(error["input"], dict | list)
    return value, "a text", f"write '{value}', in quotes" if plain else "correct it"


def _no_list(model: type[BaseModel], place: Place, error: ErrorDetails) -> Described:
    value = shorten_value(error["input"])
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
    **dict.fromkeys(("sequence_column", "sequence", "order_by"), "sequence_by"),
    "brokers": "bootstrap_servers",
}
"""Names of keys in other programs, and the names here."""
_NEEDLESS = {
    "interval_handling_mode": "remove it: an interval is what its records have, microseconds"
    " (declare bigint) or text in ISO 8601 (declare string)"
}
"""Options of a connector that would have no effect here, with what to do."""
_KINDS: dict[str, Describe] = {
    "dict_type": _no_mapping,
    "model_type": _no_mapping,
    "model_attributes_type": _no_mapping,
    "string_type": _no_text,
    "string_pattern_mismatch": _wrong_text,
    "list_type": _no_list,
    "missing": _missing_key,
    "extra_forbidden": _unknown_key,
    "literal_error": _wrong_choice,
}


def table_schema() -> str:
    """The text of `conf/table.schema.json`."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"} | Table.model_json_schema()
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def list_keys(model: type[BaseModel], location: Place) -> Schema:
    """The schema of each key that a model allows at a location of pydantic."""
    root = model.model_json_schema()
    here = [root]
    for part in location:
        below = [_schema_below(branch, part) for branch in here]
        inside = [branch for inner in below if inner for branch in _list_branches(root, inner)]
        chosen = [branch for branch in here if _is_branch(branch, part)]
        here = inside or chosen or here
    return {key: each for branch in here for key, each in branch.get("properties", {}).items()}


def _list_branches(root: Schema, schema: Schema) -> list[Schema]:
    """The schema itself, or the alternatives of a union, with references followed."""
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    schema = root["$defs"][name] if name else schema
    alternatives = schema.get("anyOf") or schema.get("oneOf") or ()
    return [b for each in alternatives for b in _list_branches(root, each)] or [schema]


def _is_branch(schema: Schema, tag: str | int) -> bool:
    """Whether a schema is the branch of a union that a tag chooses, such as a format."""
    return any(key.get("const") == tag for key in schema.get("properties", {}).values())


def _schema_below(schema: Schema, part: str | int) -> Schema | None:
    if isinstance(part, int):
        return schema.get("items")
    below = schema.get("properties", {}).get(part) or schema.get("additionalProperties")
    return below if isinstance(below, dict) else None

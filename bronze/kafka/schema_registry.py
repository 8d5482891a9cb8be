"""Reads Avro schemas from a registry by Confluent's protocol, as Karapace and Apicurio have it.

Ids of 4 bytes are read at `/schemas/ids/ID`; global ids and content ids, which Apicurio's
serializers write, at `/apis/registry/v2/ids/globalIds/ID` or its successor in version 3.
"""

import base64
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

from lakehouse.errors import LakehouseError

_SECONDS = 30
_MOST_REFERENCES = 200
_INLINE = "dereference=true&references=DEREFERENCE"
"""Parameters by which Apicurio 2 and 3 return a schema with its references inlined."""
_API = re.compile(r"/apis/(?:ccompat|registry)/v\d+/?$")
_MISSING = 404


class RegistryFailed(LakehouseError):
    """A schema cannot be read from the registry's URL; the next run tries again."""

    def __init__(self, url: str, answer: str) -> None:
        super().__init__(
            f"{url}: no schema\n  found:    {answer}\n"
            "  do:       check source.schema_registry and that the registry is up"
        )


class Registry:
    """A schema registry at a URL; `auth` is `user:password`, a token, or None."""

    def __init__(self, url: str, auth: str | None = None) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Accept": "application/json"} | _authorization_header(auth)

    def read_schema(self, id: str) -> str:
        """The text of an Avro schema by its id, with its references inlined.

        Raises:
            RegistryFailed: the registry does not answer, has no such schema, or none in Avro.
        """
        kind, _, number = id.rpartition(":")
        if kind:
            return self._apicurio_schema(f"{kind}Ids/{number}")
        url = f"{self._url}/schemas/ids/{id}"
        answer = self._ask_object(url)
        if answer.get("schemaType", "AVRO") != "AVRO":
            raise RegistryFailed(url, f"a schema of type {answer['schemaType']}")
        others = list(self._read_references(answer, set()))
        return _inline_references(str(answer.get("schema")), others)

    def _apicurio_schema(self, path: str) -> str:
        base = _API.sub("", self._url)
        for version in ("v2", "v3"):
            url = f"{base}/apis/registry/{version}/ids/{path}"
            answer = self._ask(f"{url}?{_INLINE}")
            if answer is not None:
                return json.dumps(answer)
        raise RegistryFailed(f"{base}/apis/registry/v3/ids/{path}", "nothing (404)")

    def _read_references(self, schema: dict[str, Any], seen: set[tuple[str, Any]]) -> Iterator[str]:
        """The schemas that a schema refers to, in order of dependency."""
        for reference in schema.get("references") or []:
            place = str(reference.get("subject")), reference.get("version")
            if place in seen or len(seen) > _MOST_REFERENCES:
                continue
            seen.add(place)
            subject = urllib.parse.quote(place[0], safe="")
            one = self._ask_object(f"{self._url}/subjects/{subject}/versions/{place[1]}")
            yield from self._read_references(one, seen)
            yield str(one.get("schema"))

    def _ask_object(self, url: str) -> dict[str, Any]:
        answer = self._ask(url)
        if answer is None:
            raise RegistryFailed(url, "nothing (404)")
        if not isinstance(answer, dict):
            raise RegistryFailed(url, f"{type(answer).__name__}, expected an object")
        return answer

    def _ask(self, url: str) -> object:
        """The JSON at a URL; None if there is none (404)."""
        request = urllib.request.Request(url, headers=self._headers)
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
                content: object = json.load(answer)
        except urllib.error.HTTPError as failure:
            if failure.code == _MISSING:
                return None
            raise RegistryFailed(url, f"{failure.code} {failure.reason}") from None
        except (OSError, ValueError) as failure:
            raise RegistryFailed(url, str(failure)) from None
        return content


def _authorization_header(auth: str | None) -> dict[str, str]:
    if auth is None:
        return {}
    if ":" in auth:
        return {"Authorization": f"Basic {base64.b64encode(auth.encode()).decode()}"}
    return {"Authorization": f"Bearer {auth}"}


def _inline_references(text: str, others: list[str]) -> str:
    """A schema with the first use of each type of the other schemas replaced by its definition."""
    if not others:
        return text
    named: dict[str, Any] = {}
    for schema in map(json.loads, others):
        name, space = str(schema.get("name")), schema.get("namespace")
        named[f"{space}.{name}" if space and "." not in name else name] = schema
    return json.dumps(_inline_types(json.loads(text), named, ""))


def _inline_types(schema: object, named: dict[str, Any], space: str) -> object:
    if isinstance(schema, str):
        full = next((name for name in (schema, f"{space}.{schema}") if name in named), None)
        return schema if full is None else _inline_types(named.pop(full), named, space)
    if isinstance(schema, list):
        return [_inline_types(branch, named, space) for branch in schema]
    return _inlined_parts(schema, named, space) if isinstance(schema, dict) else schema


def _inlined_parts(
    schema: dict[str, Any], named: dict[str, Any], outer_space: str
) -> dict[str, Any]:
    parts, space = dict(schema), str(schema.get("namespace") or outer_space)
    for part in ("type", "items", "values"):
        if part in parts and parts[part] not in ("record", "enum", "fixed", "array", "map"):
            parts[part] = _inline_types(parts[part], named, space)
    if isinstance(parts.get("fields"), list):
        parts["fields"] = [
            {**field, "type": _inline_types(field.get("type"), named, space)}
            for field in parts["fields"]
        ]
    return parts

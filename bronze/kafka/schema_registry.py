"""Avro schemas of a registry: Confluent's protocol, which Karapace and Apicurio speak, too.

Ids of 4 bytes are asked at `/schemas/ids/ID`; global ids and content ids, which Apicurio's
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
"""Asks Apicurio in version 2 and 3 for a schema with those inside that it refers to."""
_API = re.compile(r"/apis/(?:ccompat|registry)/v\d+/?$")
_MISSING = 404


class RegistryFailed(LakehouseError):
    """A schema cannot be had from the registry; the next run asks again."""

    def __init__(self, url: str, found: str) -> None:
        """Take what was asked for, and what came."""
        super().__init__(
            f"{url}: no schema\n  found:    {found}\n"
            "  do:       check source.schema_registry and that the registry is up"
        )


class Registry:
    """A schema registry at a URL; `auth` is `user:password`, a token, or None."""

    def __init__(self, url: str, auth: str | None = None) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Accept": "application/json"} | _authorization(auth)

    def schema(self, id: str) -> str:
        """The text of an Avro schema by its id, with the schemas that it refers to inside.

        Raises:
            RegistryFailed: the registry does not answer, has no such schema, or none in Avro.
        """
        kind, _, number = id.rpartition(":")
        if kind:
            return self._apicurio_schema(f"{kind}Ids/{number}")
        url = f"{self._url}/schemas/ids/{id}"
        found = self._object(url)
        if found.get("schemaType", "AVRO") != "AVRO":
            raise RegistryFailed(url, f"a schema of type {found['schemaType']}")
        return _complete(str(found.get("schema")), list(self._referred(found, set())))

    def _apicurio_schema(self, path: str) -> str:
        base = _API.sub("", self._url)
        for version in ("v2", "v3"):
            url = f"{base}/apis/registry/{version}/ids/{path}"
            found = self._asked(f"{url}?{_INLINE}")
            if found is not None:
                return json.dumps(found)
        raise RegistryFailed(f"{base}/apis/registry/v3/ids/{path}", "nothing (404)")

    def _referred(self, found: dict[str, Any], seen: set[tuple[str, Any]]) -> Iterator[str]:
        """The schemas that a schema refers to, those that they refer to before them."""
        for reference in found.get("references") or []:
            place = str(reference.get("subject")), reference.get("version")
            if place in seen or len(seen) > _MOST_REFERENCES:
                continue
            seen.add(place)
            subject = urllib.parse.quote(place[0], safe="")
            one = self._object(f"{self._url}/subjects/{subject}/versions/{place[1]}")
            yield from self._referred(one, seen)
            yield str(one.get("schema"))

    def _object(self, url: str) -> dict[str, Any]:
        found = self._asked(url)
        if found is None:
            raise RegistryFailed(url, "nothing (404)")
        if not isinstance(found, dict):
            raise RegistryFailed(url, f"{type(found).__name__}, expected an object")
        return found

    def _asked(self, url: str) -> object:
        """The JSON at a URL; None where there is nothing."""
        request = urllib.request.Request(url, headers=self._headers)
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
                found: object = json.load(answer)
        except urllib.error.HTTPError as failure:
            if failure.code == _MISSING:
                return None
            raise RegistryFailed(url, f"{failure.code} {failure.reason}") from None
        except (OSError, ValueError) as failure:
            raise RegistryFailed(url, str(failure)) from None
        return found


def _authorization(auth: str | None) -> dict[str, str]:
    if auth is None:
        return {}
    if ":" in auth:
        return {"Authorization": f"Basic {base64.b64encode(auth.encode()).decode()}"}
    return {"Authorization": f"Bearer {auth}"}


def _complete(text: str, others: list[str]) -> str:
    """A schema in which the first use of each type that others define is its definition."""
    if not others:
        return text
    named: dict[str, Any] = {}
    for other in others:
        schema = json.loads(other)
        named[_full_name(schema)] = schema
    return json.dumps(_inlined(json.loads(text), named, ""))


def _full_name(schema: dict[str, Any]) -> str:
    name, space = str(schema.get("name")), schema.get("namespace")
    return f"{space}.{name}" if space and "." not in name else name


def _inlined(schema: object, named: dict[str, Any], space: str) -> object:
    if isinstance(schema, str):
        full = next((name for name in (schema, f"{space}.{schema}") if name in named), None)
        return schema if full is None else _inlined(named.pop(full), named, space)
    if isinstance(schema, list):
        return [_inlined(branch, named, space) for branch in schema]
    return _inlined_parts(schema, named, space) if isinstance(schema, dict) else schema


def _inlined_parts(
    schema: dict[str, Any], named: dict[str, Any], outer_space: str
) -> dict[str, Any]:
    found, space = dict(schema), str(schema.get("namespace") or outer_space)
    for part in ("type", "items", "values"):
        if part in found and found[part] not in ("record", "enum", "fixed", "array", "map"):
            found[part] = _inlined(found[part], named, space)
    if isinstance(found.get("fields"), list):
        found["fields"] = [
            {**field, "type": _inlined(field.get("type"), named, space)}
            for field in found["fields"]
        ]
    return found

"""The registry's documented paths, served by a small server of the test's own."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from bronze.contract import PARTS, avro_schema_id
from bronze.kafka.schema_registry import Registry, RegistryFailed
from silver.decode.avro.binary import read_value
from silver.decode.avro.schemas import writer_of
from tests.helpers.registry import Served

INNER = {
    "type": "record",
    "name": "Inner",
    "namespace": "x",
    "fields": [{"name": "a", "type": "int"}],
}
OUTER = {
    "type": "record",
    "name": "Outer",
    "namespace": "x",
    "fields": [{"name": "one", "type": "x.Inner"}, {"name": "two", "type": ["null", "Inner"]}],
}
REFERENCE = {"name": "x.Inner", "subject": "inner", "version": 3}
ANSWERS: dict[str, Any] = {
    "/schemas/ids/1": {"schema": '"string"'},
    "/schemas/ids/2": {"schema": json.dumps(OUTER), "references": [REFERENCE]},
    "/schemas/ids/3": {"schema": "syntax = 'proto3'", "schemaType": "PROTOBUF"},
    "/subjects/inner/versions/3": {"schema": json.dumps(INNER), "id": 9, "version": 3},
    "/apis/registry/v3/ids/globalIds/77": INNER,
    "/apis/registry/v2/ids/contentIds/78": "long",
}


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    server = Served(ANSWERS)
    yield server
    server.stop()


@pytest.fixture
def url(served: Served) -> str:
    return served.url


def test_a_schema_is_had_by_its_id(url: str) -> None:
    assert Registry(url + "/").read_schema("1") == '"string"'


def test_referred_schemas_are_inside(url: str) -> None:
    text = Registry(url).read_schema("2")

    assert json.loads(text)["fields"][0]["type"] == INNER
    assert read_value(writer_of(text).schema, b"\x02\x02\x04", 0) == {
        "one": {"a": 1},
        "two": {"a": 2},
    }


@pytest.mark.parametrize("path", ["", "/apis/ccompat/v7", "/apis/registry/v2/"])
def test_global_ids_are_asked_of_apicurios_own_paths(url: str, path: str) -> None:
    assert json.loads(Registry(url + path).read_schema("global:77")) == INNER


def test_content_ids_are_asked_and_a_schema_may_be_a_bare_type(served: Served) -> None:
    assert Registry(served.url).read_schema("content:78") == '"long"'
    assert "dereference=true" in served.asked[-1][0]


@pytest.mark.parametrize(
    ("id", "said"), [("4", "404"), ("3", "type PROTOBUF"), ("global:5", "nothing")]
)
def test_a_schema_that_is_not_there_is_told(url: str, id: str, said: str) -> None:
    with pytest.raises(RegistryFailed, match=said):
        Registry(url).read_schema(id)


def test_a_registry_that_does_not_answer_is_told() -> None:
    with pytest.raises(RegistryFailed, match="registry is up"):
        Registry("http://127.0.0.1:9").read_schema("1")


def test_a_password_or_token_is_sent(served: Served) -> None:
    Registry(served.url, "me:pass").read_schema("1")
    Registry(served.url, "token").read_schema("1")

    basic = base64.b64encode(b"me:pass").decode()
    assert [auth for _, auth in served.asked[-2:]] == [f"Basic {basic}", "Bearer token"]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\0\0\0\0\x05abc", ("5", 5)),
        (b"\0" + (77).to_bytes(8, "big") + b"x", ("global:77", 9)),
        (b"\0\0\0\0\0x", None),
        (b'{"id":1}', None),
        (b"\0\1", None),
        (b"", None),
    ],
)
def test_ids_stand_in_front_of_values(data: bytes, expected: object) -> None:
    assert avro_schema_id(data) == expected


@pytest.mark.parametrize(
    ("headers", "value", "key"),
    [
        ({"apicurio.value.globalId": "7", "apicurio.key.globalId": "8"}, "global:7", "global:8"),
        ({"apicurio.value.contentId": "5", "apicurio.value.encoding": "BINARY"}, "content:5", "1"),
        ({"apicurio.value.globalId": "none"}, "1", "1"),
        ({"trace": "apicurio.value.globalId"}, "1", "1"),
    ],
)
def test_ids_in_headers_come_before_those_in_front(
    headers: dict[str, str], value: str, key: str
) -> None:
    text = json.dumps(headers).encode()
    data = b"\0\0\0\0\x01x"

    found = [avro_schema_id(data, part, text) for part in PARTS]

    assert found == [(id, 0 if ":" in id else 5) for id in (key, value)]

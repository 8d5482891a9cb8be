"""An Apicurio registry of the test's own, in memory, on loopback."""

import json
import urllib.request
from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.e2e import parts
from tests.e2e.parts import PARTS, Process

FOLDER = PARTS / "registry"


class Ids(NamedTuple):
    """What the registry calls a schema: as Confluent's does, and by its own two kinds of ids."""

    confluent: int
    own: int
    content: int


class Apicurio(NamedTuple):
    """Where a registry listens."""

    port: int

    @property
    def url(self) -> str:
        """The address under which it speaks Confluent's protocol."""
        return f"http://127.0.0.1:{self.port}/apis/ccompat/v7"

    def start(self) -> Process:
        (jar,) = FOLDER.glob("*-runner.jar")
        address = {"port": self.port, "host": "127.0.0.1"}
        given = [f"-Dquarkus.http.{name}={value}" for name, value in address.items()]
        command = ["java", "-Xmx512m", "-XX:+UseSerialGC", *given, "-jar", jar]
        return parts.start(command, parts.folder("registry") / "server.log", "Listening on")

    def register(self, subject: str, schema: Mapping[str, Any]) -> Ids:
        """The ids under which a schema is registered as the subject's next version."""
        text = json.dumps(schema)
        path = f"/apis/ccompat/v7/subjects/{subject}/versions"
        confluent = self._asked(path, {"schema": text})["id"]
        own = self._asked(f"/apis/registry/v2/groups/default/artifacts/{subject}/meta", schema)
        return Ids(confluent, own["globalId"], own["contentId"])

    def _asked(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"}
        url = f"http://127.0.0.1:{self.port}{path}"
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

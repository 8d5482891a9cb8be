"""A schema registry of the tests' own: the paths that registries document for reading schemas."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


class Served:
    """A server that answers with JSON by path, and what it was asked: paths and authorization."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.asked: list[tuple[str, str | None]] = []
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append((self.path, self.headers.get("Authorization")))
                found = answers.get(self.path.partition("?")[0])
                self.send_response(404 if found is None else 200)
                self.end_headers()
                self.wfile.write(json.dumps(found or {"error_code": 40403}).encode())

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def registry(schemas: Mapping[int, Any]) -> Iterator[Served]:
    """A registry of these schemas by id, which may be stopped before its block ends."""
    texts = {id: {"schema": json.dumps(schema)} for id, schema in schemas.items()}
    server = Served({f"/schemas/ids/{id}": text for id, text in texts.items()})
    try:
        yield server
    finally:
        server.stop()

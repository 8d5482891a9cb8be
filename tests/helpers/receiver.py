"""A real HTTP receiver on this machine that keeps what it is sent."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer


class Receiver:
    """What came, and the status that it answers with."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.status = 200
        self.url = ""


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver that listens meanwhile."""
    receiver = Receiver()

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if receiver.status == 200:
                assert list(body) == ["text"]
                receiver.texts.append(body["text"])
            self.send_response(receiver.status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answers)
    receiver.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

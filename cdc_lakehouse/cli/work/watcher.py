"""What a run sends other programs: metrics by HTTP, and alarms to the target's webhook."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

from cdc_lakehouse.cli.ask.status_records import keep_status, read_status
from cdc_lakehouse.cli.work.rounds import Round
from cdc_lakehouse.terminal.console import say, warn
from gold.capture_status import read_capture
from gold.status.alarms import raise_alarms
from gold.status.figures import Record
from gold.status.metrics import CONTENT_TYPE, render_metrics
from gold.status.status_file import KnownStatus
from lakehouse.config.table import Table
from lakehouse.config.target import Layer
from lakehouse.errors import ConfigurationError
from lakehouse.run.ledger import Entry
from lakehouse.spark.failures import TABLE_FAILURES, describe_failure

LOOK_SECONDS, SHARE = 30.0, 20.0
"""The least pause between two looks, and how many times as long as a look it is."""
PATH, LOOPBACK = "/metrics", "127.0.0.1"


class Watcher:
    """Writes the status of a run's tables, for others; raises alarms.

    A run that goes on writes it every half minute, less often where that takes long. In between the
    run's own entries say which tables fail.
    """

    def __init__(self, given: Round, tables: list[Table], metrics: str | None = None) -> None:
        """Take what the work has; `metrics` is the port or HOST:PORT that answers over HTTP."""
        self._given, self._tables, self._address = given, tables, metrics
        self._all = given.everything or tables
        self._known: KnownStatus | None = None
        self._failures: dict[tuple[Layer, str], str] = {}
        self._lock = threading.Lock()

    def note_entries(self, entries: Sequence[Entry]) -> None:
        """Records which tables fail."""
        for entry in entries:
            work = entry.layer, entry.table
            if entry.status == "failed":
                self._failures[work] = entry.message or "no reason given"
            else:
                self._failures.pop(work, None)

    def look_at_tables(self) -> None:
        """Writes the status and raises alarms."""
        with self._lock:
            self._write_status()

    def _look_until(self, ended: threading.Event) -> None:
        """Looks at the tables every half minute, and at most a twentieth of the time."""
        pause = LOOK_SECONDS
        while not ended.wait(pause):
            began = time.monotonic()
            self.look_at_tables()
            pause = max(LOOK_SECONDS, SHARE * (time.monotonic() - began))

    def _write_status(self) -> None:
        lake = self._given.lake
        self._known = keep_status(lake, self._all) or self._known
        if lake.target.alarms is None:
            return
        try:
            for line in raise_alarms(lake.target, self._current_records()):
                warn(line)
        except TABLE_FAILURES as failure:
            warn(f"how the tables do cannot be asked: {describe_failure(failure)}")

    def render_metrics(self) -> str:
        """The metrics as of now."""
        captured = read_capture(self._given.lake.target)
        return render_metrics(self._current_records(), version("cdc-lakehouse"), captured)

    def _current_records(self) -> list[Record]:
        """The status as of now, with failures that have come since it was written."""
        target, known = self._given.lake.target, self._known
        if known is None:
            return []
        records = read_status(target, self._tables, self._all, known).records
        failing = {table: message for (_, table), message in dict(self._failures).items()}
        return [
            {**record, "last_failure": failing.get(record["table"]) or record["last_failure"]}
            for record in records
        ]

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Within, looks at the tables, and answers over HTTP where that is asked for.

        Raises:
            ConfigurationError: it cannot listen there.
        """
        ended = threading.Event()
        with self._serve_metrics():
            looking = threading.Thread(target=self._look_until, args=(ended,), daemon=True)
            looking.start()
            try:
                yield
            finally:
                ended.set()
                looking.join()

    @contextmanager
    def _serve_metrics(self) -> Iterator[None]:
        if self._address is None:
            yield
            return

        server = _start_listening(self._address, self)
        host, port = server.server_address[:2]
        say(f"metrics at http://{host!s}:{port}{PATH}")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()


def _start_listening(address: str, watcher: Watcher) -> ThreadingHTTPServer:
    class MetricsHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answers `GET /metrics`."""
            if self.path.partition("?")[0] != PATH:
                self.send_error(404, f"the metrics are at {PATH}")
                return
            body = watcher.render_metrics().encode()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing: requests are no news."""

    host, _, port = address.rpartition(":")
    try:
        return ThreadingHTTPServer((host or LOOPBACK, int(port)), MetricsHandler)
    except (OSError, OverflowError, ValueError) as failure:
        expected = "a free port, or HOST:PORT"
        action = f"{failure}; choose another"
        raise ConfigurationError(
            "command line", "--metrics", address, expected, action
        ) from failure

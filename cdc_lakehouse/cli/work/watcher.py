"""What a run sends other programs: metrics by HTTP, and alarms to the target's webhook."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from cdc_lakehouse.cli.work.rounds import Round
from lakehouse.config.table import Table
from lakehouse.config.target import Layer
from lakehouse.errors import ConfigurationError

if TYPE_CHECKING:
    from lakehouse.run.ledger import Entry

LOOK_SECONDS = 30.0
PATH, LOOPBACK = "/metrics", "127.0.0.1"


class Watcher:
    """The status of a run's tables, for metrics and alarms.

    The status is read every half minute, if either is configured. In between, the run's own entries
    say which tables fail, and ages grow by the clock.
    """

    def __init__(self, given: Round, tables: list[Table], metrics: str | None = None) -> None:
        """Take what the work has; `metrics` is the port or HOST:PORT that answers over HTTP."""
        self._given, self._tables, self._place = given, tables, metrics
        self._records: list[dict[str, Any]] = []
        self._failures: dict[tuple[Layer, str], str] = {}
        self._looked = -LOOK_SECONDS
        self._lock = threading.Lock()

    @property
    def is_wanted(self) -> bool:
        """Whether metrics or alarms are configured."""
        return self._place is not None or self._given.target.alarms is not None

    def note_entries(self, entries: "Sequence[Entry]") -> None:
        """Records which tables fail; looks at the tables again where it is time."""
        for entry in entries:
            place = entry.layer, entry.table
            if entry.status == "failed":
                self._failures[place] = entry.message or "no reason given"
            else:
                self._failures.pop(place, None)
        self.look_at_tables(LOOK_SECONDS)

    def look_at_tables(self, pause: float = 0.0) -> None:
        """Asks for the status, unless that was less than `pause` seconds ago; raises alarms."""
        if not self.is_wanted or time.monotonic() - self._looked < pause:
            return
        if self._lock.acquire(blocking=False):
            try:
                self._read_status()
            finally:
                self._looked = time.monotonic()
                self._lock.release()

    def _read_status(self) -> None:
        from cdc_lakehouse.terminal.console import warn
        from gold.status import table_status
        from gold.status.alarms import raise_alarms
        from lakehouse.spark.failures import describe_failure
        from lakehouse.spark.spark_failures import SPARK_FAILURES

        spark, target = self._given.spark, self._given.target
        try:
            self._records = table_status.read_status(spark, target, self._tables)
        except SPARK_FAILURES as failure:
            warn(f"how the tables do cannot be asked: {describe_failure(failure)}")
            return
        for line in raise_alarms(target, self._current_records()):
            warn(line)

    def render_metrics(self) -> str:
        """The metrics as of now."""
        from gold.status.metrics import render_metrics, update_ages

        now = time.time()
        records = [update_ages(record, now) for record in self._current_records()]
        return render_metrics(records, version("cdc-lakehouse"))

    def _current_records(self) -> list[dict[str, Any]]:
        """The status as it was read last, with failures that have come since."""
        failing = {table: message for (_, table), message in dict(self._failures).items()}
        return [
            {**record, "last_failure": failing.get(record["table"]) or record["last_failure"]}
            for record in self._records
        ]

    @contextmanager
    def serve_metrics(self) -> Iterator[None]:
        """Within, answers over HTTP, where that is asked for.

        Raises:
            ConfigurationError: it cannot listen there.
        """
        if self._place is None:
            yield
            return
        from cdc_lakehouse.terminal.console import say

        server = _start_listening(self._place, self)
        host, port = server.server_address[:2]
        say(f"metrics at http://{host!s}:{port}{PATH}")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()


def _start_listening(place: str, watcher: Watcher) -> ThreadingHTTPServer:
    class MetricsHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answers `GET /metrics`."""
            from gold.status.metrics import CONTENT_TYPE

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

    host, _, port = place.rpartition(":")
    try:
        return ThreadingHTTPServer((host or LOOPBACK, int(port)), MetricsHandler)
    except (OSError, OverflowError, ValueError) as failure:
        expected = "a free port, or HOST:PORT"
        action = f"{failure}; choose another"
        raise ConfigurationError("command line", "--metrics", place, expected, action) from failure

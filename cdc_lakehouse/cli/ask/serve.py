"""`serve`: a warm session of the lake, for the commands that ask and for other programs."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_lakehouse.cli.front import check_lake, command, is_on_this_machine, load_conf
from cdc_lakehouse.cli.options import Chosen, options_of, seconds_of
from cdc_lakehouse.terminal.console import show_progress
from lakehouse.config.target import Target
from lakehouse.durations import render_duration
from lakehouse.errors import ConfigurationError
from lakehouse.remedies import check_writable, java_ended
from lakehouse.spark.server import (
    Server,
    find_server,
    is_own,
    last_used,
    remove_server,
    spawn_server,
    start_server,
    write_server,
)
from lakehouse.storage.lake import Lake

if TYPE_CHECKING:
    from gold.views.catalog import ServedCatalog

GLANCE_SECONDS = 0.5
"""Seconds between two looks at the lake."""
ASK_SECONDS = 5.0
"""Seconds between two questions to Java when a client last used the server."""
LONGEST_STOP = 30.0
DEFAULT_IDLE = "30m"

Stop = Annotated[bool, typer.Option("--stop", help="End the lake's server.")]
Idle = Annotated[str, typer.Option(help="The server ends once nobody has asked for so long.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Where it listens; 0: a free port.")]
Foreground = Annotated[
    bool, typer.Option("--foreground", help="Be the server, until interrupted or idle.")
]


@command("serve")
def serve(
    chosen: Chosen,
    stop: Stop = False,
    idle: Idle = DEFAULT_IDLE,
    port: Port = 0,
    foreground: Foreground = False,
) -> None:
    """Keep a Spark warm that answers sql, explain and dead-letters list at once.

    It goes on in the background and ends by itself when idle. Printed is its Spark Connect URL, for
    notebooks, dbt and other clients: gold.T, silver.T and bronze.T are there as in `lakehouse sql`.
    It listens on this machine only; the URL holds the token without which it answers nobody.
    """
    target, _ = load_conf(chosen)
    longest = seconds_of(idle, "--idle")
    _check_kind(target)
    running = find_server(target)
    if stop:
        print("no server runs for this lake" if running is None else stop_server(running))
        return
    check_lake(target)
    check_writable(target)
    if foreground:
        _be_server(target, port, longest)
        return
    if running is None:
        options = ["--idle", idle, "--port", str(port), *options_of(chosen)]
        with show_progress("starting a server"):
            running = spawn_server(target, options)
        ending = f"it ends once idle for {render_duration(longest)}, or by serve --stop"
        print(ending, file=sys.stderr)
    elif idle != DEFAULT_IDLE or port not in (0, running.port):
        kept = "a server runs already and keeps its --idle and --port"
        print(f"{kept}; do: serve --stop, then again", file=sys.stderr)
    print(running.url)


def _check_kind(target: Target) -> None:
    """Refuses a target whose Spark cannot be kept warm.

    Raises:
        ConfigurationError: its Spark is elsewhere.
    """
    if is_on_this_machine(target):
        return
    expected = "local, with its lake on this machine"
    action = "ask there; `lakehouse sql` and the others do so by themselves"
    raise ConfigurationError(f"target {target.name}", "kind", target.kind, expected, action)


def stop_server(server: Server) -> str:
    """Ends the server, unless it has just ended; returns what to say of it."""
    with suppress(ProcessLookupError):
        _end_process(server)
    return f"the server, process {server.pid}, is stopped"


def _end_process(server: Server) -> None:
    """Asks the server's process to end, and ends it if it does not.

    Raises:
        ProcessLookupError: the process has ended already.
    """
    os.kill(server.pid, signal.SIGTERM)
    until = time.monotonic() + LONGEST_STOP
    while server.is_current and time.monotonic() < until:
        time.sleep(0.05)
    if server.is_current:
        os.kill(server.pid, signal.SIGKILL)


def _be_server(target: Target, port: int, longest: int) -> None:
    """Serves until a signal, until idle, or until another server has taken its place.

    Raises:
        SparkUnavailable: Spark does not start, or its Java has ended.
    """
    from gold.views.catalog import ServedCatalog
    from lakehouse.spark.session import java_has_ended

    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    spark, server = start_server(target, port)
    try:
        catalog = ServedCatalog(Lake(spark, target))
        server, use = _refresh_catalog(target, catalog, server), LastUse(partial(last_used, spark))
        while not stop.is_set() and not use.is_idle(longest):
            stop.wait(GLANCE_SECONDS)
            if not is_own(target, server):
                break
            server = _refresh_catalog(target, catalog, server)
    finally:
        remove_server(target, server)
        if not java_has_ended():
            spark.stop()


def _refresh_catalog(target: Target, catalog: "ServedCatalog", server: Server) -> Server:
    """Refreshes the catalog if views have changed; returns the server as its file records it."""
    from gold.views.catalog import digest_of_views

    shown = digest_of_views(target)
    if shown == server.shown:
        return server
    lines = catalog.refresh()
    if not server.shown:
        lines += catalog.warm_up(server.url)
    for line in lines:
        print(line, file=sys.stderr, flush=True)
    server = server.model_copy(update={"shown": shown})
    write_server(target, server)
    return server


class LastUse:
    """When a client last used the server; `ask` asks Java, which happens every few seconds."""

    def __init__(self, ask: Callable[[], float]) -> None:
        """Begin with now."""
        self._ask = ask
        self._used, self._asked = time.time(), time.monotonic()

    def is_idle(self, longest: float) -> bool:
        """Whether nobody has used the server for longer than that (s), as Java says right now.

        Raises:
            SparkUnavailable: Java has ended.
        """
        from lakehouse.spark.session import java_has_ended

        if java_has_ended():
            raise java_ended()
        is_due = time.monotonic() - self._asked >= ASK_SECONDS
        if is_due or time.time() - self._used > longest:
            self._used, self._asked = max(self._used, self._ask()), time.monotonic()
        return time.time() - self._used > longest

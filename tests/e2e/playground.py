"""PostgreSQL, Kafka and Kafka Connect on this machine, for the page postgresql-kafka.md.

`python -m tests.e2e.playground` prints the variables of the page, and goes on until Ctrl-C.
"""

import signal
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress

from tests.e2e import connector, kafka_broker, parts, postgres


@contextmanager
def playground() -> Iterator[Mapping[str, str]]:
    """An empty database, a broker, and a worker with Debezium; the page's variables."""
    with ExitStack() as running:
        server = postgres.start("playground", content=None)
        running.callback(server.stop)
        node = kafka_broker.new("playground")
        running.callback(node.start().stop)
        worker = connector.worker(node, parts.folder("connect"), server)
        running.callback(worker.start().stop)
        connect = f"http://127.0.0.1:{worker.port}"
        parts.wait_for(lambda: _answers(f"{connect}/connectors"), 240, "Kafka Connect")
        yield {"SOURCE": server.url, "BROKERS": node.servers, "CONNECT": connect}


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=10).close()
    except OSError:
        return False
    return True


def main() -> None:
    """Print the variables, then wait for Ctrl-C."""
    with suppress(KeyboardInterrupt), playground() as variables:
        for name, value in variables.items():
            print(f"export {name}={value}", flush=True)
        signal.pause()


if __name__ == "__main__":
    main()

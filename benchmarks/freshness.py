"""Freshness: from the commit at the source to the row in gold, under a steady stream of changes.

PostgreSQL → Debezium → Kafka → `lakehouse run --continuous`, or with `lakehouse capture` in place
of Debezium and Kafka, all on this machine:

    tests/e2e/install.sh && python -m benchmarks.freshness [--rate 500] [--seconds 60] [--keep]
    python -m benchmarks.freshness --way capture

A change is visible in gold once gold's view reads the batch of the change log that brought it, or
the table that it was merged into; which batches the views read is looked at ten times a second. All
clocks are this machine's.
"""

import argparse
import re
import shlex
import signal
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

import yaml
from pyspark.sql import functions as F

from benchmarks import page
from benchmarks.result import Line, Result, keep, machine
from benchmarks.result import table as table_of
from lakehouse.config.target import Target
from lakehouse.spark.session import get_spark
from lakehouse.storage.lake import Lake
from lakehouse.storage.names import table_name
from lakehouse.storage.views import load_views
from tests.e2e import connector, kafka_broker, parts, postgres
from tests.e2e.live import ends, lakehouse, project
from tests.e2e.parts import Process
from tests.e2e.postgres import Postgres
from tests.e2e.test_live import configuration

Shown = dict[str, list[tuple[float, int]]]
QUESTION = "From a commit in PostgreSQL to gold"
WAYS = {"kafka": "", "capture": ", without Kafka"}
BULK = 200_000
_LAST = re.compile(r"_batch <= (\d+)")
TABLES = ("orders", "order_items", "products", "customers")
STATEMENTS = (
    "UPDATE shop.orders SET total = total + 1 WHERE id = %s",
    "UPDATE shop.order_items SET qty = qty + 1 WHERE order_id = %s AND line_no = 0",
    "UPDATE shop.products SET price = price + 0.01 WHERE sku = 'P' || %s",
    "UPDATE shop.customers SET name = name || 'x' WHERE id = %s",
)


def main() -> None:
    """Measure and print, and keep it if that is wanted."""
    given = argparse.ArgumentParser(description="Freshness under a steady stream of changes.")
    given.add_argument("--way", choices=WAYS, default="kafka", help="what brings the changes")
    given.add_argument("--rate", type=int, default=500, help="changes a second over 4 tables")
    given.add_argument("--seconds", type=float, default=60.0)
    given.add_argument("--warm-up", type=float, default=200.0, help="seconds that do not count")
    given.add_argument("--interval", default="1s", help="of lakehouse run --continuous")
    given.add_argument("--keep", action="store_true", help="write results/ and docs/benchmarks")
    options = given.parse_args()
    root, server, facts = parts.folder("freshness"), postgres.start("freshness"), list[str]()
    try:
        begun, ended, shown = measure(root, server, options, facts)
    finally:
        for process in parts.STARTED:
            process.kill()
        server.stop()
    ages = delays(root, begun, ended, shown)
    result = summed_up(ages, options, facts)
    print(f"{result.subject}\n\n{table_of(result.lines)}")
    if options.keep:
        keep(result)
        page.write()


def measure(
    root: Path, server: Postgres, options: argparse.Namespace, facts: list[str]
) -> tuple[float, float, Shown]:
    """Run everything; the span in which changes count, without the warm-up, and what was shown."""
    if options.way == "capture":
        server.execute("DROP PUBLICATION shop")
        facts.append(capture_much(root.with_name(f"{root.name}-bulk"), server))
    fill(server)
    captures = options.way == "capture"
    conf, capture = through_capture(root, server) if captures else through_kafka(root, server)
    running = lakehouse(
        conf, root, "run", "--continuous", "--interval", options.interval, ready="inserted"
    )
    stop, shown = threading.Event(), Shown()
    writing = threading.Thread(target=write, args=(server, options.rate, stop))
    looking = threading.Thread(target=look, args=(Target(root=str(root)), shown, stop))
    writing.start()
    looking.start()
    time.sleep(options.warm_up)
    begun = time.time()
    time.sleep(options.seconds)
    ended = time.time()
    time.sleep(15)
    if captures:
        facts.append(f"stream: {peak_memory(capture)} MB")
    stop.set()
    writing.join()
    looking.join()
    assert running.stop(120, signal.SIGINT) == 0, running.said()[-2000:]
    return begun, ended, shown


def through_kafka(root: Path, server: Postgres) -> tuple[Path, Process]:
    """A broker, and Kafka Connect with Debezium."""
    node = kafka_broker.new("freshness")
    node.start()
    topics = [f"shop.shop.{table}" for table in TABLES]
    for topic in topics:
        node.create(topic)
    kafka = {"topic": ",".join(topics), "bootstrap_servers": node.servers}
    conf = configuration(root, {"kafka": kafka})
    only(conf)
    connect = connector.worker(node, root / "connect", server)
    process = connect.start()
    connect.capture(process)
    return conf, process


def through_capture(root: Path, server: Postgres) -> tuple[Path, Process]:
    """`lakehouse capture`, and nothing else."""
    conf = draft_capture(root, server, *TABLES)
    return conf, lakehouse(conf, root, "capture", ready="streaming", log="capture.log")


def draft_capture(root: Path, server: Postgres, *tables: str) -> Path:
    """The configuration of a capture of these tables."""
    conf = project(root)
    for table in tables:
        ends(conf, root, "init", table, "--source", server.url, "--capture")
    only(conf)
    file = conf / "capture.yml"
    wanted = {"tables": [f"shop.{table}" for table in tables]}
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | wanted))
    return conf


def capture_much(root: Path, server: Postgres) -> str:
    """Events a second of many rows, written by transactions of a thousand, and the memory."""
    root.mkdir()
    server.execute("CREATE TABLE shop.bulk (id int PRIMARY KEY, n int, t text, at timestamptz)")
    conf = draft_capture(root, server, "bulk")
    process = lakehouse(conf, root, "capture", ready="streaming", log="capture.log")
    begun = time.monotonic()
    for at in range(0, BULK, 1000):
        row = "g, g, md5(g::text), now()"
        server.execute(
            f"INSERT INTO shop.bulk SELECT {row} FROM generate_series({at}, {at + 999}) g"
        )
    landing = root / "landing" / "shop"
    parts.wait_for(lambda: captured_records(landing) >= BULK, 300, "all rows")
    seconds, memory = time.monotonic() - begun, peak_memory(process)
    process.stop()
    ends(conf, root, "capture", "--drop", "--yes")
    server.execute("DROP TABLE shop.bulk")
    return f"backlog: {BULK / seconds:,.0f} events a second, {memory} MB"


def captured_records(landing: Path) -> int:
    """How many records the names of the files count."""
    ends_of = [file.name.split(".")[0].split("-") for file in landing.glob("*.jsonl.gz")]
    return sum(int(last) - int(first) + 1 for first, last in ends_of)


def peak_memory(process: Process) -> int:
    """The most memory that a process has had so far, in MB."""
    status = Path(f"/proc/{process.popen.pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) // 1024


def fill(server: Postgres) -> None:
    """A thousand rows per table."""
    rows = "FROM generate_series(1, 1000) g"
    server.execute(
        f"INSERT INTO shop.customers(email, name) SELECT g || '@x', 'n' {rows}",
        f"INSERT INTO shop.products(sku, name, price) SELECT 'P' || g, 'n', g {rows}",
        f"INSERT INTO shop.orders(customer_id, total) SELECT g, 1 {rows}",
        f"INSERT INTO shop.order_items SELECT g, 0, 'P' || g, 1, 1 {rows}",
    )


def only(conf: Path) -> None:
    """Keep the four tables; current rows only, as the seed has them."""
    for file in (conf / "tables").iterdir():
        if file.stem not in TABLES:
            file.unlink()
            continue
        table = yaml.safe_load(file.read_text())
        for key in ("stored_as_scd_type", "track_history_except_column_list", "expectations"):
            table.pop(key, None)
        file.write_text(yaml.safe_dump(table))


def write(server: Postgres, rate: int, stop: threading.Event) -> None:
    """One change per transaction, at a steady rate."""
    begun, done = time.monotonic(), 0
    with server.connect() as connection:
        while not stop.is_set():
            due = int((time.monotonic() - begun) * rate)
            for at in range(done, due):
                connection.execute(STATEMENTS[at % 4].encode(), [str(at // 4 % 1000 + 1)])
            done = max(done, due)
            time.sleep(0.005)


def look(target: Target, shown: Shown, stop: threading.Event) -> None:
    """Notes when the view of what waits of a table was first seen to have a batch."""
    while not stop.wait(0.1):
        now, views = time.time(), load_views(target, "silver")
        for table in TABLES:
            view = views.get(f"{table}_pending")
            newest = shown.get(table, [(0.0, 0)])[-1][1]
            batch = max(map(int, _LAST.findall(view.query)), default=0) if view else 0
            if batch > newest:
                shown.setdefault(table, []).append((now, batch))


def delays(root: Path, begun: float, ended: float, shown: Shown) -> list[float]:
    """Seconds from commit to visible, of every change that was committed in the span."""
    target = Target(root=str(root), master="local[2]")
    spark = get_spark(target)
    span = (datetime.fromtimestamp(at, timezone.utc) for at in (begun, ended))
    first, last = (f"timestamp '{at:%Y-%m-%d %H:%M:%S.%f}'" for at in span)
    found: list[float] = []
    for table in TABLES:
        log = spark.table(table_name(target, "silver", f"{table}_changes"))
        changes = log.where(f"_operation = 'upsert' AND _source_time BETWEEN {first} AND {last}")
        at = changes.groupBy("_batch").agg(
            F.collect_list(F.unix_micros("_source_time")).alias("at")
        )
        visible = commits(Lake(spark, target), table)
        for number in visible:
            seen = [when for when, until in shown.get(table, []) if until >= number]
            visible[number] = min([visible[number], *seen[:1]])
        for row in at.collect():
            found += [visible[row["_batch"]] - micros / 1e6 for micros in row["at"]]
    return found


def commits(lake: Lake, table: str) -> dict[int, float]:
    """When each batch of a table was merged: the commit that follows its log's."""
    log = _history(lake, f"{table}_changes", "WRITE")
    applied = _history(lake, table, "MERGE", "WRITE")
    rows = lake.spark.table(lake.name("silver", f"{table}_changes"))
    numbers = sorted(row[0] for row in rows.select("_batch").distinct().collect())
    assert len(numbers) == len(log), (table, len(numbers), len(log))
    return {
        number: min((at for at in applied if at >= logged), default=float("inf"))
        for number, logged in zip(numbers, log, strict=True)
    }


def _history(lake: Lake, table: str, *operations: str) -> list[float]:
    shown = lake.spark.sql(f"DESCRIBE HISTORY {lake.name('silver', table)}")
    rows = shown.where(F.col("operation").isin(*operations)).select(F.unix_micros("timestamp"))
    return sorted(row[0] / 1e6 for row in rows.collect())


def summed_up(ages: Sequence[float], options: argparse.Namespace, facts: Sequence[str]) -> Result:
    """The median and the 95th percentile of the seconds from commit to visible."""
    cuts = statistics.quantiles(ages, n=100)
    lines = [Line("median", [round(cuts[49], 3)]), Line("95th percentile", [round(cuts[94], 3)])]
    changes = f"{len(ages):,} changes, {options.rate} a second over {len(TABLES)} tables"
    subject = "; ".join([changes, *facts])
    arguments = [word for word in sys.argv[1:] if word != "--keep"]
    command = f"python -m benchmarks.freshness {shlex.join(arguments)}".strip()
    made = f"{datetime.now(timezone.utc):%Y-%m-%d}, {machine()}"
    name = "freshness" if options.way == "kafka" else f"freshness-{options.way}"
    return Result(name, f"{QUESTION}{WAYS[options.way]}", subject, command, made, lines)


if __name__ == "__main__":
    main()

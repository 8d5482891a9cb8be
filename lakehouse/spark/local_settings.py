"""Settings of a local Spark, and the jars that it loads."""

import hashlib
import os
import sys
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias
from urllib.error import URLError

from lakehouse.config.target import Target
from lakehouse.errors import SparkUnavailable
from lakehouse.places.place import write_whole
from lakehouse.places.settings import is_object_url, spark_settings, uses_stores
from lakehouse.spark.scratch import scratch_folder, socket_folder, temporary_folder

Progress: TypeAlias = Callable[[str], object]
"""Called with a line about the work in progress."""

CENTRAL = "https://repo1.maven.org/maven2"


class Jar(NamedTuple):
    """A jar by its Maven coordinates and the SHA-256 digest of its content."""

    group: str
    module: str
    version: str
    digest: str

    @property
    def file(self) -> str:
        """Its file name, as Maven writes it."""
        return f"{self.module}-{self.version}.jar"

    @property
    def url(self) -> str:
        """Where Maven Central keeps it."""
        return f"{CENTRAL}/{self.group.replace('.', '/')}/{self.module}/{self.version}/{self.file}"


def fetch_jars(jars: Sequence[Jar], folder: Path, progress: Progress = str) -> list[Path]:
    """The jars' files in the folder; missing ones are downloaded, which `progress` is told.

    Raises:
        SparkUnavailable: a jar cannot be downloaded, or has another digest.
    """
    return [_find_or_fetch(jar, folder / jar.file, progress) for jar in jars]


def _find_or_fetch(jar: Jar, file: Path, progress: Progress) -> Path:
    if not file.exists():
        progress(f"downloading {jar.file}")
        write_whole(file, _fetch_jar(jar, file))
    if hashlib.sha256(file.read_bytes()).hexdigest() != jar.digest:
        problem = f"{file} is not the jar of that name"
        raise SparkUnavailable(problem, f"put {jar.url} there", jar.file)
    return file


def _fetch_jar(jar: Jar, file: Path) -> bytes:
    try:
        with urllib.request.urlopen(jar.url, timeout=60) as answer:
            content: bytes = answer.read()
    except (URLError, OSError) as failure:
        raise SparkUnavailable(
            f"{jar.url}: {failure}", f"make it reachable, or put it at {file}", jar.file
        ) from failure
    return content


# Compiling a query costs more than running it where there is this little to read.
SMALL = 64 << 20
SETTINGS_OF_SMALL_LAKES = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}

# Hadoop keeps a checksum file beside every local file, and runs a program (chmod, readlink) several
# times for each of both: 1,500 in a demo. Parquet has checksums of its own. A rename of Hadoop's
# FileContext runs four more; the last two settings use FileSystem, which also writes a temporary
# file and checks the new name before it renames.
_STREAMING = "org.apache.spark.sql.execution.streaming.checkpointing"
LOCAL_FILES = {
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
    "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
    "spark.sql.streaming.checkpointFileManagerClass": (
        f"{_STREAMING}.FileSystemBasedCheckpointFileManager"
    ),
}
# Parquet gives up a column's dictionary when it has so many bytes, 1 MiB by default. Nearly all
# keys and positions of a batch differ, so that a large dictionary is built in vain.
SMALL_DICTIONARIES = {"spark.hadoop.parquet.dictionary.page.size": str(64 << 10)}

# Large pages where Java asks for them, and programs started without a copy of Java's memory map.
LINUX_JAVA = "-XX:+UseTransparentHugePages -Djdk.lang.Process.launchMechanism=VFORK"

JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def local_settings(target: Target, cores: int, open_ended: bool = False) -> dict[str, str]:
    """Spark's settings for a local lake: few tasks, no UI, everything written below root.

    For a small lake queries are interpreted, with Java's quick compiler only: the thorough one
    takes longer than it saves in a short run. For a larger lake, or `open_ended` work, all is
    compiled. For a read-only lake nothing is written below root.
    """
    small = not open_ended and is_small(target)
    folder = str(temporary_folder(target.lake))
    return {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": f"{scratch_folder(target.lake)}/_warehouse",
        "spark.local.dir": folder,
        JAVA_OPTIONS: _java_options(target, folder, small),
        # The client of a store writes its temporary files by Hadoop's own class of local files.
        **({} if uses_stores(target) else LOCAL_FILES),
        **SMALL_DICTIONARIES,
        "spark.driver.memory": target.driver_memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(min(max(cores, 2), 4)),
        "spark.databricks.delta.snapshotPartitions": "1",
        # By default Delta writes a checkpoint of a new table every tenth commit, which takes longer
        # than reading fifty of these small commits.
        "spark.databricks.delta.properties.defaults.checkpointInterval": "50",
        # Spark's default is to keep 100 compiled classes, fewer than many tables need.
        "spark.sql.codegen.cache.maxEntries": "1000",
        # Rows of more than 100 columns would be interpreted, and read from Parquet one by one.
        "spark.sql.codegen.maxFields": "1000",
        # The parts of a union would be written out row by row for whatever reads them.
        "spark.sql.codegen.wholeStage.union.enabled": "true",
        # Times as whole numbers: Spark's own twelve bytes are slower to write and larger.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # VACUUM lists a table's files in so many tasks, 10,000 by default.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
        "spark.sql.session.timeZone": "UTC",
        # CSV files in windows-1252 and others: without it Spark takes seven encodings only.
        "spark.sql.legacy.javaCharsets": "true",
        # PySpark would ask Java six times more for every function in an expression.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # What a MERGE takes in is computed once, and not again for each of its three passes.
        "spark.databricks.delta.merge.materializeSource": "all",
        **(SETTINGS_OF_SMALL_LAKES if small else {}),
        "spark.sql.redaction.options.regex": "(?i)url|password|secret|token|jaas|sasl|keystore",
        **spark_settings(target),
    }


def _java_options(target: Target, temporary: str, small: bool) -> str:
    options = [
        "-XX:ReservedCodeCacheSize=512m -XX:MetaspaceSize=256m -XX:+UseParallelGC",
        # Java leaves long methods interpreted; a row of many columns makes such.
        "-XX:-DontCompileHugeMethods",
        f"-Xms{target.driver_memory} -Duser.timezone=UTC",
        *([LINUX_JAVA] if sys.platform == "linux" else []),
        *(["-XX:TieredStopAtLevel=1"] if small else []),
        f'-Djava.io.tmpdir="{temporary}"',
    ]
    return " ".join(options)


def is_small(target: Target) -> bool:
    """Whether the lake and its landing files are less than `SMALL` bytes; stops counting there.

    False for object stores, which are not counted, and for clusters.
    """
    if target.kind == "cluster" or any(map(is_object_url, (target.lake, target.landing))):
        return False
    total = 0
    for folder in (target.lake, target.landing):
        for place, _, files in os.walk(folder):
            total += sum(_file_size(Path(place, file)) for file in files)
            if total >= SMALL:
                return False
    return True


def _file_size(file: Path) -> int:
    """The bytes of a file; 0 if it was removed meanwhile."""
    try:
        return file.stat().st_size
    except OSError:
        return 0


def socket_settings(target: Target) -> dict[str, str]:
    """Spark's settings for Unix domain sockets between Java and Python, if the system has them.

    Over TCP, Spark's default, large batches in both directions stood still for minutes on Linux
    6.18: the kernel dropped packets when a receive buffer was full.
    """
    folder = socket_folder()
    if folder is None or target.kind == "cluster":  # no other machine has the folder
        return {}
    option = "spark.python.unix.domain.socket"
    return {f"{option}.enabled": "true", f"{option}.dir": str(folder)}


def jar_settings(jars: Sequence[Jar], folder: Path, progress: Progress = str) -> dict[str, str]:
    """Spark's settings for these jars, and none of the same modules from Maven's repositories."""
    if not jars:
        return {}
    modules = ",".join(f"{jar.group}:{jar.module}" for jar in jars)
    files = ",".join(str(file) for file in fetch_jars(jars, folder, progress))
    return {"spark.jars.excludes": modules, "spark.jars": files}

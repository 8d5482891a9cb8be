"""A lake as a kill would have left it: copies of its files, taken while a run writes them.

Java is stopped for each copy, so that it shows one moment. A copy is put back in its own place, as
a lake knows the files that it has read by their paths.
"""

import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path

from pyspark.sql import SparkSession

EVERY_SECONDS = 0.1
NOT_KEPT = shutil.ignore_patterns("_tmp", "_warehouse", "_locks", "_logs")


class Moments(threading.Thread):
    """Copies the folder `lake` into `kept`, once for each of its states, as long as it lasts."""

    def __init__(self, lake: Path, kept: Path) -> None:
        super().__init__(daemon=True)
        self.lake, self.kept = lake, kept
        self.java = int(_java())
        self.ended = threading.Event()

    def __enter__(self) -> "Moments":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.join()

    def run(self) -> None:
        last: list[Path] = []
        number = 0
        while not self.ended.wait(EVERY_SECONDS):
            os.kill(self.java, signal.SIGSTOP)
            try:
                now = sorted(self.lake.rglob("*"))
                if now != last:
                    shutil.copytree(self.lake, self.kept / f"{number:04d}", ignore=NOT_KEPT)
                    last, number = now, number + 1
            except OSError:
                # What Python itself was writing has gone meanwhile: that is no one moment.
                shutil.rmtree(self.kept / f"{number:04d}", ignore_errors=True)
            finally:
                os.kill(self.java, signal.SIGCONT)


def restore(spark: SparkSession, kept: Path, root: Path) -> None:
    """Puts the copy of a lake in place of all that lies below `root`."""
    shutil.rmtree(root)
    shutil.copytree(kept, root / "lake")
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def _java() -> str:
    """The number of this process's own Java."""
    found = subprocess.run(
        ["pgrep", "-P", str(os.getpid()), "java"], capture_output=True, text=True, check=True
    )
    return found.stdout.split()[0]

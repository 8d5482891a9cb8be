"""Spark's settings for a cluster: the driver's address, and the code for the workers.

The workers run this process's Python functions. They get the lakehouse's packages as a zip with
each application. Python and its libraries must be installed there, or come in an archive that the
target's settings name (`spark.archives` and `spark.pyspark.python`).
"""

import importlib
import socket
import zipfile
from pathlib import Path
from urllib.parse import urlsplit

from lakehouse.config.target import Target
from lakehouse.places.settings import spark_settings

PACKAGES = ("lakehouse", "bronze", "silver", "gold", "cdc_lakehouse")
_OF_THIS_MACHINE = ("spark.local.dir", "spark.driver.host", "spark.driver.bindAddress")


def cluster_settings(target: Target, settings: dict[str, str], folder: Path) -> dict[str, str]:
    """The settings of a local Spark without those that are valid on one machine only.

    The zip for the workers is written to the folder.
    """
    kept = {key: text for key, text in settings.items() if key not in _OF_THIS_MACHINE}
    host = _own_address(target.master)
    driver = {"spark.driver.host": host} if host else {}
    packages = {"spark.submit.pyFiles": str(write_packages(folder))}
    return driver | packages | kept | spark_settings(target)


def write_packages(folder: Path) -> Path:
    """A zip of the lakehouse's packages as they are imported here."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "cdc_lakehouse.zip"
    aside = file.with_suffix(".part")
    with zipfile.ZipFile(aside, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in PACKAGES:
            package = Path(str(importlib.import_module(name).__file__)).parent
            for source in sorted(package.rglob("*.py")):
                packed.write(source, source.relative_to(package.parent))
    aside.replace(file)
    return file


def _own_address(master: str) -> str | None:
    """This machine's address for a standalone master; None for any other cluster."""
    place = urlsplit(master)
    if place.scheme != "spark" or place.hostname is None:
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:  # nothing is sent
        probe.connect((place.hostname.partition(",")[0], place.port or 7077))
        return str(probe.getsockname()[0])

"""An S3-compatible server of this machine, started anew and empty."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError

from lakehouse.config.target import Target

BUCKET = "lake"
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "tests",
    "AWS_SECRET_ACCESS_KEY": "tests-secret",
    "AWS_REGION": "us-east-1",
}


@contextmanager
def object_store(folder: Path) -> Iterator[str]:
    """The server's URL; it has one empty bucket."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", port]
    with (folder / "moto.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | ENVIRONMENT)
    url = f"http://127.0.0.1:{port}"
    try:
        _make_bucket(server, url)
        yield url
    finally:
        server.terminate()
        server.wait(60)


def store_target(url: str, **more: str) -> Target:
    """A target whose lake lies in the server's bucket."""
    settings = {
        "spark.hadoop.fs.s3a.endpoint": url,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.access.key": "tests",
        "spark.hadoop.fs.s3a.secret.key": "tests-secret",
    }
    return Target.model_validate({"root": f"s3a://{BUCKET}/shop", "settings": settings, **more})


def _make_bucket(server: "subprocess.Popen[bytes]", url: str) -> None:
    until = time.monotonic() + 120
    while True:
        try:
            request = urllib.request.Request(f"{url}/{BUCKET}", method="PUT")
            with urllib.request.urlopen(request, timeout=10):
                return
        except URLError:
            assert server.poll() is None and time.monotonic() < until
            time.sleep(0.1)

import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse.config.target import Target
from lakehouse.errors import SparkUnavailable
from lakehouse.spark.cluster import cluster_settings
from lakehouse.spark.local_settings import SMALL, local_settings
from lakehouse.spark.session import (
    _start_context,
    find_download,
    get_spark,
    secrets_in_file,
)

ROOT = Path(__file__).parents[3]


def test_everything_that_spark_writes_lies_below_the_root() -> None:
    settings = local_settings(Target(root="/r"), cores=2)
    places = [settings[key] for key in ("spark.sql.warehouse.dir", "spark.local.dir")]
    assert all(Path(place).is_relative_to("/r/lake") for place in places)


def test_there_are_two_to_four_shuffle_partitions() -> None:
    key = "spark.sql.shuffle.partitions"
    target = Target(root="/r")
    assert [local_settings(target, cores)[key] for cores in (1, 3, 64)] == ["2", "3", "4"]


def test_a_lake_that_holds_little_has_its_queries_interpreted(tmp_path: Path) -> None:
    target = Target(root=str(tmp_path))
    assert local_settings(target, cores=2)["spark.sql.codegen.wholeStage"] == "false"
    assert "spark.sql.codegen.wholeStage" not in local_settings(target, cores=2, open_ended=True)
    place = tmp_path / "landing" / "t"
    place.mkdir(parents=True)
    with (place / "1.jsonl").open("wb") as file:
        file.truncate(SMALL)
    assert "spark.sql.codegen.wholeStage" not in local_settings(target, cores=2)


def test_a_server_that_is_not_there_is_told_at_once() -> None:
    nowhere = Target(kind="connect", root="/r", remote="sc://127.0.0.1:1")
    with pytest.raises(
        SparkUnavailable, match=r"sc://127.0.0.1:1: .*refused(.|\n)*start the server"
    ):
        get_spark(nowhere)


IVY = """Ivy Default Cache set to: {0}/cache
The jars for the packages stored in: {0}/jars
\tfound io.delta#delta-spark_4.2_2.13;4.4.0 in central
\tfound io.delta#delta-storage;4.4.0 in central
"""
FETCHED = """downloading https://repo1.maven.org/maven2/io/delta/a/4.4.0/a-4.4.0.jar ...
\t[SUCCESSFUL ] io.delta#a;4.4.0!a.jar (140ms)
downloading https://repo1.maven.org/maven2/io/delta/b/4.4.0/b-4.4.0.jar ...
"""


def test_a_download_of_jars_is_told(tmp_path: Path) -> None:
    began = IVY.format(tmp_path)
    assert find_download("WARNING: Using incubator modules") is None
    assert find_download(began) == "downloading what describes the jars, 2 so far"
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "c.jar").touch()
    assert find_download(began) is None
    assert find_download(began + FETCHED) == "downloading b-4.4.0.jar, jar 2 of at most 2"
    assert find_download(f"{began}{FETCHED}:: resolution report :: resolve 9ms") is None


STARTING = """
import subprocess, sys, time
from pathlib import Path
from cdc_lakehouse.terminal import console
from lakehouse.spark import session
console.HEARTBEAT_SECONDS = session.LOOK_SECONDS = 0.05
log = Path(sys.argv[1])
with (
    console.show_progress("starting Spark") as tell,
    session.output_of_java_to(log),
    session._report_downloads(log, tell),
):
    subprocess.run(["sh", "-c", "echo from Java >&2; echo Deleted 1 files"], check=True)
    print("an answer")
    time.sleep(0.5)
    subprocess.run(["cat", sys.argv[2]], check=True)
    time.sleep(0.5)
print("done", file=sys.stderr)
print("another")
"""


def test_progress_is_told_while_what_java_says_goes_to_its_log(tmp_path: Path) -> None:
    log, ivy = tmp_path / "logs" / "spark.log", tmp_path / "ivy"
    ivy.write_text(IVY.format(tmp_path) + FETCHED)
    command = [sys.executable, "-c", STARTING, str(log), str(ivy)]
    ran = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    *beats, last = ran.stderr.splitlines()
    download = "starting Spark: downloading b-4.4.0.jar, jar 2 of at most 2"
    assert beats[0] == "starting Spark (0 s)" and last == "done"
    assert any(beat.startswith(f"{download} (") for beat in beats)
    assert ran.stdout == "an answer\nanother\n"
    assert log.read_text() == f"from Java\nDeleted 1 files\n{ivy.read_text()}"


def test_java_is_told_secrets_in_a_file_that_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    key = "spark.hadoop.fs.s3a.secret.key"
    settings = {key: "x", "spark.hadoop.fs.s3a.access.key": "y", "spark.ui.enabled": "false"}
    with secrets_in_file(settings, tmp_path):
        (file,) = tmp_path.iterdir()
        assert file.stat().st_mode & 0o077 == 0
        assert file.read_text() == f"spark.hadoop.fs.s3a.access.key y\n{key} x\n"
        assert os.environ["PYSPARK_SUBMIT_ARGS"] == f"--properties-file {file} pyspark-shell"
    assert list(tmp_path.iterdir()) == [] and "PYSPARK_SUBMIT_ARGS" not in os.environ


def test_a_cluster_is_told_nothing_that_holds_on_one_machine_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORE_KEY", "k")
    key = "spark.hadoop.fs.s3a.access.key"
    own = {key: "env:STORE_KEY", "spark.driver.bindAddress": "0.0.0.0"}
    target = Target.model_validate(
        {"kind": "cluster", "master": "spark://127.0.0.1:7077", "root": "s3a://b", "settings": own}
    )
    told = cluster_settings(target, local_settings(target, cores=2), tmp_path)
    assert told["spark.driver.host"] == "127.0.0.1" and "spark.local.dir" not in told
    assert told[key] == "k" and told["spark.driver.bindAddress"] == "0.0.0.0"
    with zipfile.ZipFile(told["spark.submit.pyFiles"]) as packed:
        assert {"silver/fold/law.py", "lakehouse/__init__.py"} <= {*packed.namelist()}
    yarn = target.model_copy(update={"master": "yarn", "settings": {}})
    assert "spark.driver.host" not in cluster_settings(yarn, {}, tmp_path)


def test_a_java_that_is_being_started_ends_with_the_start_that_was_broken_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def start(*_: object) -> None:
        started.append(subprocess.Popen(["sleep", "600"]))
        raise KeyboardInterrupt

    monkeypatch.setattr("pyspark.SparkContext.getOrCreate", start)
    with pytest.raises(KeyboardInterrupt):
        _start_context(SparkSession.Builder())
    assert started[0].wait(10) == -signal.SIGKILL

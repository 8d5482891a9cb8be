from pathlib import Path

import pytest

from lakehouse.errors import SparkUnavailable
from lakehouse.local_settings import SMALL, local_settings
from lakehouse.session import get_spark
from lakehouse.target import Target


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

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from bronze.streams import run_to_end


def lines_of(spark: SparkSession, folder: Path, seen: list[int]) -> DataStreamWriter:
    """A stream of the lines of the folder's files, which notes how many each batch has."""

    def note(batch: DataFrame, batch_id: int) -> None:
        seen.append(batch.count())

    stream = spark.readStream.text(str(folder / "in")).writeStream.foreachBatch(note)
    return stream.option("checkpointLocation", str(folder / "checkpoint"))


def test_a_batch_without_input_rows_counts_as_moved_and_an_idle_stream_does_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    seen: list[int] = []
    (tmp_path / "in" / "empty.txt").write_text("")
    assert run_to_end(lines_of(spark, tmp_path, seen))
    assert sum(seen) == 0
    assert not run_to_end(lines_of(spark, tmp_path, seen))
    (tmp_path / "in" / "one.txt").write_text("one\n")
    assert run_to_end(lines_of(spark, tmp_path, seen))
    assert sum(seen) == 1

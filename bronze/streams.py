"""Streams that end when they have shown what there was."""

from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.readwriter import DataStreamWriter


def run_to_end(stream: DataStreamWriter) -> bool:
    """Run the stream over all that is there now; whether that was anything.

    Raises:
        StreamingQueryException: a micro-batch failed; the next run shows the same one again.
    """
    query = stream.trigger(availableNow=True).start()
    query.awaitTermination()
    return any(_rows(progress) for progress in query.recentProgress)


def _rows(progress: StreamingQueryProgress) -> int:
    """How many rows came in: an attribute since Spark 4, where Connect's key has nothing."""
    return int(getattr(progress, "numInputRows", None) or progress.get("numInputRows") or 0)

"""Streams that end when they have read what there was."""

from pyspark.sql.streaming.readwriter import DataStreamWriter


def run_to_end(stream: DataStreamWriter) -> bool:
    """Run the stream over all that is there now; whether a source of it may have moved on.

    The offsets tell: serverless compute reports 0 input rows for every batch of `foreachBatch`.
    A stream that reports no progress may have moved on, too.

    Raises:
        StreamingQueryException: a micro-batch failed; the next run reads the same one again.
    """
    query = stream.trigger(availableNow=True).start()
    query.awaitTermination()
    sources = [source for progress in query.recentProgress for source in progress["sources"]]
    return not sources or any(source["startOffset"] != source["endOffset"] for source in sources)

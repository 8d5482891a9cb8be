"""Keeps what differs from batch to batch out of the Java that Spark writes for a stage.

The text of a stage holds the plan's numbers, such as a batch's. With another number it is another
text: compiled anew, and run without what the JVM has learned of it, which costs a batch more than
its work. So numbers stand in small stages, apart from the large ones that decode and compact.
"""

from pyspark.sql import DataFrame

_MORE_TASKS_THAN_ANY = 10_000


def apart(rows: DataFrame) -> DataFrame:
    """The same rows; what is done to them next is a stage of its own.

    A coalesce to more tasks than there are moves no row, and ends Spark's stage.
    """
    return rows.coalesce(_MORE_TASKS_THAN_ANY)

"""Numbers that differ from batch to batch, kept out of the Java that Spark writes for a query.

That text holds numbers and times as they are. With another one it is another text: compiled anew,
twice, and run without what the JVM has learned of it. Texts are handed to it beside it.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F


def as_text(number: int, beside: Column) -> Column:
    """The number as a bigint, the same for every row.

    Args:
        number: the number.
        beside: any text of the row; without it Spark would reckon the number before it writes the
            Java.
    """
    return F.concat_ws("", F.substring(beside, 1, 0), F.lit(str(number))).cast("bigint")

"""What Spark can throw while it reads or writes: PySpark's own, and Java's where it is called."""

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from lakehouse.errors import LakehouseError

SPARK_FAILURES = (PySparkException, Py4JError)
TABLE_FAILURES = (*SPARK_FAILURES, LakehouseError, OSError)
"""What makes one table fail and no other."""

"""Classes of exceptions: failures of Spark, and of one table."""

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

SPARK_FAILURES = (PySparkException, Py4JError)
TABLE_FAILURES = (Exception,)
"""What makes one table fail and no other: anything, Python's own errors included.

A defect in one table's work must not keep the other tables from being done.
"""

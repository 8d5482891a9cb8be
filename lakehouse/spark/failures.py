"""Short messages of failures, without Spark's query plans and stacks."""

import re
from collections.abc import Iterable

TABLE_FAILURES = (Exception,)
"""What makes one table fail and no other: anything, Python's own errors included.

A defect in one table's work must not keep the other tables from being done.
"""

_CAUSE = re.compile(r"Caused by: ((?:[\w$]+\.)*)([\w$]+): (.+)")
_CALLED = re.compile(r"^An error occurred while calling [\w$.]+?\.?\s*\n: ")
_REST = re.compile(r";\n|\n *(?:'|\+-|\tat |JVM stacktrace)")
_STATE = re.compile(r" SQLSTATE: \w{5}")
_CONDITION = re.compile(r"^\[[A-Z_.0-9]+\] .+", re.MULTILINE)
_MOST = 2000
# Names of Delta's conditions and of its exception classes; anything else is not a conflict.
_CONFLICTS = (
    "DELTA_CONCURRENT_APPEND",
    "DELTA_CONCURRENT_DELETE_DELETE",
    "DELTA_CONCURRENT_DELETE_READ",
    "DELTA_CONCURRENT_TRANSACTION",
    "DELTA_CONCURRENT_WRITE",
    "DELTA_METADATA_CHANGED",
    "DELTA_PROTOCOL_CHANGED",
    "ConcurrentAppendException",
    "ConcurrentDeleteDeleteException",
    "ConcurrentDeleteReadException",
    "ConcurrentTransactionException",
    "ConcurrentWriteException",
    "MetadataChangedException",
    "ProtocolChangedException",
)
# Failures of Spark, of the lakehouse and (OSError) of the file system are no defects.
_FORESEEN = ("pyspark", "py4j", "lakehouse", "bronze", "silver", "gold", "cdc_lakehouse")


class FailureText(str):
    """A message; `is_conflict` means that Delta transactions collided and a retry may succeed."""

    is_conflict: bool = False


def describe_failure(failure: BaseException) -> FailureText:
    """A failure's message without Spark's query plan and stack, at most about 2,000 characters.

    An exception that is not raised on purpose is shown with its class, and as a defect.
    """
    text = shorten_failure(failure)
    kind = type(failure).__name__
    said, module = text, type(failure).__module__.partition(".")[0]
    if module not in _FORESEEN and not isinstance(failure, OSError):
        what = kind if text == kind else f"{kind}: {text}"
        said = f"{what} (a defect: --debug shows where)"
    result = FailureText(said)
    result.is_conflict = _names_conflict(said)
    return result


def join_failures(messages: Iterable[str]) -> FailureText:
    """Several messages as one; it is a conflict if one of them is."""
    parts = list(messages)
    result = FailureText("; ".join(parts))
    result.is_conflict = any(isinstance(m, FailureText) and m.is_conflict for m in parts)
    return result


def shorten_failure(failure: BaseException) -> str:
    """A failure's message without query plan and stack, or its class if it has no message.

    The innermost cause in a stack counts, except for conflicts of transactions. At most 2,000
    characters.
    """
    text = _CALLED.sub("", str(failure).strip())
    causes = _CAUSE.findall(text)
    if causes and not _names_conflict(text):
        text = f"{causes[-1][1]}: {causes[-1][2]}"
    elif text.startswith("Traceback"):
        text = (_CONDITION.findall(text) or text.splitlines())[-1]
    return _STATE.sub("", _REST.split(text)[0]).strip()[:_MOST] or type(failure).__name__


def _names_conflict(text: str) -> bool:
    """Whether a text names a conflict of Delta transactions, for which Spark has no class."""
    return any(name in text for name in _CONFLICTS)

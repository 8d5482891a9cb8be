"""What Spark says of a failure, as short as a person needs it."""

import re
from collections.abc import Iterable

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
_FORESEEN = ("pyspark", "py4j", "lakehouse", "bronze", "silver", "gold", "cdc_lakehouse")


class FailureText(str):
    """What is told of a failure; `is_conflict`: Delta transactions collided, so a retry may do."""

    is_conflict: bool = False


def in_short(failure: BaseException) -> FailureText:
    """A failure's message without the query plan and the stack that Spark adds to it.

    A failure that nobody raises on purpose is told with its kind, and as a defect. At most about
    2,000 characters.
    """
    text = shortened(failure)
    kind = type(failure).__name__
    said = text
    if not _is_foreseen(failure):
        what = kind if text == kind else f"{kind}: {text}"
        said = f"{what} (a defect: --debug shows where)"
    told = FailureText(said)
    told.is_conflict = _names_conflict(said)
    return told


def joined(messages: Iterable[str]) -> FailureText:
    """Several failures in one text, which is a conflict where one of them is."""
    parts = list(messages)
    told = FailureText("; ".join(parts))
    told.is_conflict = any(isinstance(m, FailureText) and m.is_conflict for m in parts)
    return told


def shortened(failure: BaseException) -> str:
    """A failure's message alone, without query plan and stack; its kind where it has no message.

    Where a stack names causes the message is the innermost one's, but a conflict between
    transactions keeps its name. At most 2,000 characters.
    """
    text = _CALLED.sub("", str(failure).strip())
    causes = _CAUSE.findall(text)
    if causes and not _names_conflict(text):
        text = f"{causes[-1][1]}: {causes[-1][2]}"
    elif text.startswith("Traceback"):
        text = (_CONDITION.findall(text) or text.splitlines())[-1]
    return _STATE.sub("", _REST.split(text)[0]).strip()[:_MOST] or type(failure).__name__


def _is_foreseen(failure: BaseException) -> bool:
    """Whether Spark, the lakehouse or the file system raises such a failure on purpose."""
    module = type(failure).__module__.partition(".")[0]
    return module in _FORESEEN or isinstance(failure, OSError)


def _names_conflict(text: str) -> bool:
    """Whether Spark's text names a conflict between Delta transactions: it has no class of it."""
    return any(name in text for name in _CONFLICTS)

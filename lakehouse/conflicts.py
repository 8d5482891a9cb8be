"""Conflicts between Delta transactions: the only failures that are tried again at once."""

# Names of Delta's conditions and of its exception classes; anything else is not a conflict.
NAMED = (
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
MOST_TRIES = 4


def is_conflict(message: str | None) -> bool:
    """Whether a failure's message names a conflict with another transaction."""
    return message is not None and any(name in message for name in NAMED)

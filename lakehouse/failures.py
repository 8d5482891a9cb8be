"""What Spark says of a failure, as short as a person needs it."""


def in_short(failure: Exception) -> str:
    """A failure's message without the query plan and the Java stack that Spark adds to it."""
    text = str(failure)
    for tail in ("; line ", ";\n", "\n\tat ", "\nJVM stacktrace"):
        text = text.split(tail)[0]
    return text[:2000]

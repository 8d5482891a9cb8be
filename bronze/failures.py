"""What Spark can throw while it reads or writes, and what of it a person needs to read."""

import re

from lakehouse.spark_failures import SPARK_FAILURES

__all__ = ["SPARK_FAILURES", "cause"]


def cause(failure: Exception) -> str:
    """One line: the deepest cause that the failure names, else its own first line."""
    text = str(failure)
    causes = re.findall(r"Caused by: [\w.$]*?(\w+): (.+)", text)
    if causes:
        return f"{causes[-1][0]}: {causes[-1][1].strip()}"
    conditions: list[str] = re.findall(r"\[[A-Z_.0-9]+\] .+", text)
    lines = conditions[-1:] or text.strip().splitlines()[:1] or [type(failure).__name__]
    return lines[0].split(" SQLSTATE:")[0].strip()

"""Numbers with their nouns, as people read them."""


def counted(count: int, noun: str) -> str:
    """The number and the noun in the form that fits: `1 table`, `2,000 tables`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"

"""Which of a source's columns a table keeps."""

from lakehouse.table import Table


def published(table: Table, name: str) -> bool:
    """Whether a column is one the table keeps, by its column lists."""
    if table.column_list is not None:
        return name in table.column_list
    return name not in (table.except_column_list or [])

"""Which of a source's columns a table keeps."""

from lakehouse.table import Table


def published(table: Table, name: str) -> bool:
    """Whether a column is one the table keeps, by its column lists."""
    if table.column_list is not None:
        return name in table.column_list
    return name not in (table.except_column_list or [])


def adds(table: Table) -> bool:
    """Whether a column that is new at the source may become one of the table's."""
    return table.schema_changes.add_column != "ignore"

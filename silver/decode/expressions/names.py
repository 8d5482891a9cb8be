"""Which columns the SQL expressions of a table's YAML name, and which of them no table holds.

A member whose name begins with an underscore is no column of the table, nor is one that the
table's column lists leave out. An expression may use both: decoders read them as extra columns.
"""

import re
from collections.abc import Collection, Iterator
from difflib import get_close_matches

from lakehouse.config.formats import CHANGE_TYPE, COMMIT_TIME, FEED_ORDER, GOING
from lakehouse.config.records.envelope import FLAGS, NULLS
from lakehouse.config.records.presets import PRESETS
from lakehouse.config.table import Table
from lakehouse.storage.names import literal, quote
from silver.decode.columns import is_published

MEMBER = "__member_"
"""How the names of extra columns begin; the JSON member's name follows."""

FAULT = "__fault"
"""The extra column of format rows that says which operations the row's fault rules out."""

OF_RECORD = "__record."
"""How members of the record around a row are called; their path follows."""

_NAME = r"(?:`(?:[^`]|``)+`|[^\W\d]\w*)"
_PATHS = re.compile(
    rf"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|(?i:\bas\s+\w+)
    |[^\W\d]\w*(?=\s*\()|(?P<path>{_NAME}(?:\.{_NAME})*)|\d\w*""",
    re.VERBOSE,
)
_TOKEN = re.compile(
    r"""(?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    |`(?P<quoted>(?:[^`]|``)+)`
    |(?P<field>(?<=\.)[^\W\d]\w*)
    |(?i:\bas\s+\w+|\b(?:date|timestamp)\s*(?=')|\binterval\s+(?:'[^']*'|\d+)\s+\w+)
    |(?P<call>[^\W\d]\w*)(?=\s*\()
    |(?P<word>[^\W\d]\w*)
    |\d\w*""",
    re.VERBOSE,
)
_OPERATORS = re.compile(r"""['"`()=<>!+*/%,]""")
_NO_COLUMNS = frozenset(
    (
        *("and", "or", "not", "is", "null", "true", "false", "in", "like", "between", "case"),
        *("when", "then", "else", "end", "as", "current_date", "current_timestamp", "user"),
    )
)
_FORGIVING = {
    "cast": "try_cast",
    "element_at": "try_element_at",
    "parse_json": "try_parse_json",
    "to_date": "try_to_date",
    "to_number": "try_to_number",
    "to_timestamp": "try_to_timestamp",
}


def columns_named(expression: str) -> list[str]:
    """The names in an expression that can be columns, in order, each once."""
    names: dict[str, None] = {}
    for token in _TOKEN.finditer(expression):
        if token["quoted"]:
            names[token["quoted"].replace("``", "`")] = None
        elif token["word"] and token["word"].lower() not in _NO_COLUMNS:
            names[token["word"]] = None
    return list(names)


def make_forgiving(expression: str) -> str:
    """The expression with casts and conversions that give null where they cannot convert."""
    return _TOKEN.sub(
        lambda token: _FORGIVING.get((token["call"] or "").lower(), token[0]), expression
    )


def row_orders(table: Table) -> list[str]:
    """The columns and expressions that `sequence_by` names; a Delta table's versions without it."""
    versions = FEED_ORDER if table.reads_versions else []
    return [_in_record(table, order) for order in table.orders] or versions


def deletes_sql(table: Table) -> str | None:
    """The condition of a delete: that of the YAML, or that a Delta table's feed says so."""
    of_feed = f"{CHANGE_TYPE} IN {GOING}" if table.reads_delta else None
    return _join_conditions(table.apply_as_deletes, of_feed)


def truncates_sql(table: Table) -> str | None:
    """The condition of a truncate: that of the YAML, or bronze's mark before a table read anew."""
    read_anew = f"{CHANGE_TYPE} = 'truncate'" if table.reads_versions else None
    return _join_conditions(table.apply_as_truncates, read_anew)


def upserts_sql(table: Table) -> str | None:
    """The condition of an upsert, that of the YAML or of its envelope's values; None for any."""
    parts = table.feeds[0].parts
    if table.apply_as_upserts or parts is None or not parts.upserts:
        return table.apply_as_upserts
    members = (quote(f"{OF_RECORD}{path}") for path in parts.operation)
    operation = f"coalesce({', '.join(f'cast({member} AS string)' for member in members)}, NULL)"
    upserts = parts.upserts
    if parts.has_flag:
        operation = f"lower(trim({operation}))"
        upserts = [*NULLS, *(text for one in upserts for text in FLAGS[one])]
    return f"{operation} IS NULL OR {operation} IN ({', '.join(map(literal, upserts))})"


def filter_sql(table: Table) -> str | None:
    """The condition of records that count: `where` of the table's sources and their envelope."""
    source = table.feeds[0]
    conditions = [source.where, source.parts and source.parts.where]
    return " AND ".join(f"({_in_record(table, one)})" for one in conditions if one) or None


def _in_record(table: Table, expression: str) -> str:
    """The expression with names of members of the record, where rows lie within."""
    parts = table.feeds[0].parts
    if parts is None or not parts.row:
        return expression

    def renamed(token: re.Match[str]) -> str:
        path = token["path"]
        if not path or path.lower() in _NO_COLUMNS:
            return token[0]
        return f"`{OF_RECORD}{path.replace('`', '')}`"

    return _PATHS.sub(renamed, expression)


def _join_conditions(condition: str | None, of_feed: str | None) -> str | None:
    return f"({condition}) OR {of_feed}" if condition and of_feed else condition or of_feed


def row_expressions(table: Table) -> list[str]:
    """The expressions that decide the order and the operations of a table's rows."""
    ends = (truncates_sql(table), deletes_sql(table), upserts_sql(table))
    return [*row_orders(table), *filter(None, [filter_sql(table), *ends])]


def time_columns(table: Table) -> list[str]:
    """The columns that `source.time_column` of the table's feeds name; of Delta's, commit times."""
    named = [
        feed.time_column or (feed.parts and feed.parts.time_column) or (feed.delta and COMMIT_TIME)
        for feed in table.feeds
    ]
    return [_in_record(table, name).strip("`") for name in dict.fromkeys(named) if name]


def group_orders(table: Table) -> list[str]:
    """The expressions that order the table's `sequence_groups`."""
    return [group.sequence_by for group in table.sequence_groups]


def group_members(table: Table) -> list[list[str]]:
    """The columns of each group.

    The column that a group is ordered by is one of them, unless it orders the rows or an earlier
    group, too.
    """
    listed = [name for group in table.sequence_groups for name in group.columns]
    taken = {*table.keys, *row_orders(table), *listed}
    members = []
    for group in table.sequence_groups:
        orders = [] if group.sequence_by in taken else [group.sequence_by]
        taken.update(orders)
        members.append([*group.columns, *orders])
    return members


def grouped_columns(table: Table) -> list[str]:
    """All columns that have an order of their own."""
    return [name for group in group_members(table) for name in group]


def has_expressions(table: Table) -> bool:
    """Whether Spark evaluates expressions over the table's decoded rows."""
    named = [*row_expressions(table), *time_columns(table), *group_orders(table)]
    return table.format == "rows" or (table.format != "snapshot" and bool(named))


def members_read(table: Table) -> list[str]:
    """Members of a row that expressions use and the table does not hold, in order, each once.

    Of names that differ in case only, which are one to Spark, the first one is read.
    """
    named: dict[str, str] = {}
    for one in [*row_expressions(table), *group_orders(table), *time_columns(table)]:
        itself = [] if _OPERATORS.search(one) else [one]
        for name in (*itself, *columns_named(one)):
            named.setdefault(name.lower(), name)
    columns = {n for n in named.values() if n in table.columns or is_published(table, n)}
    columns.discard(table.columns_to_update or "")
    return [name for name in named.values() if name.startswith("_") or name not in columns]


def conditions_of(table: Table) -> dict[str, str]:
    """The conditions that the YAML writes, by their keys; a preset's own is not among them."""
    source = table.feeds[0]
    of_envelope = source.parts.where if source.parts else None
    of_presets = [preset.get("where") for preset in PRESETS.values()]
    written = {
        "source.where": _in_record(table, source.where or ""),
        "envelope.where": of_envelope not in of_presets and _in_record(table, of_envelope or ""),
        "apply_as_deletes": table.apply_as_deletes,
        "apply_as_truncates": table.apply_as_truncates,
        "apply_as_upserts": table.apply_as_upserts,
    }
    return {key: condition for key, condition in written.items() if condition}


def find_unknown_names(
    table: Table, logged: Collection[str], members: Collection[str] | None
) -> Iterator[str]:
    """A sentence for each name in a condition that is neither declared nor in any record.

    Such a name is null in every row, so its condition never holds. `logged` are the columns of the
    log, `members` what records have had of the names that no table holds; None where unknown.
    """
    apart = [*map(str.lower, members_read(table))] if members is None else [*members]
    named = [name.removeprefix(OF_RECORD) for name in (*logged, *table.columns, *(members or ()))]
    known = {name.lower() for name in (*logged, *table.columns, *apart)}
    columns = {name.lower(): name for name in named}
    for key, condition in conditions_of(table).items():
        for name in columns_named(condition):
            if name.lower() not in known:
                shown = name.removeprefix(OF_RECORD)
                close = get_close_matches(shown.lower(), columns, n=1)
                meant = f"did you mean {columns[close[0]]}?" if close else "do: check its name"
                yield f"{key} names {shown}, of which no record has had a value; {meant}"

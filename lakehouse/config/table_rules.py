"""Checks of a table's YAML: keys that are valid alone but contradict each other."""

import re
from collections import Counter
from collections.abc import Iterator

from lakehouse.config.column_types import EXPECTED, has_bounds, is_nested, is_type, meant_type
from lakehouse.config.columns import ROUTED, Column
from lakehouse.config.formats import Format
from lakehouse.config.source import REMOVE, find_source_problems
from lakehouse.config.table import Table
from lakehouse.errors import Problem
from lakehouse.sql_text import find_sql_fault

MOST_BIGQUERY_KEYS, MOST_BIGQUERY_COLUMNS = 16, 2_000
_BIGQUERY_LIMITS = {"keys": MOST_BIGQUERY_KEYS, "columns": MOST_BIGQUERY_COLUMNS}
_NO_UNDERSCORE = "a name that does not begin with _"
_FROM_KEY = f"declare a column `shard: {{from: {ROUTED}}}`, and name shard in keys"
FORMATS_OF_OPTION: dict[str, tuple[Format, ...]] = {
    "apply_as_deletes": ("rows",),
    "apply_as_truncates": ("rows",),
    "apply_as_upserts": ("rows",),
    "columns_to_update": ("rows",),
    "consistency_group": ("debezium",),
    "on_truncate": ("debezium", "rows"),
    "ignore_null_updates": ("debezium", "ydb", "bigquery", "rows"),
    "max_staleness": ("debezium", "ydb", "bigquery", "rows"),
}
NEEDS_KEYS = (
    "sequence_groups", "ignore_null_updates", "columns_to_update", "stored_as_scd_type",
    "cluster_by",
)  # fmt: skip
NEVER_TOGETHER = (
    ("column_list", "except_column_list"),
    ("track_history_column_list", "track_history_except_column_list"),
)


def find_contradictions(table: Table) -> Iterator[Problem]:
    """All problems of a table beyond the types of its keys."""
    yield from _check_sources(table)
    if table.feeds:
        yield from _check_options(table)
        yield from _check_schema_changes(table)
        yield from _check_order(table)
        yield from _check_keys(table)
    yield from _check_pairs(table)
    yield from _check_kept_columns(table)
    yield from _check_history(table)
    yield from _check_groups(table)
    yield from _check_clustering(table)
    if table.consistency_group is not None and table.max_staleness is not None:
        actual = "max_staleness with consistency_group"
        expected = "one of them: a group is shown as of its last complete transaction"
        yield Problem("max_staleness", actual, expected, "remove one of the two")
    if table.change_data_feed:
        yield from _check_change_data_feed(table)
    yield from _check_names(table)
    yield from _check_renamed(table)
    yield from _check_sql(table)
    for column in table.columns:
        yield from _check_column(table, column)


def _check_sources(table: Table) -> Iterator[Problem]:
    """Problems of each source, and of sources that contradict each other."""
    if bool(table.source) == bool(table.sources):
        actual = "source and sources" if table.source else "neither source nor sources"
        yield Problem("source", actual, "exactly one of source and sources", "keep one of them")
    yield from _check_together(table)
    for index, feed in enumerate(table.feeds):
        key = "source" if table.source else f"sources[{index}]"
        yield from find_source_problems(key, feed, bool(table.columns))
        if feed.transaction_topic and table.consistency_group is None:
            actual = "transaction_topic without consistency_group"
            yield Problem(f"{key}.transaction_topic", actual, "both, or neither of them", REMOVE)


def _check_together(table: Table) -> Iterator[Problem]:
    """Problems of sources that contradict each other."""
    formats = {feed.format for feed in table.feeds}
    if len(formats) > 1:
        actual, expected = f"formats {' and '.join(sorted(formats))}", "one format in all sources"
        yield Problem("sources", actual, expected, "make a table of each, and join them in a view")
    elif len(table.feeds) > 1 and "snapshot" in formats:
        actual = f"{len(table.feeds)} sources, with format snapshot"
        expected = "snapshot files as the only source: full ones say what is not there"
        yield Problem("sources", actual, expected, "make it a table of its own")
    registries = {feed.schema_registry.url for feed in table.feeds if feed.schema_registry}
    if len(registries) > 1:
        actual, action = " and ".join(sorted(registries)), "make a table of each and join in a view"
        yield Problem("sources", actual, "one registry, whose ids name one schema", action)
    if len({(feed.csv.point, feed.csv.thousands) for feed in table.feeds}) > 1:
        actual, expected = "numbers written in two ways", "one decimal_comma and thousands for all"
        yield Problem("sources", actual, expected, "make it a table of its own")
    for option in ("where", "parts"):
        if any(getattr(f, option) != getattr(table.feeds[0], option) for f in table.feeds[1:]):
            name = "envelope" if option == "parts" else option
            expected = f"the same {name} in all sources"
            yield Problem("sources", f"several values of {name}", expected, "declare one in all")
    modes = {f"feed_mode {f.feed_mode or 'undeclared'}" for f in table.feeds if f.format == "ydb"}
    if len(modes) > 1:
        actual, expected = " and ".join(sorted(modes)), "the same feed_mode in all sources"
        yield Problem("sources", actual, expected, "declare it in all or in none")


def _check_options(table: Table) -> Iterator[Problem]:
    """Problems of options that are given though the table's format does not have them."""
    for option, formats in FORMATS_OF_OPTION.items():
        if option in table.model_fields_set and table.format not in formats:
            actual = f"{option} with format {table.format}"
            yield Problem(option, actual, f"{option} only with {' or '.join(formats)}", REMOVE)


def _check_schema_changes(table: Table) -> Iterator[Problem]:
    """Only Debezium reports that a column got wider; it and snapshots show that one was dropped."""
    telling = {"widen": ("debezium",), "drop_column": ("debezium", "snapshot")}
    for kind, formats in telling.items():
        policy = getattr(table.schema_changes, kind)
        if policy != "apply" and table.format not in formats:
            key, actual = f"schema_changes.{kind}", f"{policy} with format {table.format}"
            yield Problem(key, actual, f"{policy} only with {' or '.join(formats)}", REMOVE)


def _check_order(table: Table) -> Iterator[Problem]:
    flat = table.format in ("rows", "bigquery")
    if "sequence_by" in table.model_fields_set and not flat:
        action = "remove it: deletes carry their key alone, so columns could not order them"
        yield Problem("sequence_by", f"sequence_by with format {table.format}", _OWN_ORDER, action)
    if table.sequence_groups and table.format not in ("rows", "bigquery", "ydb"):
        action = "remove it, or deliver the changes as format rows"
        actual = f"sequence_groups with format {table.format}"
        yield Problem("sequence_groups", actual, _GROUPS, action)
    if table.format == "rows" and not (table.orders or table.reads_delta):
        actual = "nothing" if table.feeds[0].parts is None else "nothing: the envelope has no order"
        expected = "a column, a list of columns, or an expression"
        yield Problem("sequence_by", actual, expected, "name what orders the changes of a key")
    if table.sequence_by == []:
        yield Problem("sequence_by", "an empty list", "at least one column", "name one")
    if isinstance(table.sequence_by, list) and len(table.sequence_by) > 4:
        actual = f"{len(table.sequence_by)} columns"
        yield Problem("sequence_by", actual, "at most four sections", "combine some of them")


def _check_keys(table: Table) -> Iterator[Problem]:
    for key, count in Counter(key.lower() for key in table.keys).items():
        if count > 1:
            yield Problem("keys", f"{key} {count} times", "each key column once", "remove one")
    for key in filter(_is_of_layers, table.keys):
        way = _FROM_KEY if key == ROUTED else "rename it at the source: such are the layers'"
        yield Problem("keys", key, _NO_UNDERSCORE, way)
    if not table.keys:
        yield from _check_without_keys(table)
    for key, most in _BIGQUERY_LIMITS.items() if table.format == "bigquery" else ():
        if len(getattr(table, key)) > most:
            actual = f"{len(getattr(table, key))} columns"
            yield Problem(key, actual, f"at most {most}, BigQuery's limit", "name fewer")


def _is_of_layers(name: str) -> bool:
    return name.startswith("_")


def _check_without_keys(table: Table) -> Iterator[Problem]:
    if table.format != "debezium":
        expected = f"at least one column with format {table.format}"
        yield Problem("keys", "an empty list", expected, "name the columns that identify a row")
    for option in NEEDS_KEYS:
        if option in table.model_fields_set and getattr(table, option) not in (1, False, []):
            expected = f"no {option} on a table without a key"
            yield Problem(option, str(getattr(table, option)), expected, "name keys, or remove it")
    needs_keys = (("on_stale_key", "hide", "show"), ("on_delete", "flag", "remove"))
    for option, value, default in needs_keys:
        if getattr(table, option) == value:
            expected = f"{option}: {default} on a table without a key"
            yield Problem(option, value, expected, "name keys, or remove it")


def _check_pairs(table: Table) -> Iterator[Problem]:
    for one, other in NEVER_TOGETHER:
        if getattr(table, one) is not None and getattr(table, other) is not None:
            yield Problem(other, f"{one} and {other}", "at most one of them", "remove one of them")


def _check_kept_columns(table: Table) -> Iterator[Problem]:
    for key in table.keys:
        if table.column_list is not None and key not in table.column_list:
            yield Problem("column_list", f"no {key}", "every key column in it", f"add {key}")
        if key in (table.except_column_list or []):
            expected = "no key column in it"
            yield Problem("except_column_list", key, expected, f"remove {key} from the list")
    ignored = table.ignore_null_updates if isinstance(table.ignore_null_updates, list) else []
    for key in sorted(set(ignored) & set(table.keys)):
        yield Problem("ignore_null_updates", key, "no key column in it", f"remove {key}")


def _check_history(table: Table) -> Iterator[Problem]:
    for option in ("track_history_column_list", "track_history_except_column_list"):
        if getattr(table, option) is not None and table.stored_as_scd_type == 1:
            actual = f"{option} with stored_as_scd_type: 1"
            yield Problem(option, actual, "stored_as_scd_type: 2", "keep a history, or remove it")


def _check_groups(table: Table) -> Iterator[Problem]:
    seen = set(table.keys)
    for index, group in enumerate(table.sequence_groups):
        key = f"sequence_groups[{index}]"
        if not group.columns:
            yield Problem(f"{key}.columns", "an empty list", "at least one column", "name one")
        for name in re.findall(r"(?<!\w)_\w+", group.sequence_by):
            expected = "columns of the table, which do not begin with _"
            yield Problem(f"{key}.sequence_by", name, expected, "order the group by such a column")
        for column in group.columns:
            if column in seen:
                yield Problem(
                    f"{key}.columns", column, "no key and each column in one group", "remove it"
                )
            seen.add(column)


def _check_clustering(table: Table) -> Iterator[Problem]:
    """Clustering needs minimum and maximum of the columns, which Delta's log has for each file."""
    for name, times in Counter(table.cluster_by).items():
        declared = table.columns.get(name)
        if times > 1:
            yield Problem("cluster_by", f"{name} {times} times", "each column once", "remove one")
        if declared is None:
            yield Problem("cluster_by", name, "a declared column", f"declare it: columns.{name}")
        elif declared.sensitive:
            expected = "no sensitive column: Delta's log would hold values of it"
            yield Problem("cluster_by", name, expected, f"remove {name} from the list")
        elif is_type(declared.type) and not has_bounds(declared.type):
            expected = "a number, text, date or timestamp"
            yield Problem("cluster_by", f"{name} of type {declared.type}", expected, "remove it")
        elif not table.keeps(name):
            yield Problem("cluster_by", name, "a column that the table keeps", "keep or remove it")


def _check_change_data_feed(table: Table) -> Iterator[Problem]:
    key = "change_data_feed"
    if table.publish != "table":
        actual, action = f"{key} with publish: {table.publish}", "add publish: table, or remove it"
        yield Problem(key, actual, f"{key} only with publish: table", action)
    if not table.keys:
        expected = f"no {key} on a table without a key, which is published whole"
        yield Problem(key, "true", expected, "name keys, or remove it")


def _check_names(table: Table) -> Iterator[Problem]:
    """Problems of empty names, and of names that differ only in case, as Delta ignores case."""
    spelled: dict[str, str] = {}
    for name in dict.fromkeys((*table.keys, *table.columns)):
        key = f"columns.{name}" if name in table.columns else "keys"
        first = spelled.setdefault(name.lower(), name)
        if not name.strip():
            yield Problem(key, "a column without a name", "a name", "name it, or leave it out")
        elif first != name and name in table.columns:
            expected = "names that differ in more than their case"
            yield Problem(key, f"{name} beside {first}", expected, "leave out one of the two")


def _check_renamed(table: Table) -> Iterator[Problem]:
    """An old name of a column is no other column's name, and is not used elsewhere in the YAML."""
    renames = [(name, old) for name, column in table.columns.items() for old in column.renamed_from]
    counts = Counter(table.fold(old) for _, old in renames)
    for name, old in renames:
        yield from _check_old_name(table, name, old)
        if counts[table.fold(old)] > 1:
            key, expected = f"columns.{name}.renamed_from", "each old name once"
            yield Problem(key, f"{old}, which is named twice", expected, "keep one of them")
    for key, text in _texts_with_names(table) if renames else ():
        for name, old in renames:
            if re.search(rf"(?i)(?<![\w.]){re.escape(old)}(?!\w|\s*\()", _TEXT.sub("", text)):
                action = f"write {name}, also for records with the old name"
                yield Problem(key, old, "the names that columns have now", action)


def _check_old_name(table: Table, name: str, old: str) -> Iterator[Problem]:
    key, declared = f"columns.{name}.renamed_from", table.columns[name]
    now = {table.fold(each): each for each in (*table.keys, *table.columns)}
    same = now.get(table.fold(old))
    if declared.origin is not None:
        yield Problem(key, "renamed_from with from", "one of them", "remove one of the two")
    if not old.strip() or _is_of_layers(old):
        yield Problem(key, repr(old), _NO_UNDERSCORE, "leave it out")
    elif same == name:
        yield Problem(key, f"{old}, the column itself", "a name that it had before", REMOVE)
    elif same is not None:
        older = table.columns[same].renamed_from if same in table.columns else ()
        listed = ", ".join([*declared.renamed_from, *older])
        action = f"remove the column {same}, and write renamed_from: [{listed}]"
        yield Problem(key, f"{old}, a column of the table", "a name that no column has", action)


def _texts_with_names(table: Table) -> Iterator[tuple[str, str]]:
    """Every text outside of `columns` that contains names of columns, with its key."""
    for key, said in _options_with_names(table):
        for text in said if isinstance(said, list) else [said]:
            if isinstance(text, str):
                is_sql = key.rpartition(".")[2] in _SQL
                yield key, text if is_sql or text.isidentifier() else f"`{text}`"


def _options_with_names(table: Table) -> Iterator[tuple[str, object]]:
    yield from table.model_dump(include=_NAMING).items()
    for index, feed in enumerate(table.feeds):
        key = "source" if table.source else f"sources[{index}]"
        yield f"{key}.time_column", feed.time_column
    for index, group in enumerate(table.sequence_groups):
        yield from ((f"sequence_groups[{index}].{key}", said) for key, said in group)
    for index, rule in enumerate(table.expectations):
        named = {key: said for key, said in rule.arguments.items() if key.startswith("column")}
        yield from ((f"expectations[{index}].{key}", said) for key, said in named.items())


def _check_sql(table: Table) -> Iterator[Problem]:
    """Problems of conditions and orders in SQL, as far as they show without Spark."""
    texts = [(f"sources[{at}].where", feed.where) for at, feed in enumerate(table.feeds)]
    if table.source:
        texts = [("source.where", table.source.where)]
    texts += [each for each in _texts_with_names(table) if each[0].rpartition(".")[2] in _SQL]
    for key, text in texts:
        fault = None if text is None or text in table.columns else find_sql_fault(text)
        if fault is not None:
            yield Problem(key, f"{text!r}: {fault}", "an expression in SQL", "correct it")


def _check_column(table: Table, column: str) -> Iterator[Problem]:
    key, declared, is_key = f"columns.{column}", table.columns[column], column in table.keys
    if not is_type(declared.type):
        meant = meant_type(declared.type)
        action = f"did you mean {meant}?" if meant else "correct the type"
        yield Problem(f"{key}.type", repr(declared.type), EXPECTED, action)
    if _is_of_layers(column):
        yield Problem(key, column, _NO_UNDERSCORE, "leave it out: such columns are the layers'")
    if is_key:
        yield from _check_key_column(key, declared)
    is_time = declared.type.strip().lower().startswith(("date", "timestamp"))
    if declared.infinity is not None and not is_time:
        actual = f"infinity for type {declared.type}"
        yield Problem(f"{key}.infinity", actual, "a date or timestamp", REMOVE)
    if declared.origin is not None and table.feeds and table.format != "debezium":
        expected = "from only with format debezium"
        yield Problem(f"{key}.from", f"from with format {table.format}", expected, REMOVE)


def _check_key_column(key: str, declared: Column) -> Iterator[Problem]:
    if is_nested(declared.type):
        expected = "a type that can be compared, for a key"
        yield Problem(f"{key}.type", declared.type, expected, "choose another key or type")
    if declared.operational:
        yield Problem(f"{key}.operational", "true", "false for a key", "remove it")
    if declared.infinity == "null":
        yield Problem(f"{key}.infinity", "null", "clamp for a key", "write clamp")


_NAMING = {
    *("keys", "column_list", "except_column_list", "sequence_by", "apply_as_deletes"),
    *("apply_as_truncates", "apply_as_upserts", "track_history_column_list"),
    *("track_history_except_column_list", "ignore_null_updates", "columns_to_update"),
}
_SQL = ("sequence_by", "apply_as_deletes", "apply_as_truncates", "apply_as_upserts")
_TEXT = re.compile(r"'[^']*'|\"[^\"]*\"|`(?=[^`]*\W[^`]*`)[^`]*`")
"""Parts of SQL that are no plain names: quoted texts, and quoted names of several words."""
_OWN_ORDER = "the source's own order (sequence_by is for rows and bigquery)"
_GROUPS = "sequence_groups only with rows, bigquery or ydb: elsewhere a row has one order"

"""Gold's tables as plain Delta tables, for engines that know neither its views nor silver.

`publish: table` writes `gold.T`, and `gold.T_history`, from what silver has merged: beside the
views in `lake/gold/T`, or in a catalog as `gold.T_published`. Readers need no table feature of
Delta. A run merges the keys that silver has written since the batch recorded in the table's newest
commit (`userMetadata`). A MERGE changes only rows that differ, so repeating it changes nothing.
After a truncate or a rebuild, which remove rows outside any batch, all rows are compared.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from gold.views.selects import select_shown
from lakehouse.config.strict import Strict
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.places.place import to_place
from lakehouse.run import ledger
from lakehouse.storage import names
from lakehouse.storage.delta_log import read_notes
from lakehouse.storage.lake import Lake
from lakehouse.storage.names import literal, quote
from lakehouse.storage.statements import LIVE, Follower, execute_with_rows, note_commits
from lakehouse.storage.upkeep import forget_the_past
from lakehouse.storage.views import View
from silver.contract import kept_name

PLAIN = {
    "delta.columnMapping.mode": "none",
    "delta.enableDeletionVectors": "false",
    "delta.enableTypeWidening": "false",
    "delta.checkpointPolicy": "classic",
}
NO_VALUES_IN_LOG = {"delta.dataSkippingNumIndexedCols": "0"}
"""File statistics would be values of rows in Delta's log, from where `erase` cannot remove them."""
_PLAIN_TYPES = {"timestamp_ntz": "timestamp", "variant": "string"}
_OF_TYPES = ("type", "elementType", "keyType", "valueType")
_ODD = str.maketrans(dict.fromkeys(" ,;{}()\n\t=", "_"))
"""Characters that a column of a plain Delta table cannot have in its name."""


class PublishedMark(Strict):
    """What a published table shows: silver's batch, and when rows last went outside a batch.

    `replaced_at` is in µs since 1970; `configuration` is a digest of the YAML and `sensitive`.
    `hidden` are the sensitive columns, whose clear values no version has.
    """

    table: str
    batch: int
    replaced_at: int | None
    configuration: str
    hidden: tuple[str, ...] = ()


def read_marks(lake: Lake, tables: Sequence[Table]) -> dict[str, PublishedMark]:
    """What silver has merged of the tables that are to be published."""
    wanted = [table for table in tables if table.publish == "table"]
    if not wanted:
        return {}
    kept = ledger.read_local_states(lake.target)
    states = ledger.read_states(lake) if kept is None else kept
    return {
        t.table: _build_mark(lake.target, t, json.loads(states.get(t.table, "{}"))) for t in wanted
    }


def _build_mark(target: Target, table: Table, state: Mapping[str, Any]) -> PublishedMark:
    batch = state.get("logged" if table.on_stale_key == "hide" else "batch", 0)
    text = f"{table.model_dump_json()} {target.sensitive}"
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    hidden = tuple(name for name in table.columns if table.is_sensitive(name))
    return PublishedMark(
        table=table.table, batch=batch, replaced_at=state.get("replaced_at"), configuration=digest,
        hidden=hidden,
    )  # fmt: skip


def publish_tables(
    lake: Lake, table: Table, views: Sequence[View], mark: PublishedMark
) -> dict[str, int]:
    """Brings the plain tables of a table's views up to what silver has merged.

    Returns:
        Counts for the ledger: tables written, rows changed, tables rewritten for other columns.
    """
    counts = Counter[str]()
    for view in views:
        if view.name in (table.table, f"{table.table}_history"):
            counts.update(PublishedTable(lake, table, view).advance(mark))
    return dict(counts)


def published_names(lake: Lake, table: Table) -> list[str]:
    """The SQL names of a table's plain Delta tables that exist."""
    candidates = [_own_name(lake.target, name) for name in (table.table, f"{table.table}_history")]
    there = [name for name in candidates if lake.exists("gold", name)]
    return [lake.name("gold", name) for name in there]


def _own_name(target: Target, view: str) -> str:
    """The plain table's name; in a schema of a catalog it cannot be that of the view."""
    return f"{view}_published" if target.catalog else view


def plain_rows(
    rows: DataFrame, comments: Mapping[str, str | None] = MappingProxyType({})
) -> DataFrame:
    """The rows with names, types and comments that a plain Delta table can have."""
    taken, chosen = set[str](), list[Column]()
    form = json.loads(rows.schema.json(), object_hook=_plain_form)
    for field, plain in zip(rows.schema, StructType.fromJson(form), strict=True):
        name = plain.name
        while name.lower() in taken:
            name += "_"
        taken.add(name.lower())
        comment = comments.get(field.name)
        note = {"comment": comment} if comment else {}
        chosen.append(_build_column(field.name).cast(plain.dataType).alias(name, metadata=note))
    return rows.select(*chosen)


@dataclass(frozen=True)
class PublishedTable:
    """A view of gold as a plain Delta table."""

    lake: Lake
    config: Table
    view: View

    @cached_property
    def name(self) -> str:
        """The SQL name."""
        return self.lake.name("gold", _own_name(self.lake.target, self.view.name))

    def advance(self, mark: PublishedMark) -> dict[str, int]:
        """Brings the table up to the mark; counts of what was done."""
        version = self.view.pinned[1] if self.view.pinned else mark.batch
        wanted = mark.model_copy(update={"batch": version})
        there = self.lake.exists("gold", _own_name(self.lake.target, self.view.name))
        held = self._read_mark() if there else None
        if held == wanted:
            return {}
        if held is None or not self._has_clear_values(held, wanted):
            return self._write(held, wanted, there)
        self._write(held, wanted.model_copy(update={"hidden": held.hidden}), there)
        forget_the_past(self.lake, self.name, with_log=False)
        with note_commits(self.lake.spark, wanted.model_dump_json()):
            self._set_properties()
        return {"publications": 1, "rewritten": 1}

    def _has_clear_values(self, held: PublishedMark, wanted: PublishedMark) -> bool:
        """Whether earlier versions show what is to be hidden from now on."""
        hides = {*wanted.hidden}.difference(held.hidden)
        shown = self.lake.spark.table(self.name).columns if hides else []
        return not {name.translate(_ODD) for name in hides}.isdisjoint(shown)

    def _write(
        self, held: PublishedMark | None, wanted: PublishedMark, there: bool
    ) -> dict[str, int]:
        """Writes what the table lacks, in commits that carry the wanted mark."""
        query = self.view.applied or self.view.query
        rows = self._to_plain_rows(self.lake.spark.sql(query))
        if not there or not self._identity or not self._fits_schema(rows.schema):
            with note_commits(self.lake.spark, wanted.model_dump_json()):
                self._replace(rows)
            return {"publications": 1, "rewritten": int(there and bool(self._identity))}
        same_form = held is not None and held.configuration == wanted.configuration
        self._add_columns(rows.schema, same_form)
        if held is None or not self._names_all_keys(held, wanted):
            changed, every = rows.withColumn(LIVE, F.lit(True)), True
        else:
            changed, every = self._select_touched(query, held.batch), False
        written = self._follower.merge_rows(changed, wanted.model_dump_json(), every=every)
        return {"publications": 1, "published": written}

    @property
    def _follower(self) -> Follower:
        return Follower(self.lake.spark, self.name, self._identity, self._nullable_keys)

    @property
    def _identity(self) -> list[str]:
        """The columns that identify a row; none if the view lacks one of them, or has no key."""
        keys = self.view.keys[: len(self.config.keys)]
        version_key = ["sequence_from"] if self.view.name != self.config.table else []
        named = [*keys, *version_key] if keys and {*keys} <= {*self.view.columns} else []
        return [name.translate(_ODD) for name in named]

    @property
    def _nullable_keys(self) -> set[str]:
        keys = zip(self.config.keys, self._identity, strict=False)
        return {name for key, name in keys if key in self.config.nullable_keys}

    def _names_all_keys(self, held: PublishedMark, wanted: PublishedMark) -> bool:
        """Whether the batches after the held one name all keys that may have changed."""
        return (
            self.view.pinned is None
            and self.config.on_stale_key == "show"
            and held.replaced_at == wanted.replaced_at
            and held.configuration == wanted.configuration
        )

    def _select_touched(self, query: str, batch: int) -> DataFrame:
        """The rows of the keys that silver wrote after a batch; removed ones have `_live` false."""
        spark, target, config = self.lake.spark, self.lake.target, self.config
        kept = names.table_name(target, "silver", kept_name(config))
        ends = f" FROM {kept} WHERE NOT _deleted"
        if query.endswith(ends):
            # One row per key: the view's columns, and whether it shows the row.
            marked = f", NOT _deleted AS {LIVE} FROM {kept} WHERE _batch > {batch}"
            return self._to_plain_rows(spark.sql(query.removesuffix(ends) + marked))
        written, keys = f"(SELECT * FROM {kept} WHERE _batch > {batch})", config.keys
        touched = written
        if config.stored_as_scd_type == 2:
            same = names.agree_on("held", "new", keys, config.nullable_keys)
            touched = (
                f"(SELECT held.* FROM {kept} AS held LEFT SEMI JOIN {written} AS new ON {same})"
            )
        live = self._to_plain_rows(spark.sql(query.replace(f"FROM {kept}", f"FROM {touched}")))
        columns = select_shown(config, keys, target.sensitive).values()
        chosen = (f"{c} AS {quote(n)}" for c, n in zip(columns, self._identity, strict=False))
        gone = spark.sql(f"SELECT DISTINCT {', '.join(chosen)} FROM {written}")
        if self.view.name != config.table:
            held = spark.table(self.name).select(*map(_build_column, self._identity))
            gone = self._join(held, gone, self._identity[:-1], "left_semi")
        gone = self._join(gone, live, self._identity, "left_anti").withColumn(LIVE, F.lit(False))
        return live.withColumn(LIVE, F.lit(True)).unionByName(gone, allowMissingColumns=True)

    def _join(self, one: DataFrame, other: DataFrame, by: Sequence[str], how: str) -> DataFrame:
        same = F.expr(names.agree_on("one", "other", by, self._nullable_keys))
        return one.alias("one").join(other.alias("other"), same, how)

    def _to_plain_rows(self, rows: DataFrame) -> DataFrame:
        return plain_rows(rows, self.view.columns)

    def _fits_schema(self, wanted: StructType) -> bool:
        """Whether every column of the table is still wanted, with its type."""
        types = {field.name: field.dataType.simpleString() for field in wanted.fields}
        held = self.lake.spark.table(self.name).schema.fields
        return all(types.get(field.name) == field.dataType.simpleString() for field in held)

    def _add_columns(self, wanted: StructType, same_form: bool) -> None:
        """Adds new columns where the view has them; a changed YAML sets properties and comments."""
        fields = self.lake.spark.table(self.name).schema.fields
        held = {field.name: field.metadata.get("comment") for field in fields}
        new = [field for field in wanted.fields if field.name not in held]
        before = {one.name: f"AFTER {quote(other.name)}" for other, one in pairwise(wanted.fields)}
        added = [f"{_render_column(field)} {before.get(field.name, 'FIRST')}" for field in new]
        texts = [f"ADD COLUMNS ({', '.join(added)})"] if added else []
        if not same_form:
            self._set_properties()
            for field in wanted.fields:
                comment = field.metadata.get("comment", "")
                if field.name in held and (held[field.name] or "") != comment:
                    texts.append(f"ALTER COLUMN {quote(field.name)} COMMENT {literal(comment)}")
        for text in texts:
            self.lake.spark.sql(f"ALTER TABLE {self.name} {text}")

    def _set_properties(self) -> None:
        properties = self._list_properties(comment=self.view.comment)
        self.lake.spark.sql(f"ALTER TABLE {self.name} SET TBLPROPERTIES {properties}")

    def _replace(self, rows: DataFrame) -> None:
        """Replaces the table, or what is in its place, by these rows."""
        text = (
            f"CREATE OR REPLACE TABLE {self.name} USING delta COMMENT {literal(self.view.comment)}"
            f" TBLPROPERTIES {self._list_properties()} AS SELECT * FROM {{rows}}"
        )
        execute_with_rows(self.lake.spark, text, rows)

    def _list_properties(self, **more: str) -> str:
        feed = {"delta.enableChangeDataFeed": str(self.config.change_data_feed).lower()}
        keys = {"keys": ", ".join(self._identity)}
        return names.render_properties({**PLAIN, **NO_VALUES_IN_LOG, **feed, **keys, **more})

    def _read_mark(self) -> PublishedMark | None:
        """The mark of the newest commit that has one."""
        folder = names.table_folder(self.lake.target, "gold", self.view.name)
        if folder is not None:
            notes = read_notes(to_place(self.lake.target, folder))
        else:
            notes = iter(self._follower.read_notes())
        for note in notes:
            try:
                mark = PublishedMark.model_validate_json(note)
            except ValueError:
                continue
            if mark.table == self.config.table:
                return mark
        return None


def _build_column(name: str) -> Column:
    return F.col(quote(name))


def _render_column(field: StructField) -> str:
    comment = field.metadata.get("comment")
    comment_clause = f" COMMENT {literal(comment)}" if comment else ""
    return f"{quote(field.name)} {field.dataType.simpleString()}{comment_clause}"


def _plain_form(form: dict[str, Any]) -> dict[str, Any]:
    """An object of a schema's JSON with the name and types that a plain Delta table can have."""
    types = {key: form[key] for key in _OF_TYPES if isinstance(form.get(key), str)}
    plain = form | {key: _PLAIN_TYPES.get(kind, kind) for key, kind in types.items()}
    return plain | {"name": str(form["name"]).translate(_ODD)} if "name" in form else plain

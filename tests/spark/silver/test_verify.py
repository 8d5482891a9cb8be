from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from gold.views import agreement
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.spark.local_rows import local_rows
from lakehouse.storage.lake import Lake
from silver.audit.row_checks import check_log
from silver.audit.verify import judge_laws, verify
from tests.conftest import target_at
from tests.helpers import lakes
from tests.helpers.builders import Line


def table(scd: int) -> Table:
    source = {"format": "rows", "path": "orders"}
    given = {"table": f"orders{scd}", "source": source, "keys": ["id"], "sequence_by": "v"}
    columns = {"id": "int", "v": "int", "op": "string", "qty": "int", "note": "string"}
    more = {"apply_as_deletes": "op = 'D'", "columns": columns, "stored_as_scd_type": scd}
    return Table.model_validate(given | more)


CHANGES: list[Line] = [
    {"id": 1, "v": 1, "op": "I", "qty": 1, "note": "a"},
    {"id": 2, "v": 1, "op": "I", "qty": 1, "note": "b"},
    {"id": 3, "v": 1, "op": "I", "qty": 1, "note": "c"},
    {"id": 5, "v": 1, "op": "I", "qty": 1, "note": "e"},
    {"id": 1, "v": 2, "op": "U", "qty": 2, "note": "a"},
    {"id": 2, "v": 3, "op": "D"},
    {"id": 2, "v": 5, "op": "I", "qty": 5, "note": "back"},
    {"id": 5, "v": 2, "op": "U", "qty": 2, "note": "e"},
    {"id": 1, "v": 2, "op": "U", "qty": 2, "note": "a"},
    {"id": 3, "v": 0, "op": "I", "qty": 0, "note": "late"},
    {"id": 4, "v": 9, "op": "D"},
]


@pytest.fixture(scope="module")
def target(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Target:
    """A lake that holds the changes both with and without history."""
    target = target_at(tmp_path_factory.mktemp("verify"))
    for one in (table(1), table(2)):
        lakes.arrive(Lake(spark, target), one, CHANGES)
    lakes.settle(Lake(spark, target), [table(1), table(2)])
    return target


def broken(lake: Lake, scd: int) -> dict[str, list[str]]:
    one = table(scd)
    laws = verify(lake, one, agreement.build_gold_laws(lake, one))
    assert all(law.checked for law in laws)
    return {law.law: law.first for law in laws if not law.holds}


def spoil(lake: Lake, name: str, sql: str) -> None:
    lake.spark.sql(sql.format(t=lake.name("silver", name)))


@pytest.mark.slow
def test_faults_of_current_rows_are_found(lake: Lake) -> None:
    assert broken(lake, 1) == {}
    spoil(lake, "orders1", "INSERT INTO {t} SELECT * FROM {t} WHERE id = 3")
    spoil(lake, "orders1", "DELETE FROM {t} WHERE id = 5")
    spoil(lake, "orders1", "UPDATE {t} SET qty = 99 WHERE id = 1")
    spoil(lake, "orders1_changes", "DELETE FROM {t} WHERE id = 4")
    more = "UPDATE {t} SET counts = map_concat(counts, map('lost', 1L)) WHERE table = 'orders1'"
    spoil(lake, "_runs", f"{more} AND layer = 'silver'")
    file = Path(lake.target.lake, "gold", "_views.json")
    file.write_text(file.read_text().replace("WHERE NOT _deleted", ""))
    found = broken(lake, 1)
    (entry,) = found.pop("the outcomes of every run add up to its records")
    assert entry.endswith(": 11 records, 12 in classes")
    assert found == {
        "one row per key": ['{"id":3}'],
        "gold shows one row per key": ['{"id":3}'],
        "gold is published as the table is configured": ["gold.orders1"],
        "the change log holds every bronze record once": [
            "bronze.orders1 batch 1: 11 in bronze, 10 in the log"
        ],
        "a rebuild from bronze gives the same rows": ['{"id":1}', '{"id":3}', '{"id":5}'],
    }


@pytest.mark.slow
def test_faults_of_the_history_are_found(lake: Lake) -> None:
    assert broken(lake, 2) == {}
    spoil(
        lake,
        "orders2_history",
        """UPDATE {t} SET
          _valid_to = CASE WHEN id = 1 AND qty = 1 THEN _valid_to + INTERVAL 1 HOUR
            WHEN id = 5 AND qty = 1 THEN _valid_from - INTERVAL 1 HOUR ELSE _valid_to END,
          _is_current = _is_current OR (id = 2 AND _shown),
          _to_order = CASE WHEN id = 3 AND qty = 0 THEN X'01000000000000000000'
            ELSE _to_order END""",
    )
    keys = {law: [unit.split(" ")[0] for unit in units] for law, units in broken(lake, 2).items()}
    assert keys == {
        "no versions of a key overlap": ['{"id":1}'],
        "one open version per key": ['{"id":2}'],
        "gold shows one row per key": ['{"id":2}'],
        "the open versions are the newest changes": ['{"id":2}'],
        "versions have gaps only after a delete or truncate": ['{"id":3}'],
        "no version ends before it begins": ['{"id":5}'],
        "a rebuild from bronze gives the same rows": [f'{{"id":{key}}}' for key in (1, 2, 3, 5)],
    }


@pytest.mark.slow
def test_a_key_that_only_a_truncate_removed_breaks_no_law_where_deletes_are_flagged(
    spark: SparkSession, tmp_path: Path
) -> None:
    target, given = target_at(tmp_path), table(1).model_dump(exclude_unset=True)
    more = {"on_delete": "flag", "apply_as_truncates": "op = 'T'"}
    flagged = Table.model_validate(given | more)
    changes: list[Line] = [*CHANGES, {"v": 10, "op": "T"}, {"id": 6, "v": 11, "op": "I"}]
    lakes.arrive(Lake(spark, target), flagged, changes)
    lakes.settle(Lake(spark, target), [flagged])
    assert [law.law for law in verify(Lake(spark, target), flagged, {}) if not law.holds] == []


def test_a_record_twice_in_place_of_another_is_found(spark: SparkSession) -> None:
    raw = local_rows(
        spark, [{"_batch": 1, "_arrival": a} for a in "ab"], "_batch int, _arrival string"
    )
    raw = raw.withColumn("_feed", F.lit("t"))
    kept = raw.withColumns({"_arrival": F.lit("a"), "_feed_batch": F.col("_batch")})
    (law,) = judge_laws({"law": check_log(raw, kept)})
    assert (law.checked, law.broken, law.first) == (
        1,
        1,
        ["bronze.t batch 1: 2 in bronze, 2 in the log"],
    )

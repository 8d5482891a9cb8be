"""A Delta log read without Spark: written here as Delta's protocol has it."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from lakehouse.storage.delta_log import ColumnValues, forget_old_log, read_column_values, read_log


def commit(folder: Path, version: int, *actions: dict[str, Any]) -> None:
    log = folder / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(action) + "\n" for action in actions)
    (log / f"{version:020}.json").write_text(text)


def metadata(*names: str) -> dict[str, Any]:
    fields = [{"name": n, "type": "string", "nullable": True, "metadata": {}} for n in names]
    return {"metaData": {"schemaString": json.dumps({"type": "struct", "fields": fields})}}


def data(folder: Path, name: str, **columns: list[Any]) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), folder / name)
    rows = len(next(iter(columns.values())))
    size = (folder / name).stat().st_size
    return {"add": {"path": name, "size": size, "stats": json.dumps({"numRecords": rows})}}


def test_rows_columns_and_values_of_the_newest_version(tmp_path: Path) -> None:
    commit(tmp_path, 0, metadata("a"))
    commit(tmp_path, 1, data(tmp_path, "one.parquet", a=["x", None]))
    commit(tmp_path, 2, metadata("a", "b"), data(tmp_path, "two.parquet", a=["y"], b=[7]))
    found = read_log(tmp_path)
    assert found is not None
    assert (found.version, found.rows, list(found.columns)) == (2, 3, ["a", "b"])
    assert found.bytes == sum(file.stat().st_size for file in tmp_path.glob("*.parquet"))
    assert read_column_values(found) == {
        "a": ColumnValues(2, texts=("x", "y")),
        "b": ColumnValues(1, (7, 7)),
    }


def test_a_file_that_was_removed_does_not_count(tmp_path: Path) -> None:
    commit(tmp_path, 0, metadata("a"), data(tmp_path, "one.parquet", a=["x"]))
    commit(tmp_path, 1, {"remove": {"path": "one.parquet"}})
    found = read_log(tmp_path)
    assert found is not None and (found.rows, found.files, found.bytes) == (0, [], 0)


def test_a_checkpoint_stands_for_the_commits_before_it(tmp_path: Path) -> None:
    add = data(tmp_path, "one.parquet", a=["x"])["add"]
    commit(tmp_path, 3, data(tmp_path, "two.parquet", a=["y"]))
    told = {
        "metaData": [metadata("a")["metaData"], None],
        "add": [None, {"path": add["path"], "stats": add["stats"]}],
    }
    rows = pa.table(told)
    pq.write_table(rows, tmp_path / "_delta_log" / f"{2:020}.checkpoint.parquet")
    (tmp_path / "_delta_log" / "_last_checkpoint").write_text('{"version": 2, "size": 2}')
    found = read_log(tmp_path)
    assert found is not None and (found.version, found.rows) == (3, 2)


def test_rows_that_a_deletion_vector_hides_are_no_rows(tmp_path: Path) -> None:
    add = data(tmp_path, "one.parquet", a=["x", "y"])
    add["add"]["deletionVector"] = {"cardinality": 1}
    commit(tmp_path, 0, metadata("a"), add)
    found = read_log(tmp_path)
    assert found is not None and found.rows == 1


def test_a_file_that_gets_another_vector_is_added_before_its_old_state_is_removed(
    tmp_path: Path,
) -> None:
    add = data(tmp_path, "one.parquet", a=["x", "y", "z"])
    commit(tmp_path, 0, metadata("a"), add)
    for version, offset in ((1, 1), (2, 40)):
        vector = {"storageType": "u", "pathOrInlineDv": "x", "offset": offset, "cardinality": 1}
        old = {"path": "one.parquet", "deletionVector": add["add"].get("deletionVector")}
        add = {"add": add["add"] | {"deletionVector": vector}}
        commit(tmp_path, version, add, {"remove": old})
        found = read_log(tmp_path)
        assert found is not None and (found.rows, len(found.files)) == (2, 1)
        assert found.vectors == [vector]


def test_what_cannot_be_told_is_none(tmp_path: Path) -> None:
    assert read_log(tmp_path) is None
    commit(tmp_path, 0, {"metaData": {}})
    assert read_log(tmp_path) is None
    (tmp_path / "_delta_log" / "_last_checkpoint").write_text('{"version": 9, "parts": 2}')
    assert read_log(tmp_path) is None


def test_the_log_before_the_newest_checkpoint_is_deleted_and_the_table_stays(
    tmp_path: Path,
) -> None:
    for text in ("first", "second"):
        write_deltalake(tmp_path, pa.table({"a": [text]}), mode="overwrite")
    DeltaTable(tmp_path).create_checkpoint()
    write_deltalake(tmp_path, pa.table({"a": ["third"]}), mode="append")
    log = tmp_path / "_delta_log"
    assert any("first" in file.read_text() for file in log.glob("*.json"))
    forget_old_log(tmp_path)
    assert not any("first" in file.read_text() for file in log.glob("*.json"))
    rows = DeltaTable(tmp_path).to_pyarrow_table()["a"].to_pylist()
    assert sorted(rows) == ["second", "third"]


def test_the_columns_that_a_table_is_clustered_by_are_told_by_their_own_names(
    tmp_path: Path,
) -> None:
    inside = {"delta.columnMapping.physicalName": "col-1"}
    field = {"name": "the day", "type": "date", "nullable": True, "metadata": inside}
    schema = json.dumps({"type": "struct", "fields": [field]})

    def clustering(*columns: str) -> dict[str, Any]:
        told = json.dumps({"clusteringColumns": [[column] for column in columns]})
        domain = {"domain": "delta.clustering", "configuration": told, "removed": False}
        return {"domainMetadata": domain}

    log = tmp_path / "_delta_log"
    log.mkdir()
    for at, actions in enumerate([[{"metaData": {"schemaString": schema}}], [clustering("col-1")]]):
        (log / f"{at:020}.json").write_text("\n".join(map(json.dumps, actions)))
    found = read_log(tmp_path)
    assert found is not None and found.clustered == ["the day"]
    (log / f"{2:020}.json").write_text(json.dumps(clustering()))
    found = read_log(tmp_path)
    assert found is not None and found.clustered == []

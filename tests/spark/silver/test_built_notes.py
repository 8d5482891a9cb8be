"""What tables are built with is noted in few commits, and a kill before one repeats nothing."""

import pytest

from lakehouse.config.table import Table
from lakehouse.storage.lake import Lake
from silver import job, table_runs
from silver.state import fingerprint
from silver.state.table_state import read_state, read_states
from tests.helpers import lakes
from tests.helpers.landed import apply, failures, land


def table(name: str) -> Table:
    source = {"format": "rows", "path": name}
    return Table.model_validate(
        {"table": name, "source": source, "keys": ["id"], "sequence_by": "v"}
    )


def commits(lake: Lake) -> list[str]:
    shown = lake.spark.sql(f"DESCRIBE HISTORY {lake.name('silver', '_runs')}")
    return [row["operation"] for row in shown.collect() if row["operation"] == "WRITE"]


@pytest.mark.slow
def test_a_first_run_notes_all_tables_in_two_commits(lake: Lake) -> None:
    tables = [table(name) for name in ("a", "b", "c")]
    for each in tables:
        land(lake, each, 1, [{"id": 1, "v": 1}])
    assert failures(job.apply(lake, tables, "run", lakes.quiet)) == []
    assert len(commits(lake)) == 2
    built = {name: state.built for name, state in read_states(lake).items()}
    assert {name: of["keys"] for name, of in built.items()} == dict.fromkeys("abc", "id")
    assert all(fingerprint.load_source_columns(of) is not None for of in built.values())
    assert failures(job.apply(lake, tables, "run", lakes.quiet)) == []
    assert len(commits(lake)) == 2


def test_a_yaml_that_was_changed_after_a_run_was_killed_is_refused(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(lake, table("t"), 1, [{"id": 1, "v": 1}])
    with monkeypatch.context() as patch:
        patch.setattr(table_runs, "_record_outcomes", killed)
        with pytest.raises(KeyboardInterrupt):
            apply(lake, table("t"))
    other = table("t").model_copy(update={"keys": ["v"]})
    (message,) = failures(apply(lake, other))
    assert message is not None and "keys was id, is v" in message


@pytest.mark.slow
def test_a_change_of_columns_is_recorded_once_though_a_run_was_killed_before_it_was_noted(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(lake, table("t"), 1, [{"id": 1, "v": 1}])
    assert failures(apply(lake, table("t"))) == []
    land(lake, table("t"), 2, [{"id": 1, "v": 2, "more": "x"}])
    with monkeypatch.context() as patch:
        patch.setattr(table_runs, "_record_outcomes", killed)
        with pytest.raises(KeyboardInterrupt):
            apply(lake, table("t"))
    land(lake, table("t"), 3, [{"id": 2, "v": 3, "more": "y"}])
    assert failures(apply(lake, table("t"))) == []
    state = read_state(lake, "t")
    assert [(change.kind, change.column) for change in state.schema_changes] == [
        ("add_column", "more")
    ]
    assert sorted(fingerprint.load_source_columns(state.built) or {}) == ["id", "more", "v"]


def killed(*_: object) -> None:
    raise KeyboardInterrupt

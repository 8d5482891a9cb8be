"""What a run warns of: conditions that were true for none of a table's first records."""

import json

import pytest

from cdc_lakehouse.cli.work.rounds import Round
from cdc_lakehouse.cli.work.run import one_round
from lakehouse.config.table import Table
from lakehouse.config.target import LAYERS
from lakehouse.storage.lake import Lake
from tests.helpers.lakes import land


def table(name: str, deletes: str, where: str | None = None) -> Table:
    source = {"format": "rows", "path": "landed"} | ({"where": where} if where else {})
    given = {"table": name, "source": source, "keys": ["id"], "sequence_by": "at"}
    columns = {"id": "int", "at": "int", "gone": "string"}
    return Table.model_validate(given | {"apply_as_deletes": deletes, "columns": columns})


@pytest.mark.slow
def test_a_condition_that_no_record_met_is_named_once(
    lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    tables = [
        table("misspelt", "gone = 'D'"),
        table("right", "gone = 'Y'"),
        table("empty", "gone = 'Y'", where="at > 9"),
    ]
    told = []
    for at in (1, 4):
        rows = [{"id": 1, "at": at + n, "gone": "Y" if n == 1 else None} for n in range(3)]
        land(lake.target, "landed", f"{at}.jsonl", [json.dumps(row) for row in rows])
        one_round(Round(lake, "run", tables), tables, LAYERS)
        warnings = " ".join(capfd.readouterr().err.split()).split("warning: ")[1:]
        told.append(sorted(line.split(" do:")[0] for line in warnings if "true for none" in line))
    assert told == [
        [
            "empty: source.where was true for none of its first 3 records",
            "misspelt: apply_as_deletes was true for none of its first 3 records",
        ],
        [],
    ]

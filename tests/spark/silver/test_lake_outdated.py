"""A lake that an older version wrote is refused with what to do, before any of it is touched."""

import pytest

from lakehouse.errors import LakeOutdated
from lakehouse.storage.lake import Lake
from silver import job
from silver.state.table_state import read_states
from tests.helpers.lakes import quiet
from tests.helpers.landed import failures, land
from tests.spark.silver.test_memory import table


def test_a_lake_whose_ledger_has_no_states_is_refused(lake: Lake) -> None:
    place = lake.name("silver", "_runs")
    columns = "run_id string, layer string, table string, batch bigint, logs map<string,string>"
    lake.spark.sql(f"CREATE TABLE {place} ({columns}) USING delta")
    with pytest.raises(LakeOutdated, match=r"older version .* lakehouse run makes both anew"):
        job.apply(lake, [table()], "run", quiet)


def test_a_lake_of_this_version_is_read(lake: Lake) -> None:
    job.apply(lake, [table()], "run", quiet)
    assert read_states(lake) == {}


@pytest.mark.slow
def test_a_lake_whose_tables_are_laid_out_in_another_way_is_refused(lake: Lake) -> None:
    land(lake, table(), 1, [{"id": 1, "v": 1}])
    assert failures(job.apply(lake, [table()], "run", quiet)) == []
    assert read_states(lake)["t"].logged == 1
    runs = lake.name("silver", "_runs")
    lake.spark.sql(f"UPDATE {runs} SET state = replace(state, '\"layout\":4,', '')")
    with pytest.raises(LakeOutdated, match="lays them out in another way"):
        job.apply(lake, [table()], "run", quiet)

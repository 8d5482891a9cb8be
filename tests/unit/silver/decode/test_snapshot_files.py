from datetime import date

from silver.decode.protocols.snapshot_files import folder_of, sequence_of_day
from silver.decode.values.sequences import literal_sequence
from tests.helpers.builders import table


def test_the_days_folder_is_the_one_below_the_tables() -> None:
    nested = table("snapshot", ["id"], source={"path": "/a/b.c/", "mode": "full"})
    assert folder_of("/landing/a/b.c/2024-05-01/x/1.csv", nested) == "2024-05-01"
    assert folder_of("/landing/a/bxc/2024-05-01/x/1.csv", nested) is None
    assert sequence_of_day(date(1970, 1, 11)) == literal_sequence([10])

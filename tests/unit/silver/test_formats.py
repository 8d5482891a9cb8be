from typing import get_args

import pytest

from lakehouse.config.formats import Format
from lakehouse.config.table import Table
from lakehouse.config.unpacking import unpack_table
from lakehouse.errors import ManyConfigurationErrors
from silver.decode.formats import PROTOCOLS


def document(format: str) -> dict[str, object]:
    source = {
        "format": format,
        "path": "here",
        **({"mode": "full"} if format == "snapshot" else {}),
    }
    given = {"table": "t", "keys": ["id"], "source": source}
    return given | ({"sequence_by": "n"} if format == "rows" else {})


@pytest.mark.parametrize("format", get_args(Format))
def test_every_format_has_its_decoder(format: str) -> None:
    assert Table.model_validate(document(format)).format in PROTOCOLS


def test_an_unknown_format_is_told_with_those_that_are_known() -> None:
    with pytest.raises(ManyConfigurationErrors, match=r"'debezium', .* or 'snapshot'") as told:
        unpack_table(document("debezum"), "t.yml")
    assert "did you mean debezium?" in str(told.value)

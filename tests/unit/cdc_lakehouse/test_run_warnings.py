"""What a run warns of once its records are applied."""

from datetime import datetime, timezone
from typing import Any, cast

from cdc_lakehouse.cli.run_warnings import _first_rejections
from lakehouse.run.ledger import Entry


def test_only_counts_of_rules_are_rejections_of_rules() -> None:
    """Others ask the ledger nothing: there is no lake here."""
    now, counts = datetime.now(timezone.utc), {"dead_letter:not_json": 1, "x_dead_letter:rule:r": 1}
    entry = Entry(
        run_id="r", layer="silver", table="t", started_at=now, ended_at=now, counts=counts
    )
    assert _first_rejections(cast(Any, None), [entry]) == []

"""The status as Prometheus reads it: its own parser reads what is written."""

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gold.status.metrics import FAMILIES, render_metrics
from tests.unit.cdc_lakehouse.test_output import record


def read(records: list[dict[str, Any]]) -> dict[str, dict[tuple[str, ...], float]]:
    """Values by the family's name and the values of the labels."""
    families = list(text_string_to_metric_families(render_metrics(records, "1.2")))
    assert all(f.documentation and f.type == "gauge" for f in families)
    names = [family.name for family in families]
    assert len(names) == len(set(names))
    return {f.name: {tuple(s.labels.values()): s.value for s in f.samples} for f in families}


def test_every_figure_of_the_status_has_a_family() -> None:
    one = record(
        "orders", dead_letters={"no_key": 2}, last_run="2026-01-31T00:00:00Z", gaps=[{}, {}],
        last_failure="no space", max_staleness_seconds=600, as_of="2026-01-31T00:00:00Z",
        verified_through="0/1A", verified_at="2026-01-31T00:00:00Z",
    )  # fmt: skip
    found = read([one, record("people")])
    wanted = {f"lakehouse_{family.name}" for family in FAMILIES}
    labelled = ("build_info", "dead_letters", "verified_through")
    assert set(found) == wanted | {f"lakehouse_{name}" for name in labelled}
    assert found["lakehouse_rows"] == {("orders",): 1_234_567, ("people",): 1_234_567}
    assert found["lakehouse_dead_letters"] == {("orders", "no_key"): 2}
    assert found["lakehouse_gaps"] == {("orders",): 2, ("people",): 0}
    assert found["lakehouse_last_run_failed"] == {("orders",): 1, ("people",): 0}
    assert found["lakehouse_last_run_timestamp_seconds"] == {("orders",): 1_769_817_600}
    assert found["lakehouse_verified_through"] == {("orders", "0/1A"): 1}
    assert found["lakehouse_verified_timestamp_seconds"] == {("orders",): 1_769_817_600}
    assert found["lakehouse_build_info"] == {("1.2",): 1}


def test_what_is_not_known_is_left_out() -> None:
    found = read([record("orders", lag_seconds=None, watermark=None)])
    assert "lakehouse_lag_seconds" not in found
    assert read([]) == {"lakehouse_build_info": {("1.2",): 1}}


@pytest.mark.parametrize("odd", ['a"b', "a\\b", "a\nb", "a\\nb", "ä b}{,="])
def test_any_text_can_be_a_label(odd: str) -> None:
    found = read([record(odd, dead_letters={f"rule:{odd}": 1})])
    assert found["lakehouse_dead_letters"] == {(odd, f"rule:{odd}"): 1}

import json

import pytest

from bronze.loss.holes import collect_orders

BLOCK = {"id": "571:9", "total_order": 1, "data_collection_order": 2}


@pytest.mark.parametrize(
    "record",
    [
        {"transaction": BLOCK},
        {"schema": {}, "payload": {"transaction": BLOCK}},
        {"topic": "t", "value": {"transaction": BLOCK}},
        {"topic": "t", "value": {"payload": {"transaction": BLOCK}}},
        {"transaction": {"data_collection_order": "2", "id": 571}},
        {"after": {"transaction": {"id": "8", "data_collection_order": 3}}, "transaction": BLOCK},
    ],
)
def test_debeziums_block_is_found_wherever_it_lies(record: dict[str, object]) -> None:
    assert collect_orders(["t"], [json.dumps(record).encode()]) == {("t", "571"): {2}}


@pytest.mark.parametrize(
    "id",
    [
        "0a001f00b3000000",
        "00000025:00000d98:00a2",
        "3e11fa47-71ca-11e1-9e33-c80aa9429562:23",
        "file=mysql-bin.000003,pos=156",
    ],
)
def test_a_transaction_is_known_by_its_whole_id(id: str) -> None:
    record = {"transaction": {"id": id, "data_collection_order": 1}}
    assert collect_orders(["t"], [json.dumps(record).encode()]) == {("t", id): {1}}


def test_a_rows_own_values_are_no_block() -> None:
    values = {"transaction": {"id": "8", "data_collection_order": 3}}
    records = [json.dumps({"after": values, "op": "c"}).encode()]
    records += [b'{"transaction": {"id": "8", "data_collection_order": "x"}}']
    records += [b'"data_collection_order"', b'{"data_collection_order"', b"\xff{}", None]
    assert collect_orders(["t"] * len(records), records) == {}

"""Drafts from a database: types as Debezium delivers them, and what its connector needs."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import types
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.engine import make_url

from cdc_lakehouse.cli.work.rebootstrap import quote_table
from cdc_lakehouse.drafts.first_draft import to_scalar
from cdc_lakehouse.drafts.source_draft import (
    ConnectorDraft,
    DatabaseTable,
    describe_partitioned,
    list_preparations,
    name_tables,
    render_capture,
    render_connector,
    source_draft,
    to_spark_type,
    write_source_drafts,
)
from lakehouse.config.unpacking import unpack_table

POSTGRES = make_url("postgresql+psycopg://me:secret@db.example/shop")
MYSQL = make_url("mysql+pymysql://me:secret@db.example/shop")
MARIADB = make_url("mariadb+pymysql://me:secret@db.example/shop")
ORDERS = DatabaseTable(
    "public", "Orders", "What: people buy", ["Id"],
    {"Id": ("bigint", None), "total": ("decimal(12,2)", 'in "euro", net'), "_x": ("int", None)},
)  # fmt: skip
CLICKS = DatabaseTable("public", "clicks", None, [], {"url": ("string", None)})


@pytest.mark.parametrize(
    ("kind", "spark"),
    [
        (types.SMALLINT(), "bigint"),
        (types.INTEGER(), "bigint"),
        (types.BIGINT(), "bigint"),
        (types.NUMERIC(12, 2), "decimal(12,2)"),
        (types.NUMERIC(), "string"),
        (types.NUMERIC(50, 2), "string"),
        (types.REAL(), "float"),
        (postgresql.DOUBLE_PRECISION(), "double"),
        (types.BOOLEAN(), "boolean"),
        (types.VARCHAR(9), "string"),
        (postgresql.BYTEA(), "binary"),
        (types.DATE(), "date"),
        (postgresql.TIMESTAMP(), "timestamp_ntz"),
        (postgresql.TIMESTAMP(timezone=True), "timestamp"),
        (postgresql.TIME(), "string"),
        (postgresql.INTERVAL(), "bigint"),
        (postgresql.UUID(), "string"),
        (postgresql.JSONB(), "string"),
        (postgresql.ARRAY(types.INTEGER()), "array<bigint>"),
        (postgresql.BIT(1), "boolean"),
        (mysql.TINYINT(1), "bigint"),
        (mysql.INTEGER(unsigned=True), "bigint"),
        (mysql.BIGINT(unsigned=True), "decimal(20,0)"),
        (mysql.DATETIME(), "timestamp_ntz"),
        (mysql.TIMESTAMP(), "timestamp"),
        (mysql.YEAR(), "bigint"),
        (mysql.FLOAT(), "float"),
        (mysql.DOUBLE(), "double"),
        (mysql.DECIMAL(10, 0), "decimal(10,0)"),
        (mysql.ENUM("a", "b"), "string"),
        (mysql.BIT(8), "binary"),
        (mysql.LONGBLOB(), "binary"),
    ],
    ids=str,
)
def test_a_source_type_becomes_the_type_of_debeziums_records(
    kind: "types.TypeEngine[Any]", spark: str
) -> None:
    assert to_spark_type(kind) == spark


def test_a_draft_is_sound_and_keeps_comments() -> None:
    text = source_draft("orders", ORDERS, ConnectorDraft(POSTGRES, "shop"))
    table = unpack_table(yaml.safe_load(text), "orders.yml")
    assert (table.keys, table.comment) == (["Id"], "What: people buy")
    assert table.columns["total"].type == "decimal(12,2)"
    assert table.columns["total"].comment == 'in "euro", net'
    assert table.feeds[0].topic == "shop.public.Orders"
    assert "# not possible: _x" in text


def test_columns_that_differ_in_case_only_are_drafted_as_one() -> None:
    columns = dict.fromkeys(("ID", "id", "a", "A"), ("string", None))
    text = source_draft(
        "t", ORDERS._replace(keys=["id"], columns=columns), ConnectorDraft(POSTGRES, "s")
    )

    assert list(unpack_table(yaml.safe_load(text), "t.yml").columns) == ["id", "a"]
    assert "# not possible: ID" in text and "# not possible: A" in text


@pytest.mark.parametrize(
    "comment", ["ünder", "a: b", "no", "two\nlines", "a, b", "it's, so", "# not", "\u2028", ""]
)
def test_a_comment_of_any_kind_is_one_line_of_yaml(comment: str) -> None:
    written = to_scalar(comment)
    assert len(f"comment: {written}".splitlines()) == 1
    assert yaml.safe_load(f"comment: {written}") == {"comment": comment}


def test_with_brokers_a_draft_reads_from_kafka() -> None:
    text = source_draft("clicks", CLICKS, ConnectorDraft(POSTGRES, "shop", "localhost:9092"))
    table = unpack_table(yaml.safe_load(text), "clicks.yml")
    assert table.feeds[0].kafka is not None
    assert table.feeds[0].kafka.topic == "shop.public.clicks"
    assert table.keys == [] and "no primary key" in text


def test_a_topic_is_named_as_the_connector_names_it() -> None:
    odd = CLICKS._replace(name="Mixed Case")
    table = unpack_table(
        yaml.safe_load(source_draft("t", odd, ConnectorDraft(MYSQL, "shop"))), "t.yml"
    )
    assert table.feeds[0].topic == "shop.public.Mixed_Case"


@pytest.mark.parametrize("url", [POSTGRES, MYSQL, MARIADB], ids=lambda url: url.drivername)
def test_the_connector_captures_the_tables_and_holds_no_password(url: Any) -> None:
    text = render_connector([ORDERS, CLICKS], ConnectorDraft(url, "shop"))
    config = json.loads(text)["config"]
    assert config["table.include.list"] == "public.Orders,public.clicks,public.dbz_signal"
    assert config["signal.data.collection"] == "public.dbz_signal"
    assert (config["topic.prefix"], config["database.hostname"]) == ("shop", "db.example")
    assert config["value.converter.replace.null.with.default"] == "false"
    assert "secret" not in text


@pytest.mark.parametrize(
    ("url", "named"), [(MYSQL, "mysql.MySqlConnector"), (MARIADB, "mariadb.MariaDbConnector")]
)
def test_a_connector_of_a_binlog_is_the_server_s_own_and_keeps_shapes_and_unsigned_numbers(
    url: Any, named: str
) -> None:
    config = json.loads(render_connector([ORDERS], ConnectorDraft(url, "shop")))["config"]
    with_brokers = json.loads(render_connector([ORDERS], ConnectorDraft(url, "shop", "b:1")))[
        "config"
    ]
    assert config["connector.class"] == f"io.debezium.connector.{named}"
    assert config["bigint.unsigned.handling.mode"] == "precise"
    assert config["schema.history.internal"].endswith("FileSchemaHistory")
    assert with_brokers["schema.history.internal.kafka.bootstrap.servers"] == "b:1"


def test_a_keyless_table_of_postgres_needs_whole_rows() -> None:
    told = list_preparations([ORDERS, CLICKS], POSTGRES)
    assert told[0] == "in postgresql.conf: wal_level = logical"
    assert told[1:-1] == ['ALTER TABLE "public"."clicks" REPLICA IDENTITY FULL;']
    assert told[-1].startswith("CREATE TABLE public.dbz_signal (id varchar(64) PRIMARY KEY,")
    assert "binlog_format = ROW" in list_preparations([ORDERS], MYSQL)[0]


@pytest.mark.parametrize(
    ("url", "name"), [(POSTGRES, '"shop"."dbz_signal"'), (MYSQL, "`shop`.`dbz_signal`")]
)
def test_a_signal_table_is_named_in_the_quotes_of_its_database(url: Any, name: str) -> None:
    assert quote_table(url.get_dialect()(), "shop.dbz_signal") == name


def test_tables_of_one_name_in_two_schemas_get_two_names() -> None:
    assert list(name_tables([CLICKS, CLICKS._replace(schema="old")])) == ["clicks", "old_clicks"]


@pytest.mark.parametrize(
    ("schemas", "signals"),
    [(("audit", "public"), "public"), (("sales", "audit"), "sales"), (("shop",), "shop")],
)
def test_the_signal_table_of_several_schemas_lies_in_public_where_there_is_one(
    schemas: tuple[str, ...], signals: str
) -> None:
    tables = [CLICKS._replace(schema=schema) for schema in schemas]
    config = json.loads(render_connector(tables, ConnectorDraft(POSTGRES, "shop")))["config"]
    assert config["signal.data.collection"] == f"{signals}.dbz_signal"
    captured = yaml.safe_load(render_capture("postgresql://h/shop", tables, "shop", all_of=True))
    assert captured["signals"] == f"{signals}.dbz_signal"


def test_a_partitioned_table_is_one_table_for_the_connector_too() -> None:
    parts = [("public", "log_1"), ("old", "log_0")]
    log = CLICKS._replace(name="log", partitions=parts)
    config = json.loads(render_connector([ORDERS, log], ConnectorDraft(POSTGRES, "shop")))["config"]
    assert config["table.include.list"] == "public.Orders,public.log,public.dbz_signal"
    assert config["publish.via.partition.root"] == "true"
    told = list_preparations([ORDERS, log], POSTGRES)
    assert 'ALTER TABLE "old"."log_0" REPLICA IDENTITY FULL;' in told
    assert "publish_via_partition_root = true" in told[-2]
    assert describe_partitioned({"orders": ORDERS, "log": log}) == [
        "log is a partitioned table: its 2 partitions are read as one table"
    ]
    plain = json.loads(render_connector([ORDERS], ConnectorDraft(POSTGRES, "shop")))["config"]
    assert "publish.via.partition.root" not in plain
    assert len(list_preparations([ORDERS], POSTGRES)) == 2


@pytest.mark.parametrize("brokers", [None, "k:9092"])
def test_more_than_three_tables_share_a_file(tmp_path: Path, brokers: str | None) -> None:
    columns = {"id": ("int", None)}
    plain = [DatabaseTable(schema, "t", None, ["id"], columns) for schema in ("a", "b")]
    tables = name_tables([ORDERS, CLICKS, *plain])
    drafts = list(write_source_drafts(tmp_path, tables, ConnectorDraft(POSTGRES, "shop", brokers)))
    documents = {draft.file.stem: yaml.safe_load(draft.text) for draft in drafts}
    assert sorted(documents) == ["public_clicks", "public_orders", "shop"]
    many = documents["shop"]
    assert many["tables"] == ["shop.a.*", "shop.b.*", "shop.public.*"]
    assert many["name"] == "{schema}_{table}"
    read = {"kafka": {"bootstrap_servers": brokers}} if brokers else {"path": "shop"}
    assert many["source"] == {"format": "debezium"} | read
    clicks = {"table": "public_clicks", "keys": [], "columns": {"url": "string"}}
    assert documents["public_clicks"] == clicks
    assert documents["public_orders"]["comment"] == "What: people buy"
    assert "source" not in documents["public_orders"]
    few = write_source_drafts(tmp_path / "few", name_tables(plain), ConnectorDraft(MYSQL, "shop"))
    assert [draft.file.stem for draft in few] == ["t", "b_t"]

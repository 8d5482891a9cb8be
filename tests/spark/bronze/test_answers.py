import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from cdc_lakehouse.cli.ask.queries import is_question, print_answer
from cdc_lakehouse.terminal.answers import csv_lines, json_lines, row_texts, unique_names
from lakehouse.errors import QueryRefused
from lakehouse.storage.lake import Lake
from tests.conftest import target_at

VALUES = """
  SELECT 1 AS i, 1.50BD AS d, cast('NaN' AS double) AS f,
    TIMESTAMP '2024-03-31 07:30:00.000001Z' AS t,
    TIMESTAMP_NTZ '0001-01-01 00:00:00' AS n, DATE '2024-02-29' AS day, X'00FF' AS b,
    array(TIMESTAMP '2024-01-01 00:00:00Z') AS times,
    named_struct('x', 0.10BD, 'y', cast(NULL AS int)) AS s,
    cast(NULL AS string) AS missing, 'a "quoted", text' AS text
"""


@pytest.fixture(scope="module")
def values(spark: SparkSession) -> DataFrame:
    return spark.sql(VALUES)


def test_json_has_one_object_per_row_with_exact_values(values: DataFrame) -> None:
    [line] = json_lines(values)
    assert line == (
        '{"i":1,"d":1.50,"f":"NaN","t":"2024-03-31T07:30:00.000001Z",'
        '"n":"0001-01-01T00:00:00.000000","day":"2024-02-29","b":"AP8=",'
        '"times":["2024-01-01T00:00:00.000000Z"],"s":{"x":0.10,"y":null},'
        '"missing":null,"text":"a \\"quoted\\", text"}'
    )


def test_csv_has_a_header_and_nested_values_as_json(values: DataFrame) -> None:
    assert list(csv_lines(values.select("i", "missing", "s", "text"))) == [
        "i,missing,s,text",
        '1,,"{""x"":0.10,""y"":null}","a ""quoted"", text"',
    ]


def test_texts_keep_digits_and_times(values: DataFrame) -> None:
    assert list(row_texts(values.select("d", "f", "t", "n", "b", "missing"))) == [
        ["1.50", "NaN", "2024-03-31T07:30:00.000001Z", "0001-01-01T00:00:00.000000", "AP8=", None]
    ]


def test_a_time_beyond_python_is_shown(spark: SparkSession) -> None:
    far = spark.sql("SELECT timestamp_micros(9223372036854775807) AS t")
    assert list(row_texts(far)) == [["+294247-01-10T04:00:54.775807Z"]]
    assert list(json_lines(far)) == ['{"t":"+294247-01-10T04:00:54.775807Z"}']


def test_columns_of_one_name_keep_their_values(spark: SparkSession) -> None:
    twice = spark.sql("SELECT 1 AS a, 2 AS a")
    assert [json.loads(line) for line in json_lines(twice)] == [{"a": 1, "a_2": 2}]


def test_rows_come_in_their_order(spark: SparkSession) -> None:
    ordered = spark.range(100).repartition(8).orderBy("id")
    assert [row[0] for row in row_texts(ordered)] == [str(number) for number in range(100)]


def test_a_statement_without_columns_answers_nothing(spark: SparkSession) -> None:
    assert list(json_lines(spark.sql("SELECT 1").select())) == []


COMMANDS = """
DROP TABLE silver.orders
DELETE FROM delta.`lake/silver/orders`
UPDATE silver.orders SET a = 1
MERGE INTO silver.orders t USING s ON t.a = s.a WHEN MATCHED THEN DELETE
INSERT INTO silver.orders SELECT 1
INSERT OVERWRITE DIRECTORY '/tmp/x' USING parquet SELECT 1
WITH a AS (SELECT 1) INSERT INTO silver.orders SELECT * FROM a
FROM s INSERT INTO silver.orders SELECT a INSERT INTO silver.others SELECT b
/* SELECT */ CREATE OR REPLACE TABLE silver.orders AS SELECT 1
ALTER TABLE silver.orders ADD COLUMN b INT
RESTORE TABLE silver.orders TO VERSION AS OF 1
CREATE TABLE a SHALLOW CLONE silver.orders
VACUUM silver.orders
OPTIMIZE silver.orders
CALL system.remove()
EXECUTE IMMEDIATE 'DROP TABLE silver.orders'
BEGIN DROP TABLE silver.orders; END
SET spark.sql.ansi.enabled = false
USE silver
"""
QUESTIONS = """
SELECT 'DROP TABLE x' AS a
(SELECT 1) UNION (SELECT 2)
WITH a AS (SELECT 'INSERT INTO t' AS b) SELECT * FROM a
FROM range(3) SELECT id
FROM range(3) |> WHERE id = 1
VALUES (1)
SELECT * FROM range(3)
SHOW DATABASES
DESCRIBE DATABASE default
EXPLAIN DROP TABLE silver.orders
"""


@pytest.mark.parametrize("query", COMMANDS.strip().splitlines())
def test_a_command_is_refused_before_it_runs(
    spark: SparkSession, tmp_path: Path, query: str
) -> None:
    with pytest.raises(QueryRefused) as told:
        print_answer(Lake(spark, target_at(tmp_path)), query, "table")
    assert "`lakehouse sql` only asks" in str(told.value)
    assert "do:       " in str(told.value)
    assert not is_question(query)


@pytest.mark.parametrize("query", QUESTIONS.strip().splitlines())
def test_a_question_is_answered(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], query: str
) -> None:
    print_answer(Lake(spark, target_at(tmp_path)), query, "json")
    assert capsys.readouterr().out
    assert is_question(query)


def test_an_erased_key_is_what_a_delete_is_pointed_to(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(QueryRefused, match="lakehouse erase TABLE --key"):
        print_answer(Lake(spark, target_at(tmp_path)), "DELETE FROM silver.orders", "table")


@pytest.mark.parametrize("written", ["gold.order", "orders", "`gold`.`ordres`"])
def test_a_table_that_is_not_there_is_answered_with_the_one_that_was_meant(
    spark: SparkSession, tmp_path: Path, written: str
) -> None:
    query, views = f"SELECT * FROM {written}", ["gold.customers", "gold.orders"]
    with pytest.raises(QueryRefused) as told:
        print_answer(Lake(spark, target_at(tmp_path)), query, "table", None, views)
    assert f"found:    {written.replace('`', '')}\n" in str(told.value)
    assert "do:       did you mean gold.orders?" in str(told.value)


def test_names_are_numbered_in_any_case_of_letters() -> None:
    assert unique_names(["a", "A", "b", "a"]) == ["a", "A_2", "b", "a_3"]

"""DuckDB with DuckLake's MERGE INTO: https://ducklake.select/docs/stable/duckdb/usage/upserting

A MERGE for upserts and one for deletes, as the page shows them; the history as DuckDB's own article
makes it (https://github.com/duckdb/duckdb-web/blob/main/_posts/2025-11-30-exploring-merge.md): a
MERGE closes the current version, an INSERT adds the next one.
"""

from pathlib import Path

import duckdb
from duckdb_extensions import import_extension

from benchmarks.right.rival import BESIDE, Case, Row, answer


def run(case: Case, folder: Path) -> list[Row]:
    """One case into a table of a lake of its own."""
    lake = duckdb.connect()
    lake.execute(f"ATTACH 'ducklake:{folder}/catalog.db' AS lake (DATA_PATH '{folder}/data')")
    lake.execute("USE lake")
    kept = ", valid_from TIMESTAMP, valid_to TIMESTAMP, is_current BOOLEAN" if case.history else ""
    listed = ", ".join(f"{name} {type}" for name, type in case.columns.items())
    lake.execute(f"CREATE TABLE kept ({listed}{kept})")
    for batch, file in enumerate(case.files):
        known = case.known(batch)
        for name in known.keys() - case.columns.keys():
            lake.execute(f"ALTER TABLE kept ADD COLUMN IF NOT EXISTS {name} {known[name]}")
        lake.execute(
            "CREATE OR REPLACE TEMP TABLE changes AS SELECT * FROM"
            f" read_json('{file}', format = 'newline_delimited', columns = {known | BESIDE})"
            " QUALIFY row_number() OVER (PARTITION BY id ORDER BY lsn DESC) = 1"
        )
        for statement in add_versions(case) if case.history else merge(list(known)):
            lake.execute(statement)
    found = lake.execute("SELECT * FROM kept")
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, values, strict=True)) for values in found.fetchall()]


def merge(names: list[str]) -> list[str]:
    """The page's upsert, and its delete."""
    return [
        f"MERGE INTO kept USING (SELECT {', '.join(names)} FROM changes WHERE op <> 'd') s"
        " ON (s.id = kept.id) WHEN MATCHED THEN UPDATE WHEN NOT MATCHED THEN INSERT",
        "MERGE INTO kept USING (SELECT id FROM changes WHERE op = 'd') d"
        " ON (d.id = kept.id) WHEN MATCHED THEN DELETE",
    ]


def add_versions(case: Case) -> list[str]:
    """The article's two statements."""
    names = list(case.columns)
    differs = " OR ".join(f"kept.{name} <> c.{name}" for name in names)
    into = f"({', '.join(names)}, valid_from, is_current)"
    own = ", ".join(f"c.{name}" for name in names)
    return [
        "MERGE INTO kept USING changes c ON (kept.id = c.id AND kept.is_current)"
        f" WHEN MATCHED AND ({differs}) THEN"
        " UPDATE SET valid_to = CAST(c.at AS TIMESTAMP), is_current = false"
        f" WHEN NOT MATCHED THEN INSERT {into} VALUES ({own}, CAST(c.at AS TIMESTAMP), true)",
        f"INSERT INTO kept {into} SELECT {own}, CAST(c.at AS TIMESTAMP), true FROM changes c"
        " JOIN kept ON kept.id = c.id"
        " WHERE NOT kept.is_current AND kept.valid_to = CAST(c.at AS TIMESTAMP)",
    ]


if __name__ == "__main__":
    import_extension("ducklake")
    answer(run, "duckdb", "duckdb-extension-ducklake")

"""MariaDB and MySQL as captured databases: their binlog."""

import zlib
from collections.abc import Sequence
from functools import cached_property

from cdc_lakehouse.capture.database import MADE, SIGNAL_COLUMNS, Database, Lack, Lag
from cdc_lakehouse.capture.files import CaptureRefused, Position, State, read_places

_CONNECTORS = {"mariadb": "MariaDbConnector", "mysql": "MySqlConnector"}
_HISTORY = "schema.history.internal"
_WANTED = {"log_bin": "ON", "binlog_format": "ROW", "binlog_row_image": "FULL"}


class MariaDb(Database):
    """A MariaDB or MySQL database: each has a connector of its own."""

    jdbc = "database.include.list"

    @cached_property
    def jars(self) -> str:
        """Which of the two it is."""
        (version,) = self.ask("SELECT VERSION()")[0]
        return "mariadb" if "mariadb" in str(version).lower() else "mysql"

    @property
    def connector(self) -> str:
        """The class of its connector."""
        return f"io.debezium.connector.{self.jars}.{_CONNECTORS[self.jars]}"

    def list_tables(self) -> list[str]:
        """The tables of the URL's database."""
        tables = "information_schema.tables WHERE table_type = 'BASE TABLE'"
        of_database = f"SELECT table_name FROM {tables} AND table_schema = :name"
        rows = self.ask(of_database, name=self.url.database)
        return [f"{self.url.database}.{name}" for (name,) in rows]

    def find_lacks(self) -> list[Lack]:
        """What the server's log and the tables lack."""
        lacks = self._find_unmatched(self.list_tables())
        shown = dict(self.ask("SHOW GLOBAL VARIABLES WHERE Variable_name LIKE '%%bin%'"))
        wrong = {key: shown.get(key) for key, value in _WANTED.items() if shown.get(key) != value}
        more = [
            Lack(f"{key} is {value}", f"in my.cnf: {key} = {_WANTED[key]}, then restart the server")
            for key, value in wrong.items()
        ]
        return [*lacks, *more]

    def check_state(self, position: Position, state: State) -> None:
        """Checks that the server still has the log from where the capture goes on.

        Raises:
            CaptureRefused: it has not.
        """
        at = _read_place(state)
        files = [name for name, *_ in self.ask("SHOW BINARY LOGS")]
        if at and at[0] not in files:
            problem = f"the binlog {at[0]} is gone: the changes since it was last read are lost"
            raise CaptureRefused(problem, "`lakehouse capture --snapshot` takes all rows again")

    def begin(self) -> None:
        """Makes the signal table where it does not exist."""
        name = self.quoted(self.settings.signals)
        self.ask(f"CREATE TABLE IF NOT EXISTS {name} ({SIGNAL_COLUMNS}) COMMENT '{MADE}'")

    def drop(self) -> list[str]:
        """Removes the signal table where capture made it."""
        made = "SELECT 1 FROM information_schema.tables WHERE table_comment = :made"
        of = "AND CONCAT(table_schema, '.', table_name) = :name"
        if not self.ask(f"{made} {of}", made=MADE, name=self.settings.signals):
            return []
        self.ask(f"DROP TABLE {self.quoted(self.settings.signals)}")
        return [f"table {self.settings.signals}"]

    def properties(self, tables: Sequence[str]) -> dict[str, object]:
        """Properties of the connector for this database and these tables."""
        number = 1_000_000 + zlib.crc32(f"{self.url.host}/{self.name}".encode()) % 1_000_000
        return {
            **super().properties(tables),
            "database.port": self.url.port or 3306,
            "database.server.id": number,
            "bigint.unsigned.handling.mode": "precise",
            "include.schema.changes": "false",
            _HISTORY: "io.debezium.storage.file.history.FileSchemaHistory",
        }

    def measure_lag(self, state: State) -> Lag | None:
        """The binlog behind the acknowledged position, and all that the server has of it."""
        at, logs = _read_place(state), self.ask("SHOW BINARY LOGS")
        sizes = {str(row[0]): int(row[1]) for row in logs}
        if at is None or at[0] not in sizes:
            return None
        behind = sum(size for name, size in sizes.items() if name >= at[0]) - at[1]
        return Lag(max(behind, 0), sum(sizes.values()))


def _read_place(state: State) -> tuple[str, int] | None:
    """File and position of the binlog as the engine has noted them."""
    places = [place for place in read_places(state.kept_offsets) if "file" in place]
    return (str(places[-1]["file"]), int(places[-1]["pos"])) if places else None

"""PostgreSQL as a captured database: its publication, its slot, its rights."""

import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from cdc_lakehouse.capture.database import MADE, MARK, SIGNAL_COLUMNS, Database, Lack, Lag
from cdc_lakehouse.capture.files import CaptureRefused, Position, State

OLDEST = 14
"""The first version that sends messages of its log to a connector."""
PATIENCE = 20.0
"""Seconds until the server lets go of a slot whose reader was killed."""
_TABLES = """
SELECT n.nspname || '.' || c.relname, pg_get_userbyid(c.relowner),
  pg_has_role(c.relowner, 'USAGE'),
  has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT'),
  c.relpersistence = 'p',
  NOT row_security_active(c.oid),
  c.relkind = 'p',
  ARRAY(SELECT l.oid::regclass::text FROM pg_class l
    WHERE (l.oid = c.oid OR l.oid IN (SELECT relid FROM pg_partition_tree(c.oid)))
    AND l.relkind = 'r' AND l.relreplident <> 'f' AND NOT EXISTS (
      SELECT FROM pg_index i WHERE i.indrelid = l.oid
      AND (l.relreplident = 'd' AND i.indisprimary OR l.relreplident = 'i' AND i.indisreplident))),
  greatest(c.reltuples, 0)::bigint
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg_toast%'
ORDER BY 1
"""
"""Every table that is no partition; the array names those that identify no old row."""
_SERVER = """
SELECT current_setting('server_version_num')::int / 10000, current_setting('wal_level'),
  current_setting('max_replication_slots')::int - (SELECT count(*) FROM pg_replication_slots),
  current_setting('max_wal_senders')::int - (SELECT count(*) FROM pg_stat_replication),
  (SELECT rolsuper OR rolreplication FROM pg_roles WHERE rolname = current_user)
    OR EXISTS (SELECT FROM pg_roles
      WHERE rolname = 'rds_replication' AND pg_has_role(oid, 'USAGE')),
  has_database_privilege(current_database(), 'CREATE'), current_user::text,
  EXISTS (SELECT FROM pg_get_keywords() WHERE word = :name AND catcode IN ('R', 'T'))
"""
_SLOT = """
SELECT active, active_pid, coalesce(wal_status, '') = 'lost', plugin, database,
  confirmed_flush_lsn - '0/0'::pg_lsn FROM pg_replication_slots WHERE slot_name = :name
"""
_PUBLICATION = """
SELECT puballtables, pubviaroot, pubinsert AND pubupdate AND pubdelete AND pubtruncate,
  pg_has_role(pubowner, 'USAGE') FROM pg_publication WHERE pubname = :name
"""
_PUBLISHED = (
    "SELECT schemaname || '.' || tablename FROM pg_publication_tables WHERE pubname = :name"
)


class _Table(NamedTuple):
    name: str
    owner: str
    is_owned: bool
    is_readable: bool
    is_logged: bool
    shows_all: bool
    is_partitioned: bool
    without_identity: list[str]
    rows: int


class _Server(NamedTuple):
    version: int
    wal_level: str
    slots: int
    senders: int
    replicates: bool
    creates: bool
    user: str
    is_keyword: bool


class _Slot(NamedTuple):
    active: bool
    pid: int | None
    lost: bool
    plugin: str
    database: str
    confirmed: Any


class Postgres(Database):
    """A PostgreSQL database."""

    @property
    def connector(self) -> str:
        """The class of Debezium's connector."""
        return "io.debezium.connector.postgresql.PostgresConnector"

    @property
    def jars(self) -> str:
        """The name of the list of its jars."""
        return "postgresql"

    def password(self) -> str:
        """The password of the URL, of PGPASSWORD or of the password file."""
        with self._engine.connect() as connection:
            driver = connection.connection.driver_connection
            return str((driver and driver.info.password) or "")

    def list_tables(self) -> list[str]:
        """All tables but partitions, whose changes come as those of their table."""
        return [table.name for table in self._read_tables()]

    def _read_tables(self) -> list[_Table]:
        return [_Table(*row) for row in self.ask(_TABLES)]

    def _slot(self) -> _Slot | None:
        return next((_Slot(*row) for row in self.ask(_SLOT, name=self.name)), None)

    def find_lacks(self) -> list[Lack]:
        """All that the server, the user's rights, the tables and the publication lack."""
        (server,) = (_Server(*row) for row in self.ask(_SERVER, name=self.name))
        tables = self._read_tables()
        chosen = [table for table in tables if self.settings.matches(table.name)]
        signals = [table for table in tables if table.name == self.settings.signals]
        return [
            *self._find_server_lacks(server),
            *self._find_unmatched([table.name for table in tables]),
            *self._find_table_lacks(chosen, server.user),
            *self._find_signal_lacks(bool(signals), server),
            *self._find_publication_lacks([*chosen, *signals], server),
        ]

    def _find_server_lacks(self, server: _Server) -> Iterator[Lack]:
        if server.version < OLDEST:
            yield Lack(f"PostgreSQL {server.version}", f"upgrade it to {OLDEST} or newer")
        if server.wal_level != "logical":
            do = "ALTER SYSTEM SET wal_level = 'logical'; then restart the server"
            yield Lack(f"wal_level is {server.wal_level}", do)
        if not server.replicates:
            do = f'ALTER ROLE "{server.user}" REPLICATION; (on RDS: GRANT rds_replication TO …)'
            yield Lack(f"{server.user} must not replicate", do)
        if server.is_keyword:
            yield Lack(f"{self.name} is a word of SQL", "change `name` in conf/capture.yml")
        slot = self._slot()
        for what, setting, free in (
            ("replication slot", "max_replication_slots", server.slots),
            ("sender", "max_wal_senders", server.senders),
        ):
            if free < 1 and slot is None:
                do = (
                    f"ALTER SYSTEM SET {setting} = …; with a larger number, then restart the server"
                )
                yield Lack(f"no {what} is free", do)
        if slot and (slot.plugin != "pgoutput" or slot.database != self.url.database):
            problem = f"the slot {self.name} is of {slot.plugin} in the database {slot.database}"
            yield Lack(problem, "change `name` in conf/capture.yml")

    def _find_table_lacks(self, tables: Sequence[_Table], user: str) -> Iterator[Lack]:
        for table in tables:
            name = self.quoted(table.name)
            if not table.is_readable:
                schema = self.quoted(table.name.partition(".")[0])
                do = f'GRANT USAGE ON SCHEMA {schema} TO "{user}";'
                do += f' GRANT SELECT ON {name} TO "{user}";'
                yield Lack(f"{user} must not read {table.name}", do, table.name)
            if not table.is_logged:
                do = f"ALTER TABLE {name} SET LOGGED;"
                yield Lack(f"{table.name} is unlogged", do, table.name)
            if not table.shows_all:
                do = f'ALTER ROLE "{user}" BYPASSRLS;'
                problem = f"row level security hides rows of {table.name} from {user}"
                yield Lack(problem, do, table.name)
            for part in table.without_identity:
                problem = f"{part} has neither a primary key nor a REPLICA IDENTITY: once it is"
                problem += " published, the application's own UPDATE would fail"
                do = f"ALTER TABLE {part} REPLICA IDENTITY FULL; or name it in `except`"
                yield Lack(problem, do, table.name)

    def _find_publication_lacks(self, tables: Sequence[_Table], server: _Server) -> Iterator[Lack]:
        publications = self.ask(_PUBLICATION, name=self.name)
        names = dict.fromkeys([*(table.name for table in tables), self.settings.signals])
        listed = ", ".join(map(self.quoted, names))
        if not publications:
            foreign = [table.name for table in tables if not table.is_owned]
            if foreign or not server.creates:
                owner = f"{server.user} does not own {', '.join(foreign)}" if foreign else ""
                right = "" if server.creates else f"{server.user} must not CREATE in the database"
                do = f"as a superuser: CREATE PUBLICATION {self.name} FOR TABLE {listed}"
                do += " WITH (publish_via_partition_root = true);"
                yield Lack(f"no publication {self.name}; {owner or right}", do)
            return
        every, via_root, publishes, is_owned = publications[0]
        if not publishes:
            do = (
                f"ALTER PUBLICATION {self.name} SET (publish = 'insert, update, delete, truncate');"
            )
            yield Lack(f"the publication {self.name} leaves out some operations", do)
        if not via_root and any(table.is_partitioned for table in tables):
            do = f"ALTER PUBLICATION {self.name} SET (publish_via_partition_root = true);"
            yield Lack(f"the publication {self.name} shows partitions as tables", do)
        published = {name for (name,) in self.ask(_PUBLISHED, name=self.name)}
        for table in tables:
            if table.name not in published and not every and not (is_owned and table.is_owned):
                do = f"ALTER PUBLICATION {self.name} ADD TABLE {self.quoted(table.name)};"
                problem = f"{table.name} is not in the publication {self.name}"
                yield Lack(problem, do, table.name)

    def _find_signal_lacks(self, is_there: bool, server: _Server) -> Iterator[Lack]:
        signals, user = self.settings.signals, server.user
        name = self.quoted(signals)
        if not is_there:
            schema = signals.partition(".")[0]
            rights = "SELECT has_schema_privilege(oid, 'CREATE') FROM pg_namespace"
            may_create = self.ask(f"{rights} WHERE nspname = :name", name=schema)
            if not (may_create and may_create[0][0]):
                do = f"CREATE TABLE {name} ({SIGNAL_COLUMNS});"
                do += f' ALTER TABLE {name} OWNER TO "{user}";'
                yield Lack(f"no table {signals}, and {user} must not make it", do)
            return
        rights = "SELECT has_table_privilege(c.oid, 'INSERT, DELETE') FROM pg_class c"
        of = "JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname || '.' || relname = :name"
        if not self.ask(f"{rights} {of}", name=signals)[0][0]:
            do = f'GRANT INSERT, DELETE, SELECT ON {name} TO "{user}";'
            yield Lack(f"{user} must not insert into {signals}", do)

    def check_state(self, position: Position, state: State) -> None:
        """Compares the slot with what this capture remembers.

        Raises:
            CaptureRefused: changes would be lost, or another capture reads the slot.
        """
        until, slot = time.monotonic() + PATIENCE, self._slot()
        while slot and slot.active and time.monotonic() < until:
            time.sleep(0.5)
            slot = self._slot()
        again = "`lakehouse capture --snapshot` takes all rows again"
        if slot and slot.active:
            problem = (
                f"process {slot.pid} of the server reads the slot {self.name}: another capture"
            )
            raise CaptureRefused(problem, "stop that capture, or choose another `name`")
        if not state.offsets.exists():
            if slot and position.tables is None:
                problem = f"the slot {self.name} is there, but not the state in {state.folder}"
                do = f"put the folder back, or: {again}"
                raise CaptureRefused(problem, do)
            return
        if slot is None or slot.lost:
            problem = f"the slot {self.name} is gone: the changes since it was last read are lost"
            raise CaptureRefused(problem, again)
        if position.lsn and int(slot.confirmed) > position.lsn:
            problem = f"the slot {self.name} is ahead of this capture: it was made anew, or read by"
            raise CaptureRefused(
                f"{problem} another program; the changes in between are lost", again
            )

    def begin(self) -> None:
        """Removes the slot: a snapshot and its slot have to begin at one moment.

        Beside a slot that is there the connector would read the log's position after its rows, and
        lose what commits in between.
        """
        slots = "FROM pg_replication_slots WHERE slot_name = :name"
        self.ask(f"SELECT pg_drop_replication_slot(slot_name) {slots}", name=self.name)
        signals = self.quoted(self.settings.signals)
        if not self.ask("SELECT to_regclass(:name)", name=signals)[0][0]:
            self.ask(f"CREATE TABLE {signals} ({SIGNAL_COLUMNS})")
            self.ask(f"COMMENT ON TABLE {signals} IS '{MADE}'")

    def add_tables(self, tables: Iterable[str]) -> list[str]:
        """Publishes these tables, once nobody is in the middle of a change to them.

        Returns those that were not published. What was written before, by a transaction that
        commits later, would be in no record: neither published nor in a snapshot that is taken now.

        Raises:
            CaptureRefused: the server refuses it, or a table is being written to for too long.
        """
        published = {name for (name,) in self.ask(_PUBLISHED, name=self.name)}
        wanted = [*tables, self.settings.signals]
        added = [table for table in wanted if table not in published]
        new, facts = list(map(self.quoted, added)), self.ask(_PUBLICATION, name=self.name)
        if not new or (facts and facts[0][0]):
            return []
        listed = ", ".join(new)
        change = f"ALTER PUBLICATION {self.name} ADD TABLE {listed}"
        if not facts:
            change = f"CREATE PUBLICATION {self.name} FOR TABLE {listed}"
            change += " WITH (publish_via_partition_root = true)"
        try:
            with self._engine.connect() as connection:
                connection = connection.execution_options(isolation_level="READ COMMITTED")
                with connection.begin():
                    connection.execute(text("SET LOCAL lock_timeout = '10s'"))
                    for table in new if facts else ():
                        connection.execute(text(f"LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE"))
                    connection.execute(text(change))
                    if not facts:
                        note = f"COMMENT ON PUBLICATION {self.name} IS '{MADE}'"
                        connection.execute(text(note))
        except SQLAlchemyError as failure:
            said = str(getattr(failure, "orig", failure)).strip().splitlines()[0]
            raise CaptureRefused(f"{change}: {said}", "run it by hand, or start again") from None
        return [table for table in added if table != self.settings.signals]

    def drop(self) -> list[str]:
        """Removes the slot, and the publication and the signal table where capture made them."""
        gone, signals = [], self.quoted(self.settings.signals)
        if self._slot():
            self.ask("SELECT pg_drop_replication_slot(:name)", name=self.name)
            gone.append(f"slot {self.name}")
        made = "SELECT obj_description(oid, 'pg_publication') FROM pg_publication"
        if self.ask(f"{made} WHERE pubname = :name", name=self.name) == [(MADE,)]:
            self.ask(f"DROP PUBLICATION {self.name}")
            gone.append(f"publication {self.name}")
        made = "SELECT obj_description(to_regclass(:name), 'pg_class')"
        if self.ask(made, name=signals) == [(MADE,)]:
            self.ask(f"DROP TABLE {signals}")
            gone.append(f"table {self.settings.signals}")
        return gone

    def properties(self, tables: Sequence[str]) -> dict[str, object]:
        """Properties of the connector for this database and these tables."""
        return {
            **super().properties(tables),
            "database.port": self.url.port or 5432,
            "plugin.name": "pgoutput",
            "slot.name": self.name,
            "slot.drop.on.stop": "false",
            "publication.name": self.name,
            "publication.autocreate.mode": "disabled",
        }

    def estimate_rows(self, tables: Sequence[str]) -> int:
        """About how many rows the tables have, as the last ANALYZE counted."""
        return sum(table.rows for table in self._read_tables() if table.name in tables)

    def is_streaming(self) -> bool:
        """Whether the connector reads the slot."""
        slot = self._slot()
        return bool(slot and slot.active)

    def send_mark(self) -> str:
        """Writes a message into the log, which needs no table."""
        mark = f"{MARK}-{uuid.uuid4().hex}"
        self.ask("SELECT pg_logical_emit_message(false, :mark, '')", mark=mark)
        return mark

    def advance(self) -> None:
        """Sends a message, whose acknowledgement moves the slot."""
        self.send_mark()

    def measure_lag(self, state: State) -> Lag | None:
        """The log behind the acknowledged position, and what the slot keeps of it."""
        lag = (
            "SELECT pg_current_wal_lsn() - confirmed_flush_lsn, pg_current_wal_lsn() - restart_lsn"
            " FROM pg_replication_slots WHERE slot_name = :name AND confirmed_flush_lsn IS NOT NULL"
        )
        return next((Lag(int(a), int(b)) for a, b in self.ask(lag, name=self.name)), None)

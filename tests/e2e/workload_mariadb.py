"""What writers do to the shop's tables in MariaDB, and values of all its types."""

import random
import uuid

from tests.e2e.mariadb import MariaDb, Session
from tests.e2e.writers import Step

# Of each type its limits and what is odd about it; each column can also be null.
SINK: dict[str, tuple[object, ...]] = {
    "c_tiny": (-128, 0, 127),
    "c_utiny": (0, 255),
    "c_flag": (0, 1, 2),
    "c_usmall": (0, 65535),
    "c_medium": (-8388608, 8388607),
    "c_uint": (0, 4294967295),
    "c_bigint": (-(2**63), 2**63 - 1),
    "c_ubigint": (0, 1234, 2**63, 2**64 - 1),
    "c_dec": ("-0.01", "9999999999.99", "1234"),
    "c_dec38": ("-9999999999999999999999999999.9999999999", "0.0000000001"),
    "c_dec65": ("0." + "1" * 30, "9" * 35 + "." + "9" * 30),
    "c_float": (1.5, -0.25),
    "c_double": (0.1, 1.7976931348623157e308, -2.2250738585072014e-308),
    "c_bit1": (0, 1),
    "c_bit10": (0, 5, 517, 1023),
    "c_char": ("", "ab", "ünïcöd"),
    "c_varchar": ("", " padded ", "🦆"),
    "c_text": ("", 'é "x"\n\\', "x" * 3000),
    "c_latin": ("é§",),
    "c_enum": ("a", "b ü"),
    "c_set": ("", "x", "x,z"),
    "c_json": ('{"a": [1, 2.50, null], "b": "é"}', "[]", "null"),
    "c_binary": (b"\x01\x02\x00\x00", b"\x00\xff\xfe\xfd"),
    "c_varbinary": (b"", b"\x00", b"\xde\xad\xbe\xef"),
    "c_blob": (b"", b"\x00\xff" * 2000),
    "c_longblob": (b"\x80",),
    "c_date": ("1000-01-01", "1582-10-15", "9999-12-31"),
    "c_time": ("-838:59:59", "00:00:00", "838:59:59"),
    "c_time6": ("-00:00:00.000001", "23:59:59.999999", "100:00:00.5"),
    "c_year": (1901, 2025, 2155),
    "c_dt": ("1000-01-01 00:00:00", "9999-12-31 23:59:59"),
    "c_dt3": ("1969-12-31 23:59:59.999", "2026-03-29 02:30:00.001"),
    "c_dt6": ("1970-01-01 00:00:00.000001", "2026-10-25 02:30:00.678901"),
    "c_ts": ("1970-01-01 00:00:01", "2038-01-19 03:14:07"),
    "c_ts6": ("1970-01-01 00:00:01.000001", "2026-10-25 01:30:00.999999"),
}

SERIES = "(SELECT seq AS g FROM seq_1_to_{}) s"
"""So many rows with a number `g`."""


def seed(server: MariaDb) -> None:
    """What the shop holds before anybody captures it; every value of every type is among it."""
    server.execute(
        "INSERT INTO customers(email, name) SELECT concat(seq, '@x'), seq FROM seq_1_to_20",
        "INSERT INTO products(sku, name, price, description)"
        " SELECT concat('P', seq), 'n', seq, repeat(md5(seq), 100) FROM seq_1_to_20",
        "INSERT INTO accounts SELECT seq, 'o', seq, 'l' FROM seq_1_to_10",
        "INSERT INTO staging SELECT seq, 's' FROM seq_1_to_10",
    )
    with server.connect() as session:
        every_value(session, "seed")


def every_value(session: Session, name: str) -> None:
    """Rows that have all values of all types, and null."""
    for at in range(1 + max(map(len, SINK.values()))):
        values = [(None, *values)[at % (1 + len(values))] for values in SINK.values()]
        _insert(session, f"{name}-{at}", values)


def change_shape(server: MariaDb) -> None:
    """DDL while everybody writes."""
    server.execute(
        "ALTER TABLE accounts ADD COLUMN currency char(3) FIRST",
        "UPDATE accounts SET currency = 'EUR'",
        "ALTER TABLE accounts MODIFY balance bigint, DROP COLUMN legacy",
        "UPDATE accounts SET balance = balance + 5000000000",
    )


def _insert(session: Session, id: str, values: list[object]) -> None:
    holes = ", ".join(["%s"] * (1 + len(values)))
    columns = ", ".join(SINK)
    session.execute(f"INSERT INTO kitchen_sink(id, {columns}) VALUES ({holes})", [id, *values])


def _one(session: Session, column: str, table: str) -> object:
    """The column of some row; the tables are never empty."""
    found = session.execute(f"SELECT {column} FROM {table} ORDER BY rand() LIMIT 1").fetchall()
    return found[0][0]


def _order(session: Session, chance: random.Random) -> int:
    """An order with its items, in one transaction."""
    items = chance.randint(1, 3)
    order = session.execute(
        "INSERT INTO orders(customer_id, total, placed_on, placed_at, note)"
        " VALUES (%s, %s, current_date, now(6), 'new')",
        [_one(session, "id", "customers"), chance.randint(1, 999)],
    ).lastrowid
    for line in range(items):
        sku = _one(session, "sku", "products")
        row = [order, line, sku, chance.randint(1, 9)]
        session.execute("INSERT INTO order_items VALUES (%s, %s, %s, %s, 1.50)", row)
    return items + 1


def _pay(session: Session, chance: random.Random) -> int:
    return session.execute(
        "UPDATE orders SET status = %s, note = %s ORDER BY rand() LIMIT 1",
        [chance.choice(["paid", "shipped", "cancelled"]), chance.choice(["a", "b", None])],
    ).rowcount


def _cancel(session: Session, _: random.Random) -> int:
    """Deletes an order with all its items; the binlog has no change that a foreign key makes."""
    found = session.execute("SELECT id FROM orders ORDER BY rand() LIMIT 1").fetchall()
    return sum(
        session.execute(f"DELETE FROM {table} WHERE {key} = %s", id).rowcount
        for id in found
        for table, key in (("order_items", "order_id"), ("orders", "id"))
    )


def _customer(session: Session, chance: random.Random) -> int:
    if chance.random() < 0.3:
        row = [f"{chance.random()}@x"]
        return session.execute("INSERT INTO customers(email, name) VALUES (%s, 'n')", row).rowcount
    return session.execute(
        "UPDATE customers SET tier = %s, tags = %s ORDER BY rand() LIMIT 1",
        [chance.choice(["bronze", "silver", "gold"]), chance.choice(["a", "b,c", "", None])],
    ).rowcount


def _price(session: Session, _: random.Random) -> int:
    """Many rows in one event of the binlog."""
    return session.execute(
        "UPDATE products SET price = price + 0.01, updated_at = now(6) ORDER BY rand() LIMIT 3"
    ).rowcount


def _rename(session: Session, chance: random.Random) -> int:
    """A key change."""
    sku = _one(session, "sku", "products")
    new = [f"P{chance.randint(1, 10**9)}", sku]
    return session.execute("UPDATE products SET sku = %s WHERE sku = %s", new).rowcount


def _sink(session: Session, chance: random.Random) -> int:
    if chance.random() < 0.4:
        values = [chance.choice((None, *values)) for values in SINK.values()]
        _insert(session, str(uuid.UUID(int=chance.getrandbits(128))), values)
        return 1
    if chance.random() < 0.1:
        return session.execute("DELETE FROM kitchen_sink ORDER BY rand() LIMIT 1").rowcount
    column = chance.choice(list(SINK))
    value = [chance.choice((None, *SINK[column]))]
    statement = f"UPDATE kitchen_sink SET {column} = %s ORDER BY rand() LIMIT 2"
    return session.execute(statement, value).rowcount


def _click(session: Session, chance: random.Random) -> int:
    """A table without a key: rows repeat, and one of several equal ones is removed."""
    if chance.random() < 0.7:
        row = [str(chance.randint(1, 3))]
        session.execute("INSERT INTO clicks VALUES (%s, '/', '2026-01-01 00:00:00.5')", row)
        return 1
    return session.execute("DELETE FROM clicks LIMIT 1").rowcount


def _account(session: Session, chance: random.Random) -> int:
    row = [chance.randint(1, 999), chance.randint(1, 10)]
    return session.execute("UPDATE accounts SET balance = %s WHERE id = %s", row).rowcount


def _stage(session: Session, chance: random.Random) -> int:
    if chance.random() < 0.05:
        session.execute("TRUNCATE staging")
        return 1
    row = [chance.randint(1, 50)]
    session.execute("REPLACE INTO staging VALUES (%s, 'p')", row)
    return 1


def _mixed(session: Session, chance: random.Random) -> int:
    session.execute(
        "INSERT INTO `Mixed Case` VALUES (%s, 'n', 's', 1)"
        " ON DUPLICATE KEY UPDATE `a.b` = `a.b` + 1",
        [chance.randint(1, 20)],
    )
    return 1


STEPS: tuple[tuple[Step, int], ...] = (
    (_order, 4), (_pay, 4), (_cancel, 1), (_customer, 2), (_price, 3), (_rename, 1), (_sink, 2),
    (_click, 2), (_account, 2), (_stage, 2), (_mixed, 1),
)  # fmt: skip

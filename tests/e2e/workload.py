"""What writers do to the shop's tables: transactions, key changes, truncates, TOAST."""

import random
from typing import Any

import psycopg

from tests.e2e.postgres import Postgres
from tests.e2e.writers import Step

Connection = psycopg.Connection[tuple[Any, ...]]
SINK = """
  INSERT INTO shop.{table} VALUES (gen_random_uuid(), 1, %s, 3, 12.34, 1.5, 0.5, 2.25, true,
    'é "x"', 'v', 'c', '\\xdead', '2026-01-02', '10:11:12.123456', '10:11:12.123', '10:11:12+02',
    '2026-01-02 03:04:05.678901', '2026-01-02 03:04:05.678', now(), '1 day 02:03:04',
    gen_random_uuid(), '{{"a":1}}', '{{"b": [1, 2]}}', '{{a,NULL}}', '{{1,NULL,3}}', 'gold',
    '10.0.0.1', repeat(md5(random()::text), 120))"""

SERIES = "generate_series(1, {}) g"
"""So many rows with a number `g`."""


def seed(server: Postgres) -> None:
    """What the shop holds before anybody captures it."""
    server.execute(
        "INSERT INTO shop.customers(email, name) SELECT g || '@x', 'n' || g"
        " FROM generate_series(1, 20) g",
        "INSERT INTO shop.products(sku, name, price, description) SELECT 'P' || g, 'n', g,"
        " repeat(md5(g::text), 100) FROM generate_series(1, 20) g",
        "INSERT INTO shop.accounts SELECT g, 'o', g, 'l' FROM generate_series(1, 10) g",
        "INSERT INTO shop.staging SELECT g, 's' FROM generate_series(1, 10) g",
        *[SINK.format(table=t).replace("%s", "0") for t in ("kitchen_sink", "kitchen_sink_full")],
    )


def change_shape(server: Postgres) -> None:
    """DDL while everybody writes."""
    server.execute(
        "ALTER TABLE shop.accounts ADD COLUMN currency char(3)",
        "UPDATE shop.accounts SET currency = 'EUR'",
        "ALTER TABLE shop.accounts ALTER COLUMN balance TYPE bigint",
        "UPDATE shop.accounts SET balance = balance + 5000000000",
    )


def _order(connection: Connection, chance: random.Random) -> int:
    """An order with its items, in one transaction."""
    items = chance.randint(1, 3)
    skus = connection.execute("SELECT sku FROM shop.products ORDER BY random() LIMIT 3").fetchall()
    order = connection.execute(
        "INSERT INTO shop.orders(customer_id, total, placed_on, placed_at, note)"
        " SELECT id, %s, current_date, now(), 'new' FROM shop.customers ORDER BY random() LIMIT 1"
        " RETURNING id", [chance.randint(1, 999)],
    ).fetchone()  # fmt: skip
    assert order
    for line in range(items):
        connection.execute(
            "INSERT INTO shop.order_items VALUES (%s, %s, %s, %s, 1.50)",
            [order[0], line, skus[line % len(skus)][0], chance.randint(1, 9)],
        )
    return items + 1


def _pay(connection: Connection, chance: random.Random) -> int:
    return connection.execute(
        "UPDATE shop.orders SET status = %s, note = %s WHERE id IN"
        " (SELECT id FROM shop.orders ORDER BY random() LIMIT 1)",
        [chance.choice(["paid", "shipped", "cancelled"]), chance.choice(["a", "b", None])],
    ).rowcount


def _cancel(connection: Connection, _: random.Random) -> int:
    """Deletes an order with all its items."""
    return connection.execute(
        "DELETE FROM shop.orders WHERE id IN (SELECT id FROM shop.orders ORDER BY random() LIMIT 1)"
    ).rowcount


def _customer(connection: Connection, chance: random.Random) -> int:
    if chance.random() < 0.3:
        name = f"{chance.random()}@x"
        connection.execute("INSERT INTO shop.customers(email, name) VALUES (%s, 'new')", [name])
        return 1
    return connection.execute(
        "UPDATE shop.customers SET tier = %s::shop.tier, tags = %s WHERE id IN"
        " (SELECT id FROM shop.customers ORDER BY random() LIMIT 1)",
        [chance.choice(["bronze", "silver", "gold"]), [chance.choice("abc")]],
    ).rowcount


def _price(connection: Connection, chance: random.Random) -> int:
    """Leaves the long description alone, which the change then does not carry."""
    return connection.execute(
        "UPDATE shop.products SET price = price + 0.01, updated_at = now() WHERE sku IN"
        " (SELECT sku FROM shop.products ORDER BY random() LIMIT 1)"
    ).rowcount


def _rename(connection: Connection, chance: random.Random) -> int:
    """A key change, of a row whose description is long, and of the items that name it."""
    (sku,) = connection.execute(
        "SELECT sku FROM shop.products ORDER BY random() LIMIT 1"
    ).fetchall()[0]
    items = connection.execute("SELECT count(*) FROM shop.order_items WHERE sku = %s", [sku])
    (named,) = items.fetchall()[0]
    renamed = connection.execute(
        "UPDATE shop.products SET sku = 'P' || %s WHERE sku = %s", [chance.randint(1, 10**9), sku]
    ).rowcount
    return renamed + int(named)


def _sink(connection: Connection, chance: random.Random) -> int:
    table = chance.choice(["kitchen_sink", "kitchen_sink_full"])
    if chance.random() < 0.4:
        connection.execute(SINK.format(table=table).encode(), [chance.randint(0, 99)])
        return 1
    statement = (
        f"UPDATE shop.{table} SET c_int = c_int + 1, c_text = md5(random()::text) WHERE id IN"
        f" (SELECT id FROM shop.{table} ORDER BY random() LIMIT 1)"
    )
    return connection.execute(statement.encode()).rowcount


def _click(connection: Connection, chance: random.Random) -> int:
    """A table without a key: rows repeat, and one of several equal ones is removed."""
    if chance.random() < 0.7:
        session = [str(chance.randint(1, 3))]
        connection.execute("INSERT INTO shop.clicks VALUES (%s, '/', '2026-01-01')", session)
        return 1
    return connection.execute(
        "DELETE FROM shop.clicks WHERE ctid IN (SELECT ctid FROM shop.clicks LIMIT 1 FOR UPDATE)"
    ).rowcount


def _account(connection: Connection, chance: random.Random) -> int:
    return connection.execute(
        "UPDATE shop.accounts SET balance = %s WHERE id = %s",
        [chance.randint(1, 999), chance.randint(1, 10)],
    ).rowcount


def _stage(connection: Connection, chance: random.Random) -> int:
    if chance.random() < 0.05:
        connection.execute("TRUNCATE shop.staging")
        return 1
    connection.execute(
        "INSERT INTO shop.staging VALUES (%s, 'p') ON CONFLICT (id) DO UPDATE SET payload = 'q'",
        [chance.randint(1, 50)],
    )
    return 1


def _mixed(connection: Connection, chance: random.Random) -> int:
    connection.execute(
        'INSERT INTO shop."Mixed Case" VALUES (%s, %s, %s, 1) ON CONFLICT ("Id") DO UPDATE'
        ' SET "a.b" = shop."Mixed Case"."a.b" + 1',
        [chance.randint(1, 20), "n", "s"],
    )
    return 1


STEPS: tuple[tuple[Step, int], ...] = (
    (_order, 4), (_pay, 4), (_cancel, 1), (_customer, 2), (_price, 3), (_rename, 1), (_sink, 2),
    (_click, 2), (_account, 2), (_stage, 2), (_mixed, 1),
)  # fmt: skip

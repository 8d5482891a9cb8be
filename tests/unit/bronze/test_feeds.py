from bronze.contract import COLUMNS, feed_name
from bronze.feeds import TRANSACTIONS, feed_folder, group_tables, list_feeds
from bronze.views import build_view
from lakehouse.config.table import Table
from lakehouse.config.target import Target

LAKE = Target(root="/lake")


def table(called: str, *sources: dict[str, object]) -> Table:
    given = [{"format": "debezium", **source} for source in sources]
    return Table.model_validate({"table": called, "keys": ["id"], "sources": given})


def names(*tables: Table) -> list[str]:
    return [feed.name for feed in list_feeds(tables)]


def test_a_folder_of_one_table_bears_its_name() -> None:
    assert names(table("orders", {"path": "anywhere"})) == ["orders"]


def test_tables_that_take_their_topics_from_one_folder_share_its_feed() -> None:
    tables = [table(name, {"path": "shop", "topic": f"s.{name}"}) for name in ("a", "b")]
    (feed,) = list_feeds(tables)
    assert (feed.name, feed.tables) == ("feed_shop", {"a": ("s.a",), "b": ("s.b",)})


def test_a_table_that_takes_all_topics_of_a_feed_and_one_of_them_takes_all() -> None:
    one, every = {"path": "shop", "topic": "s.a"}, {"path": "shop"}
    other = {"path": "shop", "topic": "s.b"}
    for sources in ((one, every), (every, one), (one, other, every), (one, every, other)):
        assert [feed.tables for feed in list_feeds([table("a", *sources)])] == [{"a": ()}]
    assert list_feeds([table("a", one, other)])[0].tables == {"a": ("s.a", "s.b")}


def test_folders_that_differ_only_in_lost_letters_have_feeds_of_their_own() -> None:
    dotted, dashed = (table("t", {"path": path, "topic": "x"}) for path in ("a.b", "a-b"))
    assert len(set(names(dotted, dashed))) == 2


def test_a_feed_keeps_its_name_whichever_other_tables_there_are() -> None:
    one = table("a", {"path": "shop"})
    other = table("b", {"path": "shop", "topic": "b"})
    assert names(one, other) == ["a", "feed_shop"]


def test_each_source_of_a_table_with_several_has_a_feed() -> None:
    csv = {"path": "old", "format": "rows", "file_format": "csv", "once": True}
    kafka = {"topic": "s.t", "bootstrap_servers": "k:9092"}
    two = table("t", {"path": "new"}, {"path": None, "kafka": kafka}, csv)
    assert len(set(names(two))) == 3
    assert names(two)[0] == "feed_new"


def of_many(name: str, topics: str, **more: object) -> Table:
    kafka = {"topic": topics, "bootstrap_servers": "k:9092", "shared": True}
    source = {"format": "debezium", "topic": f"s.p.{name}", "kafka": kafka}
    return Table.model_validate({"table": name, "keys": ["id"], "source": source, **more})


def test_all_topics_of_the_same_brokers_share_a_feed_whose_name_stays() -> None:
    before = of_many("a", "s.p.a,s.p.waits")
    (feed,) = list_feeds([before, of_many("b", "s.p.a,s.p.b,s.p.waits")])
    assert feed.kafka is not None
    assert feed.kafka.topic == "s.p.a,s.p.waits,s.p.b"
    assert feed.tables == {"a": ("s.p.a",), "b": ("s.p.b",)}
    assert names(before) == [feed.name]


def test_the_ends_of_transactions_come_with_the_topics_of_many_tables() -> None:
    (feed,) = list_feeds([of_many("a", "s.p.a", consistency_group="g")])
    assert feed.kafka is not None
    assert feed.kafka.topic == "s.p.a,s.transaction"
    assert feed.tables == {"a": ("s.p.a",), TRANSACTIONS: ("s.transaction",)}


def test_tables_whose_transactions_end_in_one_topic_of_their_own_are_read_together() -> None:
    def alone(name: str, group: str) -> Table:
        kafka = {"topic": f"s.p.{name}", "bootstrap_servers": "k:9092"}
        source = {"format": "debezium", "kafka": kafka}
        given = {"table": name, "keys": ["id"], "source": source, "consistency_group": group}
        return Table.model_validate(given)

    families = group_tables([alone("a", "g"), alone("b", "h"), table("c", {"path": "c"})])
    assert [[each.table for each in family] for family in families] == [["a", "b"], ["c"]]


def test_a_trailing_slash_makes_no_other_feed() -> None:
    with_slash, without = (table("t", {"path": path, "topic": "x"}) for path in ("s/", "s"))
    assert names(with_slash, without) == ["feed_s"]


def test_the_tightest_limit_of_the_tables_counts() -> None:
    tables = [
        table(name, {"path": "shop", "topic": name, "max_files_per_trigger": limit})
        for name, limit in (("a", 9), ("b", 5), ("c", None))
    ]
    assert list_feeds(tables)[0].max_files == 5


def test_a_folder_lies_below_the_landing_root_unless_it_is_absolute() -> None:
    paths = ("shop", "/data/shop/", "s3://bucket/shop")
    found = [feed_folder(LAKE, list_feeds([table("t", {"path": path})])[0]) for path in paths]
    assert found == ["/lake/landing/shop", "/data/shop", "s3://bucket/shop"]


def test_the_view_shows_a_tables_topics_of_each_of_its_feeds() -> None:
    columns = ", ".join(f"`{column.name}`" for column in COLUMNS)
    both = table("t", {"path": "shop", "topic": "it's"}, {"path": "old"})
    shop = f"SELECT {columns} FROM delta.`/lake/lake/bronze/feed_shop` WHERE _topic IN ('it\\'s')"
    old = f"SELECT {columns} FROM delta.`/lake/lake/bronze/feed_old`"
    assert build_view(LAKE, both, {"feed_shop", "feed_old"}).query == f"{shop} UNION ALL {old}"
    assert build_view(LAKE, both, {"feed_shop"}).query == shop


def test_the_name_is_a_function_of_the_table_and_its_source_alone() -> None:
    shop = table("t", {"path": "shop", "topic": "x"})
    assert feed_name(shop, shop.feeds[0]) == "feed_shop"


def test_tables_that_share_a_feed_are_one_family() -> None:
    def named(name: str, path: str) -> Table:
        source = {"format": "debezium", "path": path, "topic": f"s.{name}"}
        return Table.model_validate({"table": name, "keys": ["id"], "source": source})

    tables = [named("a", "x"), named("b", "y"), named("c", "x")]
    assert [[t.table for t in family] for family in group_tables(tables)] == [["a", "c"], ["b"]]

"""Which tables a run may write: those that no other run is writing now."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from bronze.feeds import list_feeds
from cdc_lakehouse.terminal.console import show_progress
from lakehouse.config.table import Table
from lakehouse.config.target import LAYERS, Layer, Target
from lakehouse.errors import ManyTablesFailed, TableFailed, TableLocked
from lakehouse.run.ledger import check_project
from lakehouse.storage.lake import Lake
from lakehouse.storage.locks import hold_locks


@contextmanager
def lock_tables(
    target: Target,
    tables: Sequence[Table],
    layers: Sequence[Layer],
    run_id: str,
    held: Sequence[Table] = (),
) -> Iterator[tuple[list[Table], list[TableFailed]]]:
    """Lock what the layers write of the tables; yields the locked tables, and the refused ones.

    Bronze locks feeds, so a table is refused as well when another run reads its folder or topics.
    What this run holds for the tables `held` is not locked again.
    """
    mine = _name_locks(held, layers)
    locks = {name: of for name, of in _name_locks(tables, layers).items() if name not in mine}
    with _hold(target, list(locks), run_id) as holders:
        held_by = {table: who for name, who in holders.items() for table in locks[name]}
        held_by = _with_groups(tables, held_by)
        refused: list[TableFailed] = [TableLocked(t, who) for t, who in held_by.items()]
        yield [table for table in tables if table.table not in held_by], refused


@contextmanager
def _hold(target: Target, names: Sequence[str], run_id: str) -> Iterator[Mapping[str, str]]:
    """Takes the locks in files of the lake, or in a table of its catalog; yields who refuses some.

    Raises:
        ConfigurationError: the lake is another project's.
    """
    if not target.catalog:
        check_project(target)
        with hold_locks(target, names, run_id) as holders:
            yield {name: str(who) for name, who in holders.items()}
        return
    from lakehouse.run.lease import hold_names
    from lakehouse.spark.session import get_spark

    with show_progress("looking for other runs"):
        lake = Lake(get_spark(target), target)
        check_project(target, lake)
    with hold_names(lake, names, run_id) as refused:
        yield refused


def _name_locks(tables: Sequence[Table], layers: Sequence[Layer]) -> dict[str, tuple[str, ...]]:
    """Names of locks, with the tables that need them."""
    locks: dict[str, tuple[str, ...]] = {}
    if "bronze" in layers:
        locks |= {f"bronze.{feed.name}": tuple(feed.tables) for feed in list_feeds(tables)}
    if "silver" in layers:
        locks |= {f"silver.{table.table}": (table.table,) for table in tables}
    if "gold" in layers:
        locks |= {f"gold.{t.table}": (t.table,) for t in tables if t.publish == "table"}
    return locks


def _with_groups(tables: Sequence[Table], held_by: dict[str, str]) -> dict[str, str]:
    """The holders by table: who holds a member of a consistency group holds back all of it."""
    groups = {t.consistency_group: held_by[t.table] for t in tables if t.table in held_by}
    groups.pop(None, None)
    others = {t.table: groups[t.consistency_group] for t in tables if t.consistency_group in groups}
    return others | held_by


@contextmanager
def hold_all_layers(target: Target, tables: Sequence[Table], run_id: str) -> Iterator[None]:
    """Hold all layers of these tables; for commands that rewrite what is there.

    Raises:
        ManyTablesFailed: another run holds some of them; nothing has been done.
    """
    with lock_tables(target, tables, LAYERS, run_id) as (_, refused):
        if refused:
            raise ManyTablesFailed(refused)
        yield

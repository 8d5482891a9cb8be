"""Views that a layer publishes: in the catalog or, without one, in a file of the lake.

The file is replaced in one rename, so a reader sees all views of one publication or all of another.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from lakehouse.config.target import Layer, Target
from lakehouse.places.place import Place, place, write_whole
from lakehouse.storage import names
from lakehouse.storage.locks import sharing
from lakehouse.storage.names import literal, quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class View(NamedTuple):
    """A view of gold: its name, its columns with their comments, and the SELECT behind it.

    `as_of` is the SELECT that answers for a time at the source, which stands in it as {at}; None
    for a view that knows no other time. A view of a consistency group is pinned: to this silver
    table at this Delta version, which VACUUM must keep. `applied` is the SELECT without what waits
    to be applied, of a view that shows that too (`gold.views.merged`). `waiting` names the view of
    silver that shows what waits, which stands in the query as {waiting}: whoever reads finds it as
    it is then; where nothing waits the SELECT is that of `applied`. The oldest change that such a
    view of silver shows came to the change log at `since` (µs since 1970). `of_keys` is a SELECT of
    its keys alone, which may repeat one, and stands in the query as {waiting_keys}.
    """

    name: str
    columns: dict[str, str | None]
    comment: str
    keys: tuple[str, ...]
    query: str
    as_of: str | None = None
    pinned: tuple[str, int] | None = None
    applied: str | None = None
    waiting: str | None = None
    since: int | None = None
    of_keys: str | None = None


WAITING, WAITING_KEYS = "{waiting}", "{waiting_keys}"


def publish(spark: "SparkSession", target: Target, layer: Layer, views: Iterable[View]) -> None:
    """Makes the views findable; views of other tables stay as they are."""
    if target.catalog:
        for view in views:
            spark.sql(create_sql(names.name(target, layer, view.name), view))
            if view.as_of:
                spark.sql(function_sql(names.name(target, layer, as_of_name(view)), view))
        return
    _change(target, layer, {view.name: view for view in views}, ())


def retract(target: Target, layer: Layer, names: Collection[str]) -> None:
    """Takes views away again from a lake without a catalog; those that are not there are not."""
    if not _kept(target, layer).keys().isdisjoint(names):
        _change(target, layer, {}, names)


def _change(target: Target, layer: Layer, fresh: Mapping[str, View], gone: Collection[str]) -> None:
    file = _file(target, layer)
    with sharing(target):
        kept = {**_kept(target, layer), **fresh}
        text = json.dumps([view._asdict() for view in kept.values() if view.name not in gone])
        if file.exists() and file.read_text() == text:
            return
        write_whole(file, text.encode())


def stored(target: Target, layer: Layer) -> dict[str, View]:
    """The views that a lake without a catalog holds, by name, with what waits now in them."""
    views = _kept(target, layer)
    if all(view.waiting is None for view in views.values()):
        return views
    below = _kept(target, "silver")
    return {name: resolved(view, below) for name, view in views.items()}


def resolved(view: View, below: Mapping[str, View]) -> View:
    """The view with what silver's views `below` show of what waits; without what is not there."""
    if view.waiting is None:
        return view
    waits = below.get(view.waiting)
    if waits is None:
        return view._replace(query=str(view.applied), waiting=None)
    query = view.query.replace(WAITING, f"({waits.query})")
    query = query.replace(WAITING_KEYS, f"({waits.of_keys or waits.query})")
    return view._replace(query=query, waiting=None)


def state_of_views(target: Target, layer: Layer) -> tuple[int, ...]:
    """What differs once the views that a lake without a catalog holds are others."""
    try:
        state = _file(target, layer).stat()
    except FileNotFoundError:
        return ()
    return state.st_mtime_ns, state.st_size, state.st_ino


def _kept(target: Target, layer: Layer) -> dict[str, View]:
    """The views as they are kept."""
    file = _file(target, layer)
    if not file.exists():
        return {}
    views = [View(**entry) for entry in json.loads(file.read_text())]
    return {view.name: _pinned(view) for view in views}


def create_sql(name: str, view: View) -> str:
    """CREATE VIEW with everything a catalog browser shows."""
    columns = ", ".join(
        quote(column) + (f" COMMENT {literal(text)}" if text else "")
        for column, text in view.columns.items()
    )
    keys = literal(", ".join(view.keys))
    return (
        f"CREATE OR REPLACE VIEW {name} ({columns}) COMMENT {literal(view.comment)}"
        f" TBLPROPERTIES ('keys' = {keys}) AS {view.query}"
    )


def function_sql(name: str, view: View) -> str:
    """CREATE FUNCTION of `T_as_of(timestamp)`, which shows a view with a history at a time."""
    comment = literal(f"{view.name} as of a time at the source")
    return (
        f"CREATE OR REPLACE FUNCTION {name}(_at TIMESTAMP COMMENT 'time at the source')"
        f" RETURNS TABLE COMMENT {comment} RETURN {at_time(view, '_at')}"
    )


def as_of_name(view: View) -> str:
    """What the function is called that shows a view with a history at a time."""
    return f"{view.name}_as_of"


def at_time(view: View, moment: str) -> str:
    """The SELECT of a view with a history at a moment, which is SQL."""
    return str(view.as_of).replace("{at}", moment)


def _pinned(view: View) -> View:
    """The view with the pair that JSON made a list."""
    if view.pinned is None:
        return view
    kept, version = view.pinned
    return view._replace(pinned=(kept, version))


def _file(target: Target, layer: Layer) -> Place:
    return place(target, target.lake, layer, "_views.json")

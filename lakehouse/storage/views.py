"""Views that a layer publishes: in the catalog or, without one, in a file of the lake.

The file is replaced in one rename, so that readers see a consistent set of views.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from lakehouse.config.target import Layer, Target
from lakehouse.places.place import Place, to_place, write_whole
from lakehouse.storage.lake import Lake
from lakehouse.storage.locks import hold_commit_lock
from lakehouse.storage.names import literal, quote


class View(NamedTuple):
    """A view of gold: its name, its columns with their comments, and the SELECT behind it.

    `as_of` is the SELECT for a time at the source, with {at} for the time; None for a view without
    a history. `pinned` is the silver table and Delta version of a view of a consistency group.
    A view that merges pending changes on read (`gold.views.merged`) has
    `waiting`, the name of silver's view of them, as {waiting} in its query: it is inserted when the
    view is read, and without pending changes `applied` is the SELECT. In silver's view of pending
    changes `since` is when the oldest came to the change log (µs since 1970), and `of_keys` a
    SELECT of its keys, which may have duplicates: {waiting_keys} in the query.
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
_MOVABLE = "delta.`{lake}/"
"""How stored views name the lake's folder, so that a lake that is moved or copied shows its own."""


def publish_views(lake: Lake, layer: Layer, views: Iterable[View]) -> None:
    """Publishes the views; views of other tables are unchanged."""
    if lake.target.catalog:
        for view in views:
            lake.spark.sql(create_sql(lake.name(layer, view.name), view))
            if view.as_of:
                lake.spark.sql(function_sql(lake.name(layer, as_of_name(view)), view))
        return
    _update_views(lake.target, layer, {view.name: view for view in views}, ())


def change_view(target: Target, layer: Layer, name: str, change: Callable[[View], View]) -> None:
    """Changes a view of a lake without a catalog, if it exists."""
    _update_views(target, layer, {}, (), {name: change})


def retract_views(target: Target, layer: Layer, names: Collection[str]) -> None:
    """Removes views from a lake without a catalog, if they exist."""
    if not _read_stored_views(target, layer).keys().isdisjoint(names):
        _update_views(target, layer, {}, names)


def _update_views(
    target: Target,
    layer: Layer,
    fresh: Mapping[str, View],
    gone: Collection[str],
    changes: Mapping[str, Callable[[View], View]] = MappingProxyType({}),
) -> None:
    file = _views_file(target, layer)
    with hold_commit_lock(target):
        kept = {**_read_stored_views(target, layer), **fresh}
        kept |= {name: change(kept[name]) for name, change in changes.items() if name in kept}
        views = [view._asdict() for view in kept.values() if view.name not in gone]
        text = json.dumps(views).replace(_name_lake(target), _MOVABLE)
        if file.exists() and file.read_text() == text:
            return
        write_whole(file, text.encode())


def load_views(target: Target, layer: Layer) -> dict[str, View]:
    """The views of a lake without a catalog, by name, with the current pending changes."""
    views = _read_stored_views(target, layer)
    if all(view.waiting is None for view in views.values()):
        return views
    below = _read_stored_views(target, "silver")
    return {name: resolve_view(view, below) for name, view in views.items()}


def resolve_view(view: View, below: Mapping[str, View]) -> View:
    """The view with the pending changes of silver's views `below`, if there are any."""
    if view.waiting is None:
        return view
    waits = below.get(view.waiting)
    if waits is None:
        return view._replace(query=str(view.applied), waiting=None)
    query = view.query.replace(WAITING, f"({waits.query})")
    query = query.replace(WAITING_KEYS, f"({waits.of_keys or waits.query})")
    return view._replace(query=query, waiting=None)


def state_of_views(target: Target, layer: Layer) -> tuple[int, ...]:
    """Values that differ once the views of a lake without a catalog have changed."""
    try:
        state = _views_file(target, layer).stat()
    except FileNotFoundError:
        return ()
    return state.st_mtime_ns, state.st_size, state.st_ino


def _read_stored_views(target: Target, layer: Layer) -> dict[str, View]:
    """The views as stored in the layer's file."""
    file = _views_file(target, layer)
    if not file.exists():
        return {}
    text = file.read_text().replace(_MOVABLE, _name_lake(target))
    views = [View(**entry) for entry in json.loads(text)]
    # JSON has the tuple `pinned` as a list.
    return {v.name: v._replace(pinned=v.pinned and (v.pinned[0], v.pinned[1])) for v in views}


def create_sql(name: str, view: View) -> str:
    """CREATE VIEW with all comments that a catalog browser shows."""
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
    """The name of the function that shows a view with a history at a time."""
    return f"{view.name}_as_of"


def at_time(view: View, moment: str) -> str:
    """The SELECT of a view with a history at a moment, which is SQL."""
    return str(view.as_of).replace("{at}", moment)


def _name_lake(target: Target) -> str:
    """How a table's name in JSON begins."""
    return json.dumps(f"delta.{quote(target.lake)}")[1:-2] + "/"


def _views_file(target: Target, layer: Layer) -> Place:
    return to_place(target, target.lake, layer, "_views.json")

"""Tables that appear while a run goes on: it searches beside its work, and takes them in."""

import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from cdc_lakehouse.cli.front import load_whole_conf
from cdc_lakehouse.cli.options import Chosen
from cdc_lakehouse.cli.silence import split_unconfirmed
from cdc_lakehouse.cli.work.locking import lock_tables
from cdc_lakehouse.cli.work.rounds import Round
from cdc_lakehouse.drafts.topic_notes import Search, describe_new
from cdc_lakehouse.terminal.console import say, show_error
from lakehouse.config.table import Table
from lakehouse.config.target import Layer
from lakehouse.spark.failures import TABLE_FAILURES

LOOK_SECONDS, SHARE = 15.0, 20.0
"""The least pause between two searches, and how many times as long as a search it is."""


class _Pause(threading.Event):
    """Set when something was found, or the run is to stop."""

    def __init__(self, stop: threading.Event) -> None:
        super().__init__()
        self._stop = stop

    def is_set(self) -> bool:
        """Whether the work is to pause."""
        return super().is_set() or self._stop.is_set()


class NewTables:
    """The tables that a run finds after its beginning; `everything` is all that is configured."""

    def __init__(
        self,
        chosen: Chosen,
        layers: Sequence[Layer],
        search: Search | None,
        everything: list[Table],
    ) -> None:
        self._chosen, self._layers, self._search = chosen, layers, search
        self.everything = everything
        self._found: list[Table] = []

    def take_answers(self) -> dict[Any, Any]:
        """What Kafka's brokers answered to the last search, which bronze need not ask again."""
        if self._search is None:
            return {}
        answers, self._search.just_asked = self._search.just_asked, {}
        return answers

    @contextmanager
    def searching(self, stop: threading.Event) -> Iterator[threading.Event]:
        """Within, searches from time to time; what it yields is set when it finds something."""
        pause, ended = _Pause(stop), threading.Event()
        thread = threading.Thread(target=self._search_until, args=(ended, pause), daemon=True)
        if self._search is not None and self._search.new and not self._chosen.only:
            thread.start()
        try:
            yield pause
        finally:
            ended.set()
            if thread.ident is not None:
                thread.join()

    def _search_until(self, ended: threading.Event, pause: threading.Event) -> None:
        seconds = LOOK_SECONDS
        while not (ended.wait(seconds) or self._found):
            began = time.monotonic()
            self._found = self._look()
            if self._found:
                pause.set()
            seconds = max(LOOK_SECONDS, SHARE * (time.monotonic() - began))

    def _look(self) -> list[Table]:
        """All tables, if there are new ones or new topics; what is wrong is said by `validate`."""
        try:
            _, _, tables = load_whole_conf(self._chosen, self._search)
        except TABLE_FAILURES:
            return []
        topics = {table.table: _list_topics(table) for table in self.everything}
        return tables if any(topics.get(t.table) != _list_topics(t) for t in tables) else []

    def take_over(self, given: Round, tables: list[Table], locks: ExitStack) -> list[Table]:
        """Adds what was found to the tables of the run; returns the new ones, which it locks."""
        by_name = {table.table: table for table in self._found}
        names = {table.table for table in self.everything}
        new = [table for name, table in by_name.items() if name not in names]
        confirmed, refused = split_unconfirmed(self._chosen.conf, new)
        for some in (self.everything, tables):
            some[:] = [_with_topics(table, by_name.get(table.table, table)) for table in some]
        held = lock_tables(
            given.lake.target, confirmed, self._layers, given.run_id or uuid.uuid4().hex, tables
        )
        free, locked = locks.enter_context(held)
        for failure in [*refused, *locked]:
            show_error(str(failure))
        self.everything += new
        tables += free
        if given.memory is not None:
            given.memory.among, given.memory.just_asked = len(tables), self.take_answers()
        if free:
            say(describe_new([table.table for table in free]), whole=True)
        self._found = []
        return free


def _list_topics(table: Table) -> list[str]:
    return [feed.kafka.topic for feed in table.feeds if feed.kafka and feed.kafka.shared]


def _with_topics(table: Table, now: Table) -> Table:
    """A table with the topics that its bronze table has now, and else as the run began with it."""
    if table.source is None or now.source is None or _list_topics(table) == _list_topics(now):
        return table
    source = table.source.model_copy(update={"kafka": now.source.kafka})
    return table.model_copy(update={"source": source})

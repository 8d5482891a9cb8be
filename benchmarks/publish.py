"""What a run costs that publishes plain tables, beside the same run that publishes views."""

import functools
import itertools
from pathlib import Path

from benchmarks import ours
from benchmarks.apply import LOADS
from benchmarks.events import Workload, batches, snapshot, write
from benchmarks.measure import Plan, counted, in_turn
from benchmarks.result import Line
from benchmarks.truth import truth, wrong
from lakehouse.storage.lake import Lake

QUESTION = "A run that publishes plain tables"
FORMS: dict[str, dict[str, object]] = {
    "views": {},
    "publish: table": {"publish": "table"},
    "with change_data_feed": {"publish": "table", "change_data_feed": True},
}


def measure(work: Workload, root: Path, plan: Plan) -> list[Line]:
    """The same changes into lakes that differ in what they publish; each run merges."""
    first = snapshot(work)
    stream = list(itertools.islice(batches(work), plan.most))
    files = write(work, first, root / "files", "first")
    later = [write(work, part, root / "files", f"batch-{at}") for at, part in enumerate(stream)]
    places = {name: root / f"lake-{at}" for at, name in enumerate(FORMS)}
    for name, place in places.items():
        ours.configure(place, ours.table_of(work) | FORMS[name])
        ours.drop(place, files)
    spark, _ = ours.session(places["views"], open_ended=True)
    lakes = {
        name: ours.engine(Lake(spark, ours.target_at(place))) for name, place in places.items()
    }
    in_turn([{name: functools.partial(one.load, files) for name, one in lakes.items()}], LOADS)
    taken = in_turn(
        [{n: functools.partial(one.apply, batch) for n, one in lakes.items()} for batch in later],
        plan,
    )
    arrived = plan.warm + len(taken["views"])
    right = truth(work, [first, *stream[:arrived]])
    return [
        counted(name, runs, wrong(work, right, lakes[name].rows())) for name, runs in taken.items()
    ]

"""What is wrong with a table, read from its status record: worst first, each with what to do."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lakehouse.durations import render_duration
from lakehouse.remedies import find_remedy
from lakehouse.run.unread import Unread
from lakehouse.words import render_count

Record = Mapping[str, Any]

_OF_SOURCE = "source."


class Trouble(NamedTuple):
    """One thing that is wrong: a word or two for a column, and a sentence for a person."""

    word: str
    text: str


class PipelineStatus(NamedTuple):
    """What `status` and the report show: a record per table, and what is about no table.

    Attributes:
        records: the status records, each with its `warnings`.
        unread: what no table reads of each feed.
        notes: sentences about tables that no YAML describes.
    """

    records: list[dict[str, Any]]
    unread: list[Unread]
    notes: list[str]


def list_troubles(record: Record) -> list[Trouble]:
    """Everything that is wrong with the table of a status record, worst first."""
    return [*list_serious(record), *_list_hints(record)]


def list_serious(record: Record) -> list[Trouble]:
    """What is wrong, without hints."""
    kinds = (_list_failures, _list_keys, _list_late, _list_rejected)
    return [each for find in kinds for each in find(record)]


def name_state(record: Record) -> str:
    """The words of everything that is wrong with a table, or `ok`."""
    return ", ".join(dict.fromkeys(each.word for each in list_troubles(record))) or "ok"


def list_lines(status: PipelineStatus) -> list[tuple[str, str, bool]]:
    """What `status` and the report say, as (table, sentence, whether that is serious).

    The tables come in the order of `worst_first`; what is about no table comes last, under "".
    """
    lines = [
        (record["table"], each.text, each in serious)
        for record in worst_first(status.records)
        for serious in [list_serious(record)]
        for each in list_troubles(record)
    ]
    others = [*(text for each in status.unread for text in each.sentences()), *status.notes]
    return [*lines, *(("", text, False) for text in others)]


def worst_first(records: Sequence[Record]) -> list[Record]:
    """The records: those with a failure first, then late ones, rejected records, hints, the rest.

    Within each class they keep their order.
    """

    def severity(record: Record) -> int:
        classes = (_list_failures, _list_keys, _list_late, _list_rejected, _list_hints)
        return next((at for at, of in enumerate(classes) if list(of(record))), len(classes))

    return sorted(records, key=severity)


def _list_failures(record: Record) -> Iterator[Trouble]:
    table, failure = record["table"], record["last_failure"]
    if failure is not None:
        first = str(failure or "no reason given").splitlines()[0].removeprefix(f"{table}: ")
        action = find_remedy(str(failure)) or "mend the cause and run again"
        yield Trouble("FAILED", f"the last run failed: {first}; do: {action}")
    if not record["accounted"]:
        action = f"please report it, and look with `lakehouse verify {table}`"
        yield Trouble("MISCOUNTED", f"outcomes do not add up to the records; do: {action}")
    if record["gaps"] and not _accepts_loss(record):
        action = f"take a new snapshot: `lakehouse rebootstrap {table} --source URL`"
        accept = "accept the loss by source.on_data_loss: continue"
        yield Trouble("GAPS", f"{_sum_gaps(record)}; do: {action}, or {accept}")


def _accepts_loss(record: Record) -> bool:
    return bool(record.get("on_data_loss") == "continue")


def _sum_gaps(record: Record) -> str:
    backwards = any(gap.get("kind") == "positions" for gap in record["gaps"])
    gaps = render_count(len(record["gaps"]), "open gap")
    return f"{gaps} in the source{', positions run backwards' if backwards else ''}"


def _list_keys(record: Record) -> Iterator[Trouble]:
    key_parts = [part for part in record["key_parts"] if not part.startswith(_OF_SOURCE)]
    others = [part for part in record["key_parts"] if part not in key_parts]
    rebuild = f"`lakehouse rebuild {record['table']}`"
    if others:
        text = f"the records are of several source tables, which {', '.join(others)} distinguishes"
        effect = (
            "rows with one key are one row here, a full snapshot removes rows only where it shows "
            "all of the tables, and a truncate of one is a dead letter"
        )
        action = f"add a key column from it (`from: {others[0]}`), then {rebuild}"
        yield Trouble("KEYS", f"{text}; {effect}; do: {action}")
    if key_parts:
        parts = ", ".join(key_parts)
        text = f"the records' keys have parts that the table's keys have not: {parts}"
        effect = "rows that differ in nothing else of the key are one row here"
        add = "add them to `keys`, or choose the table's own records by source.topic"
        action = f"{add}; then {rebuild}"
        yield Trouble("KEYS", f"{text}; {effect}; do: {action}")
    if record["lacked_keys"]:
        lacked = ", ".join(record["lacked_keys"])
        text = f"the records' keys lack keys of the table, whose old values are not known: {lacked}"
        effect = "rows stay here that are deleted, or have another such key, at the source"
        full = (
            f"set REPLICA IDENTITY FULL and `lakehouse rebootstrap {record['table']} --source URL`"
        )
        action = f"take them out of `keys`, or {full}; then {rebuild}"
        yield Trouble("KEYS", f"{text}; {effect}; do: {action}")


def _list_late(record: Record) -> Iterator[Trouble]:
    if record["stale"]:
        waited = render_duration(record["staleness_seconds"])
        promised = render_duration(record["max_staleness_seconds"])
        text = f"a change has waited {waited}, promised are {promised}"
        yield Trouble("STALE", f"{text}; do: `lakehouse run --table {record['table']}`")


def _list_rejected(record: Record) -> Iterator[Trouble]:
    table, letters = record["table"], record["dead_letters_total"]
    if record["dead_letters_alert"]:
        reasons = ", ".join(f"{count:,} {why}" for why, count in record["dead_letters"].items())
        action = f"`lakehouse dead-letters list --table {table}`"
        yield Trouble(
            "dead letters", f"{render_count(letters, 'dead letter')} ({reasons}); do: {action}"
        )
    if record["stale_keys"]:
        stale = render_count(record["stale_keys"], "key")
        text = f"{stale} with an older row, because the newest change is a dead letter"
        action = "mend the cause, then `lakehouse dead-letters replay`"
        yield Trouble("stale keys", f"{text}; do: {action}")


def _list_hints(record: Record) -> Iterator[Trouble]:
    if record["gaps"] and _accepts_loss(record):
        yield Trouble("gaps", f"{_sum_gaps(record)}, accepted by source.on_data_loss")
    if record["order"] == "arrival":
        text = "the source gives no position that is known: changes are in order of arrival"
        yield Trouble("order: arrival", text)
    if record["order"] == "change":
        text = "PostgreSQL's records lack source.sequence: positions that start over go unseen"
        action = (
            f"use Debezium 1.6 or newer, of flattened events add.fields=source.sequence; until "
            f"then `lakehouse rebootstrap {record['table']} --source URL` after a restore or a move"
        )
        yield Trouble("order: change", f"{text}; do: {action}")
    of_layers = [name for name in record["left_out"] if name.startswith("_")]
    if of_layers:
        text = f"fields whose names begin with _ are left out: {', '.join(of_layers)}"
        yield Trouble("left out", f"{text}; do: rename them in the connector to keep them")
    nested = [name for name in record["left_out"] if not name.startswith("_")]
    if nested:
        text = f"fields that the declared struct has not are left out: {', '.join(nested)}"
        yield Trouble("left out", f"{text}; do: declare them to keep them")
    for warning in record.get("warnings", ()):
        yield Trouble("warning", str(warning))

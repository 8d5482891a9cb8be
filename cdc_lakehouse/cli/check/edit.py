"""`dead-letters edit`: one dead letter mended by hand and applied at its own place in order."""

import os
import shlex
import subprocess
import sys
import uuid
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from bronze.contract import ROW_MARK
from cdc_lakehouse.cli.check.dead_letters import letters, replay_letters
from cdc_lakehouse.cli.front import check_lake, command, load_whole_conf, open_lake
from cdc_lakehouse.cli.options import Chosen
from cdc_lakehouse.cli.work.locking import lock_tables
from cdc_lakehouse.cli.work.rounds import list_failures, raise_all
from lakehouse.config.table import Table
from lakehouse.errors import ConfigurationError
from lakehouse.storage.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import Row

STDIN = "-"

MOST_CHANGES = 1_000
"""So many dead letters of a position are looked through for the records that they are of."""

Position = Annotated[
    str, typer.Argument(metavar="POSITION", help="Where it lies, as `list` shows it.")
]
File = Annotated[
    str | None, typer.Option(help="A file with the mended text; - is stdin. Else $EDITOR opens.")
]


@command("edit", of=letters)
def edit(chosen: Chosen, position: Position, file: File = None) -> None:
    """Mend one dead letter and hand it back at its own place in order.

    It is applied as if the source had sent it so. The record stays in bronze as it came; the mended
    one stands beside it, and rebuilds and verify read that. Still wrong, it stays a dead letter;
    the next edit begins with the text as it was mended.
    """
    given_text = None if file is None else _read_text(file)
    target, tables, everything = load_whole_conf(chosen)
    check_lake(target)
    lake = open_lake(target, tables, sends_functions=True)
    letter = _find_letter(lake, tables, position)
    table = _table_of(letter, tables, position)
    now = _text_now(lake, letter)
    text = _edit_text(now) if given_text is None else given_text
    if text is None or text == now:
        print("nothing was changed")
        return
    from bronze.mended import mend_record
    from silver.changelog.dead_letter_list import Wanted

    run_id = uuid.uuid4().hex
    with lock_tables(target, [table], ["silver"], run_id) as (locked, failures):
        if locked:
            mend_record(lake, table, (letter["_feed"], _arrival_of(letter)), text)
            wanted = Wanted(position=letter["position"])
            entries = replay_letters(lake, (locked, everything), wanted, run_id)
            failures += list_failures(entries)
    raise_all(failures)


def _find_letter(lake: Lake, tables: list[Table], position: str) -> "Row":
    """An unresolved dead letter of the record that lies there.

    Raises:
        ConfigurationError: there is none, or they are of several records.
    """
    from silver.changelog.acknowledged import IDENTITY
    from silver.changelog.dead_letter_list import Wanted, dead_letters

    frame = dead_letters(lake, tables, Wanted(position=position))
    if frame is not None:
        identities = frame.select("table", *IDENTITY).limit(MOST_CHANGES).collect()
        arrival = _choose_letter(identities, position)["_arrival"]
        letter = frame.where(frame["_arrival"] == arrival).first()
        if letter is not None:
            return letter
    raise _build_not_found(position)


def _choose_letter(letters: Sequence["Row"], position: str) -> "Row":
    """The first letter of the only record; each of a record's changes may be a letter.

    Raises:
        ConfigurationError: there is no record, or there are several.
    """
    records = {(one["table"], one["_feed"], _arrival_of(one)) for one in letters}
    if len(records) > 1:
        action = "give the whole position, or --table"
        raise _to_error(f"several records at {position}", "one record", action)
    if not letters:
        raise _build_not_found(position)
    return min(letters, key=itemgetter("_arrival"))


def _text_now(lake: Lake, letter: "Row") -> str:
    """The record as it was mended last, as it came where nobody has; without line ends after it."""
    from silver.changelog.bronze_rows import read_mended

    rows = read_mended(lake, letter["_feed"])
    kept = None if rows is None else rows.where(rows["_arrival"] == _arrival_of(letter)).first()
    return str(letter["raw"] if kept is None else kept["_raw"]).rstrip("\r\n")


def _arrival_of(letter: "Row") -> str:
    """The `_arrival` of the record in bronze, of which the letter may be one change."""
    return str(letter["_arrival"]).partition(ROW_MARK)[0]


def _table_of(letter: "Row", tables: list[Table], position: str) -> Table:
    """The table whose record the letter is.

    Raises:
        ConfigurationError: no table reads the letter, or it is Avro, which is no text.
    """
    table = next((table for table in tables if table.table == letter["table"]), None)
    if table is None:
        expected = "a record of a table; this line names no topic"
        raise _to_error(position, expected, "drop it, mended, in a new file")
    if any(source.value_format == "avro" for source in table.feeds):
        action = "have the producer send it again"
        raise _to_error(position, "a record that is text, no Avro", action)
    return table


def _edit_text(text: str) -> str | None:
    """The text as the editor leaves it; None where nobody saved it.

    The file is dated 1970: a clock of whole seconds would not tell that it was saved at once.

    Raises:
        ConfigurationError: there is no such editor, it failed, or it saved no UTF-8.
    """
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with TemporaryDirectory() as folder:
        file = Path(folder, "record.json")
        file.write_bytes(text.encode())
        os.utime(file, (0, 0))
        try:
            subprocess.run([*shlex.split(editor), file], check=True)
            return _decode(file.read_bytes()) if file.stat().st_mtime > 0 else None
        except (OSError, ValueError, subprocess.CalledProcessError) as wrong:
            expected, action = "an editor that saves UTF-8", "set EDITOR, or use --file"
            error = ConfigurationError("environment", "EDITOR", str(wrong), expected, action)
            raise error from wrong


def _read_text(file: str) -> str:
    """The mended text.

    Raises:
        ConfigurationError: there is no such file, or it is no text in UTF-8.
    """
    try:
        data = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
        return _decode(data)
    except (OSError, UnicodeDecodeError) as wrong:
        problem, expected = f"{file}: {wrong}", "a file with one record in UTF-8"
        error = ConfigurationError("command line", "--file", problem, expected, "correct it")
        raise error from wrong


def _decode(data: bytes) -> str:
    """The text of a file, without a byte order mark and without line ends after it."""
    return data.decode("utf-8-sig").rstrip("\r\n")


def _build_not_found(position: str) -> ConfigurationError:
    expected = "the position of an unresolved dead letter"
    return _to_error(position, expected, "see `lakehouse dead-letters list`")


def _to_error(problem: str, expected: str, action: str) -> ConfigurationError:
    return ConfigurationError("command line", "POSITION", problem, expected, action)

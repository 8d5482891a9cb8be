"""Alarms: a webhook gets a message when trouble with a table begins, and one when it ends.

Alarms that were sent and have not ended yet are kept in `CHECKPOINTS/_alarms.json`, for all runs of
the target. A message is a JSON object with the key `text`, as Slack takes it.
"""

import json
import os
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from http.client import HTTPException

from gold.capture_status import read_capture
from gold.status.trouble import Record, list_serious
from lakehouse.config.target import Target
from lakehouse.places.place import to_place, write_whole

FILE = "_alarms.json"
ENVIRONMENT = "env:"
PATIENCE = 10.0
CAPTURE = "capture"
Alarms = Mapping[str, str]


def raise_alarms(target: Target, records: Sequence[Record]) -> list[str]:
    """Sends the target's webhook the alarms of these tables that have begun or ended.

    What the receiver does not take is sent again the next time. Returns a line for each failure.
    """
    if target.alarms is None:
        return []
    url, previous = _resolve_url(target.alarms.webhook), _read_alarms(target)
    if url is None:
        return [f"alarms.webhook: the variable of {target.alarms.webhook} is not set"]
    failures, kept = list[str](), dict(previous)
    for alarm, message in find_changes(previous, records, list(_list_capture(target))):
        try:
            _post_message(url, message)
        except (OSError, HTTPException, ValueError) as failure:
            failures.append(f"the webhook of the alarms does not take a message: {failure}")
            break
        if alarm in previous:
            del kept[alarm]
        else:
            kept[alarm] = message
    if kept != previous:
        try:
            write_whole(to_place(target, target.checkpoints, FILE), json.dumps(kept).encode())
        except OSError as failure:
            failures.append(f"the alarms that were sent cannot be recorded: {failure}")
    return failures


def _list_capture(target: Target) -> Iterator[tuple[str, str]]:
    """The alarms of the target's capture."""
    status = read_capture(target)
    for word, text in status.find_troubles() if status else ():
        yield f"{CAPTURE}: {word}", f"{CAPTURE}: {word}: {text}"


def find_changes(
    previous: Alarms, records: Sequence[Record], more: Sequence[tuple[str, str]] = ()
) -> list[tuple[str, str]]:
    """The alarms that begin or end since `previous`, each `TABLE: WORD`, with the message.

    `more` are those of the capture, which is no table.
    """
    now = {
        f"{record['table']}: {each.word}": f"{record['table']}: {each.word}: {each.text}"
        for record in records
        for each in list_serious(record)
    } | dict(more)
    tables = {CAPTURE, *(record["table"] for record in records)}
    begun = [(alarm, text) for alarm, text in now.items() if alarm not in previous]
    over = [alarm for alarm in previous if alarm not in now and alarm.partition(": ")[0] in tables]
    return [*begun, *((alarm, f"{alarm} is over") for alarm in over)]


def _resolve_url(webhook: str) -> str | None:
    """The URL; one that is named is taken out of the environment, None where that lacks it."""
    if not webhook.startswith(ENVIRONMENT):
        return webhook
    return os.environ.get(webhook.removeprefix(ENVIRONMENT))


def _post_message(url: str, message: str) -> None:
    body, headers = json.dumps({"text": message}).encode(), {"Content-Type": "application/json"}
    request = urllib.request.Request(url, body, headers)  # a URL of http(s): the target checks that
    with urllib.request.urlopen(request, timeout=PATIENCE):
        return


def _read_alarms(target: Target) -> dict[str, str]:
    """The alarms that last; none where the file does not exist or cannot be read."""
    with suppress(OSError, ValueError):
        alarms = json.loads(to_place(target, target.checkpoints, FILE).read_text(encoding="utf-8"))
        return {str(alarm): str(message) for alarm, message in dict(alarms).items()}
    return {}

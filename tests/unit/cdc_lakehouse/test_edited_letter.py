"""A dead letter that is mended by hand: which one, and the text from an editor or a file."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import Row

from cdc_lakehouse.cli.check.edit import _choose_letter, _edit_text, _read_text
from lakehouse.errors import ConfigurationError


def editor(folder: Path, monkeypatch: pytest.MonkeyPatch, does: str) -> None:
    script = folder / "my editor"
    script.write_text(f"#!/bin/sh\n{does}\n")
    script.chmod(0o755)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"'{script}' --wait")


def test_what_the_editor_saved_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    editor(tmp_path, monkeypatch, 'sed -i s/wrong/right/ "$2"')
    assert _edit_text('{"a":"wrong é"}\n') == '{"a":"right é"}'


def test_a_file_that_nobody_saved_is_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor(tmp_path, monkeypatch, 'cat "$2"')
    assert _edit_text("{}") is None


@pytest.mark.parametrize("saved", [b"\xef\xbb\xbf{}\rb\r\nc\r\n", b"{}\rb\r\nc"])
def test_carriage_returns_within_a_record_stay_and_marks_and_line_ends_around_it_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saved: bytes
) -> None:
    (tmp_path / "saved").write_bytes(saved)
    editor(tmp_path, monkeypatch, f'cat "{tmp_path}/saved" > "$2"')
    assert _edit_text("{}") == _read_text(str(tmp_path / "saved")) == "{}\rb\r\nc"


def test_the_editor_is_given_the_text_to_the_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor(tmp_path, monkeypatch, f'cp "$2" "{tmp_path}/opened"')
    assert _edit_text("a\rb\r\nc") is None
    assert (tmp_path / "opened").read_bytes() == b"a\rb\r\nc"


@pytest.mark.parametrize("read", [_edit_text, _read_text])
def test_a_text_that_is_no_utf_8_is_told_from_the_editor_and_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[str], str | None]
) -> None:
    latin = tmp_path / "latin"
    latin.write_bytes("é".encode("latin-1"))
    editor(tmp_path, monkeypatch, f'cat "{latin}" > "$2"')
    with pytest.raises(ConfigurationError, match="UTF-8"):
        read(str(latin))


def letter(table: str, feed: str, arrival: str) -> Row:
    return Row(table=table, _feed=feed, _arrival=arrival)


def test_several_changes_of_a_record_are_one_letter_to_mend() -> None:
    changes = [letter("t", "f", arrival) for arrival in ("0A+000002", "0A", "0A+000001")]
    assert _choose_letter(changes, "f/1.jsonl:1")["_arrival"] == "0A"


@pytest.mark.parametrize("other", [("u", "f", "0A"), ("t", "g", "0A"), ("t", "f", "0B")])
def test_letters_of_several_records_are_told(other: tuple[str, str, str]) -> None:
    with pytest.raises(ConfigurationError, match="several records at") as failure:
        _choose_letter([letter("t", "f", "0A"), letter(*other)], "1.jsonl:1")
    assert "give the whole position, or --table" in str(failure.value)


@pytest.mark.parametrize("does", ["exit 3", None])
def test_an_editor_that_fails_or_is_not_there_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str | None
) -> None:
    editor(tmp_path, monkeypatch, does or "")
    if does is None:
        (tmp_path / "my editor").unlink()
    with pytest.raises(ConfigurationError, match="EDITOR"):
        _edit_text("{}")

"""The editor in which a dead letter is mended by hand."""

from pathlib import Path

import pytest

from cdc_lakehouse.cli.check.edit import _edit_text
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


@pytest.mark.parametrize("does", ["exit 3", None])
def test_an_editor_that_fails_or_is_not_there_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str | None
) -> None:
    editor(tmp_path, monkeypatch, does or "")
    if does is None:
        (tmp_path / "my editor").unlink()
    with pytest.raises(ConfigurationError, match="EDITOR"):
        _edit_text("{}")

"""Pages are compared with what is really printed: differences are found, durations are none."""

from pathlib import Path

import pytest

from tests.pages.dialogue import blocks, fits, follow, plain, steps
from tests.pages.shell import Shell

PAGE = """\
# A page

```sh
cat > a.txt <<'END'
one
END
mkdir inner && cd inner
export NAME=world
```

```python
this is not typed
```

```sh
cat ../a.txt; echo "hello $NAME"
```

```text
one
hello world
```
"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    folder = tmp_path / "home"
    folder.mkdir()
    return Shell(folder, tmp_path, {})


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tests.pages.dialogue.ROOT", tmp_path)
    file = tmp_path / "page.md"
    file.write_text(PAGE)
    return file


def test_commands_of_a_page_are_typed_in_one_shell(page: Path, shell: Shell) -> None:
    assert [step.command.partition(" ")[0] for step in steps(page)] == [
        "cat",
        "mkdir",
        "export",
        "cat",
    ]
    follow(page, shell)


@pytest.mark.parametrize(
    ("shown", "instead"),
    [("hello world\n", "hello moon\n"), ("hello world\n", ""), ("one\nhello", "one\nmore\nhello")],
)
def test_a_page_that_shows_something_else_is_found(
    page: Path, shell: Shell, shown: str, instead: str
) -> None:
    page.write_text(PAGE.replace(shown, instead))
    with pytest.raises(AssertionError, match=r"page\.md, line 20"):
        follow(page, shell)


def test_a_block_within_a_list_is_found_too(page: Path) -> None:
    page.write_text("1. Do this:\n\n   ```sh\n   make venv\n   ```\n")
    assert [(language, lines) for language, _, lines in blocks(page)] == [("sh", ["   make venv"])]


def test_a_reader_types_words_of_his_own(page: Path, shell: Shell) -> None:
    page.write_text(PAGE.replace("hello world\n", "hello moon\n"))
    follow(page, shell, own={"world": "moon"})


def test_words_of_his_own_that_no_command_has_are_found(page: Path, shell: Shell) -> None:
    with pytest.raises(AssertionError, match="no command has one of"):
        follow(page, shell, own={"sun": "moon"})


def test_a_command_that_fails_is_found(page: Path, shell: Shell) -> None:
    page.write_text("```sh\nfalse\n```\n")
    with pytest.raises(AssertionError, match="code 1"):
        follow(page, shell)


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        (["orders  3 records  1.2 s"], ["orders  3 records  10.7 s"], True),
        (["orders  3 records  1.2 s"], ["orders  4 records  1.2 s"], False),
        (
            ["a   lag", "──  ───", "b   3 s"],
            ["a   lag      ", "──  ───────", "b   2 h 5 min"],
            True,
        ),
        (["first", "…", "last"], ["first", "second", "third", "last"], True),
        (["first", "…", "last"], ["first", "second"], False),
        (["first"], ["first", "second"], False),
    ],
)
def test_only_durations_and_widths_may_differ(
    shown: list[str], printed: list[str], same: bool
) -> None:
    assert fits(shown, printed) == same


def test_lines_that_only_say_that_work_goes_on_are_left_out() -> None:
    assert plain("starting Spark (5 s)\n[1/5] done  (0.1 s)\n") == ["[1/5] done  (0.1 s)"]


def test_a_plain_lakehouse_command_needs_no_program_of_its_own(tmp_path: Path) -> None:
    inside = Shell(tmp_path, tmp_path, {}, in_process=True)
    assert inside.type("lakehouse --version").text.startswith("lakehouse 0.")
    assert inside.type("lakehouse validate").code == 2
    assert inside.type("lakehouse --version | wc -l").text.strip() == "1"

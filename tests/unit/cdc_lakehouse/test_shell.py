"""What the shell reads: queries of several lines, commands, and what is left at the end."""

import pytest

from cdc_lakehouse.cli.ask.shell import GOES_ON, PROMPT, read_statements, split_queries


@pytest.mark.parametrize(
    ("text", "whole", "rest"),
    [
        ("SELECT 1", [], "SELECT 1"),
        ("SELECT 1;", ["SELECT 1"], ""),
        ("SELECT 1; SELECT 2; x", ["SELECT 1", "SELECT 2"], " x"),
        ("SELECT ';'; SELECT \";\"", ["SELECT ';'"], ' SELECT ";"'),
        ("SELECT `a;b`;", ["SELECT `a;b`"], ""),
        ("SELECT 1 -- not; here\n;", ["SELECT 1 -- not; here"], ""),
        ("SELECT 1 /* ;\n; */;", ["SELECT 1 /* ;\n; */"], ""),
        ("SELECT 'open;", [], "SELECT 'open;"),
        ("SELECT 1; /* open ;", ["SELECT 1"], " /* open ;"),
        (r"SELECT 'it\';s';", [r"SELECT 'it\';s'"], ""),
        (";;", [], ""),
    ],
)
def test_a_query_ends_outside_of_quotes_and_comments(
    text: str, whole: list[str], rest: str
) -> None:
    assert split_queries(text) == (whole, rest)


def test_queries_have_several_lines_and_commands_one() -> None:
    lines = iter(["\\d", "SELECT", "  1; SELECT 2", "; \\", ";", "  \\q", "SELECT 3"])
    prompts = list[str]()

    def read(prompt: str) -> str:
        prompts.append(prompt)
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    found = list(read_statements(read))
    assert found == ["\\d", "SELECT\n  1", "SELECT 2", "\\", "\\q", "SELECT 3"]
    assert prompts[:4] == [PROMPT, PROMPT, GOES_ON, GOES_ON]


def test_ctrl_c_forgets_what_was_typed() -> None:
    typed = iter(["SELECT 1", KeyboardInterrupt(), "SELECT 2;", EOFError()])

    def read(_: str) -> str:
        given = next(typed)
        if isinstance(given, BaseException):
            raise given
        return given

    assert list(read_statements(read)) == ["SELECT 2"]

from bronze.failures import cause


def test_the_deepest_cause_is_told() -> None:
    trace = "[FAILED] reading x\n at y\nCaused by: a.B: no\n\tat z\nCaused by: java.io.IOError: bad"
    assert cause(RuntimeError(trace)) == "IOError: bad"


def test_without_causes_the_named_condition_is_told() -> None:
    trace = "Traceback\n[PATH_NOT_FOUND] Path does not exist: x. SQLSTATE: 42K03; more"
    assert cause(RuntimeError(trace)) == "[PATH_NOT_FOUND] Path does not exist: x."


def test_any_other_failure_is_told_by_its_first_line_or_its_kind() -> None:
    assert cause(OSError("disk full\nmore")) == "disk full"
    assert cause(KeyError()) == "KeyError"

from lakehouse.failures import in_short


def test_of_a_java_stack_the_innermost_cause_is_told() -> None:
    trace = "[FAILED] reading x\n at y\nCaused by: a.B: no\n\tat z\nCaused by: java.io.IOError: bad"
    assert in_short(RuntimeError(trace)) == "IOError: bad"


def test_a_conflict_between_transactions_keeps_its_name() -> None:
    trace = "[DELTA_CONCURRENT_APPEND] files were added\n\tat x\nCaused by: a.B: why"
    assert in_short(RuntimeError(trace)) == "[DELTA_CONCURRENT_APPEND] files were added"


def test_of_a_worker_trace_the_named_condition_is_told() -> None:
    trace = "Traceback\n[PATH_NOT_FOUND] Path does not exist: x. SQLSTATE: 42K03"
    assert in_short(RuntimeError(trace)) == "[PATH_NOT_FOUND] Path does not exist: x."


def test_of_a_call_into_java_its_message_is_told() -> None:
    trace = "An error occurred while calling o12.sql.\n: a.B: outer\n\tat x.y"
    assert in_short(RuntimeError(trace)) == "a.B: outer"


def test_the_plan_is_left_out_and_the_place_in_the_query_stays() -> None:
    refused = "[X] no such table; line 1\n'Project [*]\n+- 'Unresolved"
    assert in_short(RuntimeError(refused)) == "[X] no such table; line 1"


def test_any_other_failure_is_told_in_its_own_words_or_by_its_kind() -> None:
    assert in_short(OSError("disk full\nmore")) == "disk full\nmore"
    assert in_short(KeyError()) == "KeyError"

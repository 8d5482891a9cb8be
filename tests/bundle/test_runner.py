from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bundle.lint.reading import Bundle, read
from tests.bundle.runner import Step, run

MAIN = ["bronze", "silver", "gold"]


@pytest.fixture
def bundle(project: Path) -> Bundle:
    return read(project, "dev")


class Calls(list[list[str]]):
    """Entry points that write down how they were called; those in `failing` exit with 1."""

    def programs(self, *failing: str) -> dict[str, Callable[[list[str]], int]]:
        return {name: self._program(name, name in failing) for name in [*MAIN, "lakehouse"]}

    def _program(self, name: str, fails: bool) -> Callable[[list[str]], int]:
        def program(arguments: list[str]) -> int:
            self.append([name, *arguments])
            return int(fails)

        return program

    @property
    def commands(self) -> list[str]:
        """Entry points in order; of `lakehouse` its command."""
        return [call[1] if call[0] == "lakehouse" else call[0] for call in self]


@pytest.fixture
def calls() -> Calls:
    return Calls()


def test_the_main_job_is_one_task_with_its_references_resolved(
    bundle: Bundle, calls: Calls
) -> None:
    run(bundle, "cdc", calls.programs())
    assert calls == [
        [
            "lakehouse",
            "job",
            "--step=none",
            "--conf=/Workspace/bundle/files/conf",
            "--target=dev",
            "--set=catalog=lakehouse_dev",
            "--set=schemas.bronze=bronze",
            "--set=schemas.silver=silver",
            "--set=schemas.gold=gold",
            "--set=landing=/Volumes/lakehouse_dev/bronze/landing",
            "--set=checkpoints=/Volumes/lakehouse_dev/bronze/checkpoints",
        ]
    ]


@pytest.mark.parametrize(
    ("job", "step"),
    [
        ("cdc_arrival", "none"),
        ("cdc_schedule", "none"),
        ("dead_letter_replay", "replay"),
        ("maintenance", "maintain"),
        ("rebuild", "rebuild "),
    ],
)
def test_each_job_asks_the_main_one_for_its_step(
    bundle: Bundle, calls: Calls, job: str, step: str
) -> None:
    steps = run(bundle, job, calls.programs())
    assert [call[1:3] for call in calls] == [["job", f"--step={step}"]]
    assert steps == [Step("cdc", "run", "done"), Step(job, "cdc", "done")]


def test_a_rebuild_gets_its_table(bundle: Bundle, calls: Calls) -> None:
    run(bundle, "rebuild", calls.programs(), {"table": "orders"})
    assert calls[0][2] == "--step=rebuild orders"


def test_the_report_is_written_though_quality_failed(bundle: Bundle, calls: Calls) -> None:
    def lakehouse(arguments: list[str]) -> int:
        calls.append(["lakehouse", *arguments])
        return int(arguments[0] == "quality")

    steps = run(bundle, "quality", {"lakehouse": lakehouse})
    assert steps == [Step("quality", "quality", "failed"), Step("quality", "report", "done")]


def test_a_job_that_another_job_started_hands_its_failure_up(bundle: Bundle, calls: Calls) -> None:
    assert Step("maintenance", "cdc", "failed") in run(
        bundle, "maintenance", calls.programs("lakehouse")
    )


def test_a_parameter_that_the_job_lacks_is_refused(bundle: Bundle, calls: Calls) -> None:
    with pytest.raises(KeyError, match="cdc has no parameter tabel"):
        run(bundle, "cdc", calls.programs(), {"tabel": "orders"})


@pytest.mark.parametrize(
    ("run_if", "failing", "starts"),
    [
        ("ALL_SUCCESS", [], True),
        ("ALL_SUCCESS", ["bronze"], False),
        ("AT_LEAST_ONE_SUCCESS", ["bronze"], True),
        ("AT_LEAST_ONE_SUCCESS", ["bronze", "silver"], False),
        ("NONE_FAILED", ["bronze"], False),
        ("ALL_DONE", ["bronze", "silver"], True),
        ("AT_LEAST_ONE_FAILED", ["bronze"], True),
        ("AT_LEAST_ONE_FAILED", [], False),
        ("ALL_FAILED", ["bronze"], False),
        ("ALL_FAILED", ["bronze", "silver"], True),
    ],
)
def test_run_if_decides_by_how_the_tasks_before_have_ended(
    bundle: Bundle, calls: Calls, run_if: str, failing: list[str], starts: bool
) -> None:
    wheels = [
        {"task_key": name, "python_wheel_task": {"entry_point": name, "parameters": []}}
        for name in MAIN
    ]
    last = wheels[-1] | {"run_if": run_if, "depends_on": [{"task_key": n} for n in MAIN[:2]]}
    jobs = {"jobs": {"job": {"tasks": [*wheels[:-1], last]}}}
    run(bundle._replace(resources=jobs), "job", calls.programs(*failing))
    assert ("gold" in calls.commands) == starts


def test_a_daily_job_compares_with_the_source_or_where_none_is_named_with_bronze(
    bundle: Bundle, calls: Calls
) -> None:
    job = bundle.jobs["source_check"]
    assert job["schedule"]["pause_status"] == "${var.proving}"
    assert bundle.known["var.source"] == ""
    assert job["max_concurrent_runs"] == 1
    known = {**bundle.known, "var.source": "postgresql://me:secret:shop/pw@host/shop"}
    run(bundle._replace(known=known), "source_check", calls.programs())
    run(bundle, "source_check", calls.programs())
    call, without = calls
    assert call[:3] == ["lakehouse", "verify", "--source=postgresql://me:secret:shop/pw@host/shop"]
    assert without[:3] == ["lakehouse", "verify", "--source="]
    assert "--set=checkpoints=/Volumes/lakehouse_dev/bronze/checkpoints" in call

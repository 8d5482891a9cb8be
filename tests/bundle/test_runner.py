from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bundle.reading import Bundle, read
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


def test_the_main_job_runs_the_layers_in_order(bundle: Bundle, calls: Calls) -> None:
    run(bundle, "cdc", calls.programs())
    assert calls.commands == MAIN


def test_parameters_and_references_reach_the_entry_point_resolved(
    bundle: Bundle, calls: Calls
) -> None:
    run(bundle, "cdc", calls.programs(), {"gold": "gold_of_mine"})
    assert calls[0] == [
        "bronze",
        "--conf=/Workspace/bundle/files/conf",
        "--target=dev",
        "--set=catalog=lakehouse_dev",
        "--set=schemas.bronze=bronze",
        "--set=schemas.silver=silver",
        "--set=schemas.gold=gold_of_mine",
        "--set=landing=/Volumes/lakehouse_dev/bronze/landing",
        "--set=checkpoints=/Volumes/lakehouse_dev/bronze/checkpoints",
        "--apply=always",
    ]


def test_a_failed_task_keeps_what_follows_from_running(bundle: Bundle, calls: Calls) -> None:
    steps = run(bundle, "cdc", calls.programs("silver"))
    assert calls.commands == ["bronze", "silver"]
    assert Step("cdc", "silver", "failed") in steps
    assert Step("cdc", "gold", "excluded") in steps


@pytest.mark.parametrize(
    ("job", "commands"),
    [
        ("cdc_arrival", MAIN),
        ("cdc_schedule", MAIN),
        ("dead_letter_replay", ["bronze", "dead-letters", "silver", "gold"]),
        ("maintenance", [*MAIN, "maintain"]),
        ("cdc_continuous", ["run"]),
        ("cdc_ticks", ["run"]),
        ("quality", ["quality", "report"]),
    ],
)
def test_each_job_runs_its_commands_in_order(
    bundle: Bundle, calls: Calls, job: str, commands: list[str]
) -> None:
    run(bundle, job, calls.programs())
    assert sorted(calls.commands) == sorted(commands)
    assert [command for command in calls.commands if command != "dead-letters"] == [
        command for command in commands if command != "dead-letters"
    ]


@pytest.mark.parametrize("job", ["cdc_arrival", "cdc_schedule"])
def test_silver_and_gold_are_not_started_when_bronze_says_that_nothing_is_unapplied(
    bundle: Bundle, calls: Calls, job: str
) -> None:
    steps = run(bundle, job, calls.programs(), values={"bronze.unapplied": "no"})
    assert calls.commands == ["bronze"]
    assert calls[0][-1] == "--apply=when_new"
    assert {step.task for step in steps if step.state == "excluded"} > {"silver", "gold"}
    assert steps[-1] == Step(job, "cdc", "done")


@pytest.mark.parametrize("values", [{"bronze.unapplied": "yes"}, {}])
def test_silver_and_gold_are_started_when_something_is_or_nobody_says(
    bundle: Bundle, calls: Calls, values: dict[str, str]
) -> None:
    run(bundle, "cdc_schedule", calls.programs(), values=values)
    assert calls.commands == MAIN


@pytest.mark.parametrize("job", ["dead_letter_replay", "maintenance", "rebuild"])
def test_a_run_that_is_asked_for_by_a_step_of_its_own_always_applies(
    bundle: Bundle, calls: Calls, job: str
) -> None:
    run(bundle, job, calls.programs())
    assert calls[0][-1] == "--apply=always"


def test_a_replay_comes_before_silver_applies(bundle: Bundle, calls: Calls) -> None:
    run(bundle, "dead_letter_replay", calls.programs())
    assert calls.commands.index("dead-letters") < calls.commands.index("silver")


def test_a_rebuild_gets_its_table_and_comes_between_bronze_and_silver(
    bundle: Bundle, calls: Calls
) -> None:
    run(bundle, "rebuild", calls.programs(), {"table": "orders"})
    assert calls.commands == ["bronze", "rebuild", "silver", "gold"]
    assert calls[1][1:3] == ["rebuild", "orders"]


def test_the_report_is_written_though_quality_failed(bundle: Bundle, calls: Calls) -> None:
    def lakehouse(arguments: list[str]) -> int:
        calls.append(["lakehouse", *arguments])
        return int(arguments[0] == "quality")

    steps = run(bundle, "quality", {"lakehouse": lakehouse})
    assert steps == [Step("quality", "quality", "failed"), Step("quality", "report", "done")]


def test_a_job_that_another_job_started_hands_its_failure_up(bundle: Bundle, calls: Calls) -> None:
    assert Step("maintenance", "cdc", "failed") in run(
        bundle, "maintenance", calls.programs("bronze")
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

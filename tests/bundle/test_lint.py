import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from cdc_lakehouse.project.rendering import MODES, ProjectAnswers, render_project
from cdc_lakehouse.project.upgrade import FileChange, apply_change
from docs.generate_bundle import repository_files
from tests.bundle.lint.check import lint
from tests.bundle.lint.models import check_models
from tests.bundle.lint.reading import read, targets
from tests.helpers.wheel import PROJECT


class Fault(NamedTuple):
    """A text of the good bundle, what takes its place, and the rule that must find it.

    `follows` names rules that the same fault breaks as a consequence.
    """

    rule: str
    file: str
    text: str
    instead: str
    follows: tuple[str, ...] = ()


CDC = "cdc.job.yml"
REPLAY, QUALITY = "dead_letter_replay.job.yml", "quality.job.yml"
ARRIVAL, SCHEDULE = "cdc_arrival.job.yml", "cdc_schedule.job.yml"
ALERT, DASHBOARD = "trouble.alert.yml", "pipeline.lvdash.json"
MAIN, PINS = "../databricks.yml", "../environments/lakehouse.txt"
QUEUE, NO_QUEUE = "queue: {enabled: true}", "queue: {enabled: false}"
SETTINGS = "--set=catalog=${var.catalog}"
OPERATORS_READ = '- {principal: "${var.operators}", privileges: [USE_SCHEMA, SELECT, EXECUTE]}'
LAYERS = """\
        - task_key: silver
          depends_on: [{task_key: run}]
          environment_key: lakehouse
          timeout_seconds: 25200
          max_retries: 1
          python_wheel_task: {package_name: cdc_lakehouse, entry_point: silver}
"""
"""A task of one layer after another, as up to version 0.2."""
FAULTS = [
    Fault("bad_cron", MAIN, "default: 0 0/30 * * * ?", "default: 0 0/99 * * * ?"),
    Fault("awake_in_development", MAIN, "      watching: PAUSED", "      watching: UNPAUSED"),
    Fault("awake_in_development", MAIN, "      daily: PAUSED", "      daily: UNPAUSED"),
    Fault("circular_dependency", QUALITY, "quality}]", "report}]", ("quiet_failure",)),
    Fault("hard_coded_name", CDC, "${resources.schemas.silver.name}", "silver"),
    Fault("hard_coded_name", CDC, "${resources.volumes.landing.volume_path}", "/Volumes/x/y/z"),
    Fault("missing_entry_point", CDC, "entry_point: lakehouse", "entry_point: lakehose"),
    Fault("missing_health_rule", QUALITY, "health:", "tags:"),
    Fault("missing_notification", CDC, "        on_failure", "        on_start"),
    Fault("missing_wheel", CDC, "../dist/*.whl, ", ""),
    Fault(
        "several_triggers",
        SCHEDULE,
        "      schedule:",
        "      trigger: {pause_status: PAUSED}\n      schedule:",
    ),
    Fault(
        "undeclared_called_parameter",
        REPLAY,
        "{step:",
        "{stop:",
    ),
    Fault(
        "undeclared_job_parameter",
        CDC,
        "{{job.parameters.step}}",
        "{{job.parameters.stop}}",
        ("unpassed_job_parameter",),
    ),
    Fault("unpassed_job_parameter", CDC, "--step={{job.parameters.step}}", "--step=none"),
    Fault("undeclared_variable", CDC, "${var.notify}", "${var.notfy}"),
    Fault("unknown_dependency", QUALITY, "{task_key: quality}]", "{task_key: qality}]"),
    Fault("unused_variable", SCHEDULE, "${var.schedule}", "0 0/30 * * * ?"),
    Fault("wrong_outcome", QUALITY, "{task_key: quality}", "{task_key: quality, outcome: 'true'}"),
    Fault("dangerous_default", MAIN, "reads gold\n", "reads gold\n    default: operators\n"),
    Fault(
        "told_twice",
        REPLAY,
        "      tasks:",
        "      email_notifications: {on_failure: [a]}\n      tasks:",
    ),
    Fault("unprefixed_name", CDC, "name: ${bundle.name} cdc", "name: cdc"),
    Fault(
        "quiet_failure",
        QUALITY,
        '          email_notifications: {on_failure: ["${var.notify}"]}\n',
        "",
    ),
    Fault(
        "optimized_retries",
        CDC,
        "          disable_auto_optimization: true\n",
        "",
        ("retried_in_vain",),
    ),
    Fault(
        "optimized_retries",
        QUALITY,
        "          disable_auto_optimization: true\n",
        "",
        ("retried_in_vain",),
    ),
    Fault("retried_in_vain", CDC, "max_retries: 0", "max_retries: 1"),
    Fault("unlimited_task", CDC, "          timeout_seconds: 25200\n", ""),
    Fault("unpinned_dependency", CDC, ', "-r ../environments/lakehouse.txt"', ""),
    Fault("unreachable_timeout", CDC, "timeout_seconds: 25200", "timeout_seconds: 28800"),
    Fault("unreachable_timeout", CDC, "value: 7200", "value: 43200"),
    Fault("wheel_version", MAIN, "  artifacts_dynamic_version: true\n", ""),
    Fault("bad_cron", REPLAY, "0 0 4 * * ?", "0 4 * * *"),
    Fault("bad_cron", ALERT, "0 0 * * * ?", "0 0/99 * * * ?"),
    Fault("bad_time_zone", REPLAY, "timezone_id: UTC", "timezone_id: Europe/Atlantis"),
    Fault("awake_in_development", ALERT, ', pause_status: "${var.watching}"', ""),
    Fault("concurrent_writers", QUALITY, "- quality\n", "- maintain\n"),
    Fault(
        "deprecated_client", CDC, "environment_version: ${var.environment_version}", 'client: "4"'
    ),
    Fault(
        "duplicate_resource_key",
        "reading.sql_warehouse.yml",
        "reading:",
        "pipeline:",
        (
            "misnamed_file",
            "nobody_permitted",
            "undeclared_override",
            "undeclared_resource",
            "unprefixed_name",
        ),
    ),
    Fault(
        "duplicate_task_key",
        QUALITY,
        "task_key: report",
        "task_key: quality",
        ("circular_dependency", "quiet_failure"),
    ),
    Fault(
        "fixed_workspace",
        MAIN,
        "    workspace:\n",
        "    workspace:\n      host: https://x.example.com\n",
    ),
    Fault("hard_coded_name", "landing.volume.yml", "${resources.schemas.bronze.name}", "bronze"),
    Fault(
        "hard_coded_name",
        REPLAY,
        "${resources.jobs.cdc.id}",
        '"123456789"',
        ("undeclared_called_parameter",),
    ),
    Fault(
        "hard_coded_name",
        ALERT,
        "${resources.schemas.gold.name}.pipeline",
        "gold.pipeline",
    ),
    Fault(
        "misnamed_file",
        "gold.schema.yml",
        "    gold:",
        "    golden:",
        ("closed_schema", "undeclared_override", "undeclared_resource", "unguarded_data"),
    ),
    Fault(
        "missing_file", "pipeline.dashboard.yml", "pipeline.lvdash.json", "pipelines.lvdash.json"
    ),
    Fault("missing_header", "gold.schema.yml", "# Gold", "\n# Gold"),
    Fault("missing_timeout", REPLAY, "      timeout_seconds: 43200\n", ""),
    Fault("several_runs", CDC, "max_concurrent_runs: 1", "max_concurrent_runs: 2"),
    Fault("several_runs", REPLAY, "      max_concurrent_runs: 1\n", ""),
    Fault("shared_root", MAIN, "/Workspace/Users", "/Workspace/Shared"),
    Fault(
        "undeclared_resource",
        REPLAY,
        "${resources.jobs.cdc.id}",
        "${resources.jobs.cds.id}",
        ("undeclared_called_parameter",),
    ),
    Fault(
        "undefined_environment_key",
        QUALITY,
        "        - environment_key: quality\n",
        "        - environment_key: qualities\n",
        ("missing_wheel",),
    ),
    Fault(
        "undescribed_variable",
        MAIN,
        "    description: UNPAUSED lets the alert and the daily quality check run\n",
        "",
    ),
    Fault("unknown_environment_version", MAIN, 'default: "4"', 'default: "44"'),
    Fault("unknown_package", CDC, "package_name: cdc_lakehouse", "package_name: lakehouse"),
    Fault("unknown_reference", CDC, "${workspace.file_path}", "${workspace.files_path}"),
    Fault("dangerous_default", MAIN, "runs as\n", "runs as\n    default: somebody\n"),
    Fault("dangerous_default", MAIN, "stale runs\n", "stale runs\n    default: a@example.com\n"),
    Fault(
        "dangerous_default",
        MAIN,
        "{catalog: lakehouse_prod}",
        "{catalog: lakehouse_prod, notify: a@example.com}",
    ),
    Fault(
        "direct_trigger",
        CDC,
        "      tasks:\n",
        "      schedule: {quartz_cron_expression: '0 0 4 * * ?', timezone_id: UTC,"
        " pause_status: PAUSED}\n      tasks:\n",
    ),
    Fault("missing_budget_policy", CDC, "      budget_policy_id: ${var.budget_policy}\n", ""),
    Fault("missing_layout", DASHBOARD, '"GRID_V1"', '"GRID"'),
    Fault("missing_queue", CDC, QUEUE, NO_QUEUE),
    Fault(
        "nobody_granted",
        MAIN,
        "privileges: [USE_SCHEMA, SELECT, ",
        "privileges: [USE_SCHEMA, ",
        ("unreadable_dashboard",),
    ),
    Fault("nobody_granted", MAIN, "[READ_VOLUME, WRITE_VOLUME]}", "[READ_VOLUME]}"),
    Fault("nobody_granted", MAIN, "privileges: [READ_VOLUME]}", "privileges: [APPLY_TAG]}"),
    Fault(
        "closed_schema",
        MAIN,
        'producers}", privileges: [USE_SCHEMA]',
        'producers}", privileges: []',
    ),
    Fault("closed_schema", MAIN, "[USE_SCHEMA, SELECT, EXECUTE]", "[SELECT, EXECUTE]"),
    Fault("nobody_permitted", MAIN, "level: CAN_READ", "level: CAN_EDIT"),
    Fault("nobody_permitted", MAIN, "level: CAN_USE", "level: CAN_VIEW"),
    Fault("old_cli", MAIN, '">= 1.3.0"', '">= 0.285.0"'),
    Fault("piling_up", ARRIVAL, NO_QUEUE, QUEUE),
    Fault("piling_up", SCHEDULE, NO_QUEUE, QUEUE),
    Fault(
        "unassigned_variable",
        MAIN,
        "      operators: ${workspace.current_user.userName}\n",
        "",
        ("undeclared_variable",),
    ),
    Fault(
        "undeclared_override",
        MAIN,
        "        checkpoints:",
        "        checkpoint:",
        ("unguarded_data",),
    ),
    Fault(
        "unguarded_data",
        MAIN,
        "        silver:\n          lifecycle",
        "        silver:\n          x",
    ),
    Fault(
        "unguarded_data",
        MAIN,
        "        landing:\n          lifecycle",
        "        landing:\n          x",
    ),
    Fault("unpinned_dependency", PINS, "msgspec==", "msgspec>="),
    Fault(
        "unpinned_dependency", QUALITY, "-r ../environments/quality.txt", "great-expectations>=1.24"
    ),
    Fault("unreachable_timeout", "rebuild.job.yml", "43200", "86400"),
    Fault("unreachable_timeout", ARRIVAL, "43200", "28800"),
    Fault("unsaid_performance_target", QUALITY, "      performance_target: STANDARD\n", ""),
    Fault("unsaid_retries", QUALITY, "          max_retries: 1\n", ""),
    Fault("untagged", MAIN, "  tags: {project: cdc_lakehouse}\n", "  name_prefix: x\n"),
    Fault("broken_chain", CDC, "      environments:", LAYERS + "      environments:"),
    Fault("task_value", CDC, "--step=", "--step={{tasks.run.values.unapplied}}"),
    Fault("missing_webhook", CDC, "      webhook_notifications", "      x"),
    Fault("missing_webhook", QUALITY, "      webhook_notifications", "      x"),
    Fault("unsaid_queue", CDC, f"      {QUEUE}\n", "", ("missing_queue",)),
    Fault("costly_alert", ALERT, "0 0 * * * ?", "0 0/30 * * * ?"),
    Fault("unreadable_dashboard", MAIN, f"            {OPERATORS_READ}\n", "", ("closed_schema",)),
    Fault(
        "undeclared_override",
        "reports.volume.yml",
        "    reports:",
        "    report:",
        ("closed_schema", "misnamed_file", "undeclared_resource", "unguarded_data"),
    ),
    Fault("wheel_cleanup", MAIN, "  skip_artifact_cleanup: true\n", "  immutable_folder: false\n"),
]


OF_THE_BUILT_WHEEL = {"wheel_cleanup", "wheel_version"}
BUILT, NAMED = "../dist/*.whl", '"${var.package}"'


def copy_repository(folder: Path) -> None:
    """A copy of the repository's bundle that a test may spoil."""
    for name in ("environments", "resources"):
        shutil.copytree(PROJECT / name, folder / name)
    for name in ("databricks.yml", "pyproject.toml"):
        shutil.copy(PROJECT / name, folder)


def make_project(folder: Path, answers: ProjectAnswers) -> Path:
    """A generated project."""
    for path, text in render_project(answers).items():
        apply_change(folder, FileChange(path, "added", None, text))
    return folder


def test_the_bundle_has_no_findings(project: Path) -> None:
    assert lint(project) == []


def plant(file: Path, text: str, instead: str) -> None:
    written = file.read_text()
    assert text in written
    file.write_text(written.replace(text, instead))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.rule}-{fault.file}")
def test_a_fault_planted_in_a_good_bundle_is_found_by_name(tmp_path: Path, fault: Fault) -> None:
    """The repository's own is made from the template as well, but builds its wheel."""
    text, instead = fault.text, fault.instead
    if fault.rule in OF_THE_BUILT_WHEEL:
        copy_repository(tmp_path)
    else:
        make_project(tmp_path, ProjectAnswers("cdc_lakehouse", "0.3.0"))
        text, instead = text.replace(BUILT, NAMED), instead.replace(BUILT, NAMED)
    plant(tmp_path / "resources" / fault.file, text, instead)
    assert {finding.rule for finding in lint(tmp_path)} == {fault.rule, *fault.follows}


DEPLOY, CHECK = ".github/workflows/deploy.yml", ".github/workflows/check.yml"
CHOICES = {
    mode: ProjectAnswers("shop", "0.3.0", "shop", mode, volume)
    for mode, volume in zip(
        MODES, ("", "/Volumes/main/tools/wheels", "/Volumes/a/b/c"), strict=True
    )
}


@pytest.fixture(params=[*CHOICES, "continuous from an index", "ticks with a wheel"])
def own(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A project of the user's own, with each choice that changes its files."""
    mode, other, _ = request.param.partition(" ")
    answers = CHOICES[mode]._replace(wheel_volume="") if other else CHOICES[mode]
    if "wheel" in request.param:
        answers = answers._replace(wheel="cdc_lakehouse-0.4.0-py3-none-any.whl", offline="yes")
    return make_project(tmp_path, answers)


def test_a_project_of_ones_own_has_no_findings(own: Path) -> None:
    assert lint(own) == []
    for target in targets(own):
        assert check_models(read(own, target)) == []


@pytest.mark.parametrize(
    ("file", "text", "instead", "rule"),
    [
        ("resources/cdc.job.yml", '"${var.package}", ', "", "missing_wheel"),
        ("databricks.yml", "watching: PAUSED", "watching: UNPAUSED", "awake_in_development"),
        ("resources/rebuild.job.yml", "${bundle.name} rebuild", "rebuild", "unprefixed_name"),
        ("environments/lakehouse.txt", "msgspec==", "msgspec>=", "unpinned_dependency"),
        (DEPLOY, "      - run: databricks bundle plan --target prod\n", "", "unplanned_deploy"),
        (DEPLOY, "plan --target prod", "plan --target dev", "unplanned_deploy"),
        (DEPLOY, "${{ vars.NOTIFY }}", "${{ secrets.NOTIFY }}", "stored_secret"),
        (CHECK, "github-oidc", "pat", "stored_secret"),
        (CHECK, ", id-token: write", "", "stored_secret"),
        (CHECK, "setup-cli@v1.13.0", "setup-cli@main", "unpinned_action"),
        (CHECK, "  BUNDLE_VAR_readers: ${{ vars.READERS }}\n", "", "unnamed_answer"),
        (CHECK, "vars.CHECK_CLIENT_ID", "vars.DATABRICKS_CLIENT_ID", "powerful_check"),
        (CHECK, "BUNDLE_VAR_notify; do", "; do", "unset_variable"),
    ],
)
def test_a_fault_planted_in_a_project_is_found(
    own: Path, file: str, text: str, instead: str, rule: str
) -> None:
    plant(own / file, text, instead)
    assert {finding.rule for finding in lint(own)} == {rule}


def test_a_continuous_job_whose_queue_the_cli_would_switch_on_is_found(tmp_path: Path) -> None:
    make_project(tmp_path, CHOICES["continuous"])
    plant(tmp_path / "resources/cdc_continuous.job.yml", f"      {NO_QUEUE}\n", "")
    assert {finding.rule for finding in lint(tmp_path)} == {"unsaid_queue"}


def test_a_writer_beside_the_one_that_never_stops_is_found(tmp_path: Path) -> None:
    for path, text in render_project(CHOICES["continuous"]).items():
        changed = text.replace("    default: PAUSED", "    default: UNPAUSED")
        apply_change(tmp_path, FileChange(path, "added", None, changed))
    assert {finding.rule for finding in lint(tmp_path)} == {"concurrent_writers"}


def test_a_workflow_that_starts_a_writer_beside_it_is_found(tmp_path: Path) -> None:
    make_project(tmp_path, CHOICES["continuous"])
    plant(tmp_path / DEPLOY, "test -f resources/cdc_continuous.job.yml || ", "")
    assert {finding.rule for finding in lint(tmp_path)} == {"second_writer"}


def test_the_repositorys_bundle_is_made_from_the_projects_template(project: Path) -> None:
    files = repository_files()
    assert {path: (project / path).read_text() for path in files} == files
    made = {path.removeprefix("resources/") for path in files if path.startswith("resources/")}
    assert {file.name for file in (project / "resources").iterdir()} == made

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.bundle.lint import lint


class Fault(NamedTuple):
    """A text of the good bundle, what takes its place, and the rule that must find it.

    `follows` names rules that the same fault breaks as a consequence.
    """

    rule: str
    file: str
    text: str
    instead: str
    follows: tuple[str, ...] = ()


CDC, CONTINUOUS = "cdc.job.yml", "cdc_continuous.job.yml"
REPLAY, QUALITY = "dead_letter_replay.job.yml", "quality.job.yml"
ARRIVAL, SCHEDULE, TICKS = "cdc_arrival.job.yml", "cdc_schedule.job.yml", "cdc_ticks.job.yml"
ALERT, DASHBOARD = "trouble.alert.yml", "pipeline.lvdash.json"
MAIN, PINS = "../databricks.yml", "../environments/lakehouse.txt"
UNAPPLIED = '{task_key: unapplied, outcome: "true"}'
SILVER_AFTER = f"[{UNAPPLIED}, {{task_key: replay}}, {{task_key: rebuild}}]"
QUEUE, NO_QUEUE = "queue: {enabled: true}", "queue: {enabled: false}"
FAULTS = [
    Fault("bad_cron", REPLAY, "0 0 4 * * ?", "0 4 * * *"),
    Fault("bad_cron", ALERT, "0 0/30 * * * ?", "0 0/99 * * * ?"),
    Fault("bad_time_zone", REPLAY, "timezone_id: UTC", "timezone_id: Europe/Atlantis"),
    Fault("awake_in_development", MAIN, "watching: PAUSED", "watching: UNPAUSED"),
    Fault("awake_in_development", ALERT, ', pause_status: "${var.watching}"', ""),
    Fault("circular_dependency", CDC, SILVER_AFTER, "[{task_key: gold}]"),
    Fault(
        "concurrent_writers",
        MAIN,
        "ticking must be PAUSED\n    default: PAUSED",
        "ticking must be PAUSED\n    default: UNPAUSED",
        ("awake_in_development",),
    ),
    Fault(
        "concurrent_writers",
        MAIN,
        "continuous must be PAUSED\n    default: PAUSED",
        "continuous must be PAUSED\n    default: UNPAUSED",
        ("awake_in_development",),
    ),
    Fault(
        "concurrent_writers", CDC, "{task_key: bronze}, {task_key: replay}]", "{task_key: bronze}]"
    ),
    Fault("concurrent_writers", QUALITY, "- quality\n", "- maintain\n"),
    Fault(
        "deprecated_client", CDC, "environment_version: ${var.environment_version}", 'client: "4"'
    ),
    Fault(
        "duplicate_resource_key",
        "reading.sql_warehouse.yml",
        "reading:",
        "pipeline:",
        ("misnamed_file", "nobody_permitted", "undeclared_override", "undeclared_resource"),
    ),
    Fault(
        "duplicate_task_key",
        QUALITY,
        "task_key: report",
        "task_key: quality",
        ("circular_dependency",),
    ),
    Fault(
        "fixed_workspace",
        MAIN,
        "    workspace:\n",
        "    workspace:\n      host: https://x.example.com\n",
    ),
    Fault("hard_coded_name", CDC, '"${resources.schemas.silver.name}"', "silver"),
    Fault(
        "hard_coded_name",
        CDC,
        "{{job.parameters.landing}}",
        "/Volumes/x/y/landing",
        ("unpassed_job_parameter",),
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
        "missing_entry_point",
        CDC,
        "entry_point: bronze",
        "entry_point: bronse",
        ("undeclared_task_value",),
    ),
    Fault(
        "missing_file", "pipeline.dashboard.yml", "pipeline.lvdash.json", "pipelines.lvdash.json"
    ),
    Fault("missing_header", "gold.schema.yml", "# Gold", "\n# Gold"),
    Fault("missing_health_rule", QUALITY, "health:", "tags:"),
    Fault("missing_notification", REPLAY, "on_failure", "on_start"),
    Fault("missing_timeout", REPLAY, "      timeout_seconds: 43200\n", ""),
    Fault("missing_wheel", CONTINUOUS, "      libraries", "      # libraries"),
    Fault("several_runs", CDC, "max_concurrent_runs: 1", "max_concurrent_runs: 2"),
    Fault("several_runs", REPLAY, "      max_concurrent_runs: 1\n", ""),
    Fault(
        "several_triggers",
        CONTINUOUS,
        "      continuous:",
        "      trigger: {pause_status: PAUSED}\n      continuous:",
        ("piling_up",),
    ),
    Fault("shared_root", MAIN, "/Workspace/Users", "/Workspace/Shared"),
    Fault("undeclared_called_parameter", REPLAY, "{replay:", "{reply:"),
    Fault(
        "undeclared_job_parameter",
        CDC,
        "{{job.parameters.catalog}}",
        "{{job.parameters.catalogue}}",
        ("unpassed_job_parameter",),
    ),
    Fault(
        "undeclared_resource",
        REPLAY,
        "${resources.jobs.cdc.id}",
        "${resources.jobs.cds.id}",
        ("undeclared_called_parameter",),
    ),
    Fault("undeclared_variable", REPLAY, "${var.notify}", "${var.notfy}"),
    Fault(
        "undefined_environment_key",
        QUALITY,
        "        - environment_key: quality\n",
        "        - environment_key: qualities\n",
        ("missing_wheel",),
    ),
    Fault(
        "undefined_job_cluster_key",
        CONTINUOUS,
        "      - job_cluster_key: streaming",
        "      - job_cluster_key: stream",
    ),
    Fault(
        "undescribed_variable",
        MAIN,
        "    description: UNPAUSED lets the alert and the daily quality check run\n",
        "",
    ),
    Fault(
        "unknown_dependency",
        CDC,
        "depends_on: [{task_key: silver}]",
        "depends_on: [{task_key: sliver}]",
        ("concurrent_writers", "idle_layers"),
    ),
    Fault("unknown_environment_version", MAIN, 'default: "4"', 'default: "44"'),
    Fault("unknown_package", CDC, "package_name: cdc_lakehouse", "package_name: lakehouse"),
    Fault("unknown_reference", CDC, "${workspace.file_path}", "${workspace.files_path}"),
    Fault("unknown_runtime", MAIN, "17.3.x-scala2.13", "17.9.x-scala2.13"),
    Fault(
        "unpassed_job_parameter",
        CONTINUOUS,
        "--interval={{job.parameters.interval}}",
        "--interval=5s",
    ),
    Fault("unused_variable", CONTINUOUS, "${var.node_type}", "i3.xlarge"),
    Fault(
        "wrong_outcome",
        CDC,
        '{task_key: replay_wanted, outcome: "true"}',
        "{task_key: replay_wanted}",
    ),
    Fault("dangerous_default", MAIN, "runs as\n", "runs as\n    default: somebody\n"),
    Fault("dangerous_default", MAIN, "production\n", "production\n    default: operators\n"),
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
    Fault("idle_layers", CDC, UNAPPLIED, "{task_key: bronze}"),
    Fault("missing_budget_policy", CDC, "      budget_policy_id: ${var.budget_policy}\n", ""),
    Fault("missing_layout", DASHBOARD, '"GRID_V1"', '"GRID"'),
    Fault("missing_queue", CDC, QUEUE, NO_QUEUE),
    Fault("nobody_granted", MAIN, "privileges: [USE_SCHEMA, SELECT, ", "privileges: [USE_SCHEMA, "),
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
    Fault("piling_up", TICKS, f"      {NO_QUEUE}\n", ""),
    Fault("retried_in_vain", QUALITY, "          disable_auto_optimization: true\n", ""),
    Fault("retried_in_vain", CDC, "0\n          disable_auto", "1\n          disable_auto"),
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
    Fault("undeclared_task_value", CDC, "values.unapplied}}", "values.came}}"),
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
    Fault("unlimited_task", TICKS, "          timeout_seconds: 10800\n", ""),
    Fault("unpinned_dependency", PINS, "msgspec==", "msgspec>="),
    Fault(
        "unpinned_dependency", QUALITY, "-r ../environments/quality.txt", "great-expectations>=1.24"
    ),
    Fault("unpinned_dependency", TICKS, ', "-r ../environments/lakehouse.txt"', ""),
    Fault("unreachable_timeout", CDC, "timeout_seconds: 14400", "timeout_seconds: 28800"),
    Fault("unreachable_timeout", "rebuild.job.yml", "43200", "86400"),
    Fault("unreachable_timeout", ARRIVAL, "43200", "28800"),
    Fault("unreachable_timeout", SCHEDULE, "value: 14400", "value: 43200"),
    Fault("unsaid_performance_target", QUALITY, "      performance_target: STANDARD\n", ""),
    Fault("unsaid_retries", QUALITY, "          max_retries: 1\n", ""),
    Fault("untagged", MAIN, "  tags: {project: cdc_lakehouse}\n", "  name_prefix: x\n"),
    Fault("wheel_cleanup", MAIN, "  skip_artifact_cleanup: true\n", "  immutable_folder: false\n"),
    Fault("wheel_version", MAIN, "    presets: {artifacts_dynamic_version: true}\n", ""),
    Fault("wheel_version", MAIN, "    type: whl\n", "    type: whl\n    dynamic_version: true\n"),
]


@pytest.fixture
def bundle(project: Path, tmp_path: Path) -> Path:
    """A copy of the bundle's folder that a test may spoil."""
    for name in ("environments", "resources"):
        shutil.copytree(project / name, tmp_path / name)
    for name in ("databricks.yml", "pyproject.toml"):
        shutil.copy(project / name, tmp_path)
    return tmp_path


def test_the_bundle_has_no_findings(project: Path) -> None:
    assert lint(project) == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.rule}-{fault.file}")
def test_a_fault_planted_in_the_good_bundle_is_found_by_name(bundle: Path, fault: Fault) -> None:
    path = bundle / "resources" / fault.file
    written = path.read_text()
    assert fault.text in written
    path.write_text(written.replace(fault.text, fault.instead))
    assert {finding.rule for finding in lint(bundle)} == {fault.rule, *fault.follows}

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
MAIN = "../databricks.yml"
SILVER_AFTER = "[{task_key: bronze}, {task_key: replay}, {task_key: rebuild}]"
FAULTS = [
    Fault("bad_cron", REPLAY, "0 0 4 * * ?", "0 4 * * *"),
    Fault("bad_cron", "trouble.alert.yml", "0 0/15 * * * ?", "0 0/99 * * * ?"),
    Fault("bad_time_zone", REPLAY, "timezone_id: UTC", "timezone_id: Europe/Atlantis"),
    Fault("circular_dependency", CDC, SILVER_AFTER, "[{task_key: gold}]"),
    Fault("concurrent_writers", MAIN, "    default: PAUSED", "    default: UNPAUSED"),
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
        ("misnamed_file", "undeclared_resource"),
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
        "trouble.alert.yml",
        "${resources.schemas.gold.name}.pipeline",
        "gold.pipeline",
    ),
    Fault("misnamed_file", "gold.schema.yml", "    gold:", "    golden:", ("undeclared_resource",)),
    Fault("missing_entry_point", CDC, "entry_point: bronze", "entry_point: bronse"),
    Fault(
        "missing_file", "pipeline.dashboard.yml", "pipeline.lvdash.json", "pipelines.lvdash.json"
    ),
    Fault("missing_header", "gold.schema.yml", "# Gold", "\n# Gold"),
    Fault("missing_health_rule", QUALITY, "health:", "tags:"),
    Fault("missing_notification", REPLAY, "on_failure", "on_start"),
    Fault("missing_timeout", REPLAY, "      timeout_seconds: 28800\n", ""),
    Fault("missing_wheel", CONTINUOUS, "      libraries", "      # libraries"),
    Fault("several_runs", CDC, "max_concurrent_runs: 1", "max_concurrent_runs: 2"),
    Fault("several_runs", REPLAY, "      max_concurrent_runs: 1\n", ""),
    Fault(
        "several_triggers",
        CONTINUOUS,
        "      continuous:",
        "      trigger: {pause_status: PAUSED}\n      continuous:",
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
        "    description: E-mail address that hears of failed, late and stale runs\n",
        "",
    ),
    Fault(
        "unknown_dependency",
        CDC,
        "depends_on: [{task_key: silver}]",
        "depends_on: [{task_key: sliver}]",
        ("concurrent_writers",),
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
]


@pytest.fixture
def bundle(project: Path, tmp_path: Path) -> Path:
    """A copy of the bundle's folder that a test may spoil."""
    shutil.copytree(project / "resources", tmp_path / "resources")
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

"""`lakehouse init --bundle`, `lakehouse upgrade`, and the template that Databricks' CLI reads."""

import json
import re
import shutil
import sys
from importlib.metadata import distributions, version
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import yaml

from cdc_lakehouse.cli.commands import app
from cdc_lakehouse.cli.front import load_conf, run_command_line
from cdc_lakehouse.cli.options import Chosen
from cdc_lakehouse.project.rendering import MODES, TEMPLATE, ProjectAnswers, render_project
from cdc_lakehouse.project.upgrade import (
    RECORD,
    ProjectRecord,
    apply_change,
    find_changes,
    read_record,
    write_record,
)
from cdc_lakehouse.project.wheels import download_needed
from lakehouse.config.loading import load_tables, load_target
from lakehouse.errors import ConfigurationError, ManyTablesFailed, TableFailed

ANSWERS = ProjectAnswers("shop", "0.3.0", "shop")
SCHEMA = json.loads((TEMPLATE.parent / "databricks_template_schema.json").read_text())
DEFAULTS = ("catalog", "mode", "wheel_volume", "wheel", "offline")
VOLUME = "/Volumes/main/tools/wheels"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)


def lakehouse(*arguments: str) -> object:
    try:
        run_command_line(app, arguments)
    except SystemExit as left:
        return left.code
    return 0


@pytest.fixture
def project() -> Path:
    assert lakehouse("init", "--bundle", "shop", "--index") == 0
    return Path("shop")


def test_a_project_has_what_is_its_owners_and_names_the_version(project: Path) -> None:
    for file in ("databricks.yml", "README.md", ".gitignore", ".github/workflows/deploy.yml"):
        assert (project / file).is_file()
    settings = yaml.safe_load((project / "databricks.yml").read_text())
    assert settings["bundle"]["name"] == "shop"
    assert (
        settings["variables"]["package"]["default"] == f"cdc-lakehouse=={version('cdc-lakehouse')}"
    )
    assert "artifacts" not in settings
    assert not list(project.rglob("pyproject.toml"))
    assert [table.table for table in load_tables(project / "conf")] == ["orders"]
    assert load_target(project / "conf", "prod").catalog == "shop_prod"
    assert lakehouse("init", "--bundle", "other", "--catalog", "all") == 0
    assert load_target(Path("other/conf"), "prod").catalog == "all_prod"


def test_the_folder_here_is_the_default(tmp_path: Path) -> None:
    assert lakehouse("init", "--bundle") == 0
    assert (tmp_path / "databricks.yml").is_file()


def test_files_that_are_there_and_a_whole_project_are_left_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("README.md").write_text("mine")
    Path("conf/tables").mkdir(parents=True)
    Path("conf/tables/mine.yml").write_text("table: mine\n")
    assert lakehouse("init", "--bundle") == 0
    assert Path("README.md").read_text() == "mine"
    assert not Path("conf/tables/orders.yml").exists()
    assert "README.md is there already" in capsys.readouterr().out
    assert lakehouse("init", "--bundle") == 0
    assert "there is a project already" in capsys.readouterr().out


def test_lines_about_a_folder_with_a_long_name_fit_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for _ in range(2):
        assert lakehouse("init", "a" * 60, "--bundle") == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


@pytest.mark.parametrize("mode", MODES)
def test_only_the_job_of_the_chosen_mode_is_there(mode: str) -> None:
    assert lakehouse("init", "--bundle", "shop", "--mode", mode) == 0
    jobs = {file.name.partition(".")[0] for file in Path("shop/resources").glob("cdc*.job.yml")}
    assert (
        jobs
        == {
            "files": {"cdc", "cdc_arrival", "cdc_schedule"},
            "ticks": {"cdc", "cdc_schedule"},
            "continuous": {"cdc", "cdc_continuous"},
        }[mode]
    )


def test_a_workspace_without_an_index_installs_wheels_from_a_volume() -> None:
    assert lakehouse("init", "--bundle", "shop", "--wheel-volume", f"{VOLUME}/") == 0
    settings = yaml.safe_load(Path("shop/databricks.yml").read_text())
    wheel = f"{VOLUME}/cdc_lakehouse-{version('cdc-lakehouse')}-py3-none-any.whl"
    assert settings["variables"]["package"]["default"] == wheel
    for file in Path("shop/environments").iterdir():
        assert file.read_text().startswith(f"--no-index\n--find-links={VOLUME}\n")


def test_a_project_has_the_wheel_that_its_jobs_install(tmp_path: Path) -> None:
    name = f"cdc_lakehouse-{version('cdc-lakehouse')}-py3-none-any.whl"
    assert lakehouse("init", "--bundle", "shop") == 0
    settings = yaml.safe_load(Path("shop/databricks.yml").read_text())
    assert settings["variables"]["package"]["default"] == f"../wheels/{name}"
    assert Path("shop/requirements.txt").read_text().startswith(f"./wheels/{name}[local]\n")
    wheel = Path("shop/wheels", name)
    with ZipFile(wheel) as packed:
        assert packed.testzip() is None
        inside = set(packed.namelist())
        packed.extractall(tmp_path / "site")
    template = "cdc_lakehouse/project/template/.github/workflows/check.yml"
    assert {template, "lakehouse/__main__.py", "silver/job.py"} <= inside
    assert not any("__pycache__" in file or file.startswith("tests") for file in inside)
    (found,) = distributions(path=[str(tmp_path / "site")])
    assert (found.version, len(found.entry_points)) == (version("cdc-lakehouse"), 4)
    content = wheel.read_bytes()
    (Path("shop/wheels") / "cdc_lakehouse-0.0.1-py3-none-any.whl").write_text("before")
    assert lakehouse("upgrade", "--conf", "shop/conf") == 0
    assert {file: file.read_bytes() for file in Path("shop/wheels").iterdir()} == {wheel: content}
    other = Path("cdc_lakehouse-7.0-py3-none-any.whl")
    other.write_text("theirs")
    assert lakehouse("upgrade", "--conf", "shop/conf", "--wheel", str(other)) == 0
    assert [file.read_text() for file in Path("shop/wheels").iterdir()] == ["theirs"]
    assert f"default: ../wheels/{other}" in Path("shop/databricks.yml").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["1shop"], "FOLDER"),
        (["shop", "--wheel", "other-1.0-py3-none-any.whl"], "--wheel"),
        (["shop", "--index", "--offline"], "--index"),
        (["shop", "--index", "--wheel-volume", VOLUME], "name one"),
        (["shop", "--catalog", "a.b"], "--catalog"),
        (["shop", "--wheel-volume", "/tmp/wheels"], "--wheel-volume"),
    ],
)
def test_what_cannot_be_a_name_is_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lakehouse("init", "--bundle", *arguments) == 2
    assert said in capsys.readouterr().err
    assert not list(Path().iterdir())


def replace(file: Path, text: str, instead: str) -> None:
    written = file.read_text()
    assert text in written
    file.write_text(written.replace(text, instead, 1))


@pytest.fixture
def next_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Version 9.9.9 is installed from here on: its template has five changes."""
    template = shutil.copytree(TEMPLATE, tmp_path / "template")
    replace(template / "databricks.yml.tmpl", "&jobs", "&work")  # 1
    replace(template / "databricks.yml.tmpl", "*jobs", "*work")
    replace(template / "resources/cdc.job.yml", "28800", "36000")  # 2
    replace(template / "resources/gold.schema.yml", "# Gold", "# Our gold")  # 3
    (template / "resources/new.job.yml").write_text("# new\n")  # 4
    (template / "resources/rebuild.job.yml").unlink()  # 5
    monkeypatch.setattr("cdc_lakehouse.project.rendering.TEMPLATE", template)
    monkeypatch.setattr("cdc_lakehouse.cli.begin.bundle.version", lambda _: "9.9.9")
    return "9.9.9"


def test_three_changes_of_the_owner_and_five_of_ours_are_all_there(
    project: Path, request: pytest.FixtureRequest
) -> None:
    """The project was made by this version, with three changes of its owner's since."""
    assert read_record(project).answers.version == version("cdc-lakehouse")
    replace(project / "databricks.yml", "0 0/30 * * * ?", "0 0/10 * * * ?")
    replace(project / "resources/cdc.job.yml", "value: 7200", "value: 3600")
    replace(project / "README.md", "# shop", "# Our shop")
    version_now = request.getfixturevalue("next_version")
    before = {file: file.read_bytes() for file in project.rglob("*") if file.is_file()}

    assert lakehouse("upgrade", "--dry-run", "--conf", "shop/conf") == 0
    assert {file: file.read_bytes() for file in project.rglob("*") if file.is_file()} == before
    assert lakehouse("upgrade", "--conf", "shop/conf") == 0

    main = (project / "databricks.yml").read_text()
    job = (project / "resources/cdc.job.yml").read_text()
    assert "0 0/10 * * * ?" in main and "value: 3600" in job
    assert (project / "README.md").read_text().startswith("# Our shop\n")
    assert "&work" in main and "timeout_seconds: 36000" in job
    assert "# Our gold" in (project / "resources/gold.schema.yml").read_text()
    assert (project / "resources/new.job.yml").read_text() == "# new\n"
    assert not (project / "resources/rebuild.job.yml").exists()
    assert f"default: cdc-lakehouse=={version_now}" in main
    assert read_record(project).answers.version == version_now


def test_lines_that_both_changed_are_marked_and_told(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = read_record(project)
    old = record.files["databricks.yml"].replace("0 0/30 * * * ?", "0 0 * * * ?")
    write_record(project, ProjectRecord(record.answers, {**record.files, "databricks.yml": old}))
    mine = old.replace("0 0 * * * ?", "0 0/7 * * * ?")
    (project / "databricks.yml").write_text(mine)
    assert lakehouse("upgrade", "--dry-run", "--conf", "shop/conf") == 1
    assert (project / "databricks.yml").read_text() == mine
    capsys.readouterr()
    assert lakehouse("upgrade", "--conf", "shop/conf") == 1
    told = capsys.readouterr()
    assert "conflict databricks.yml" in told.out
    assert "choose between the two" in told.err
    text = (project / "databricks.yml").read_text()
    assert "<<<<<<< yours" in text and "0 0/7 * * * ?" in text and "0 0/30 * * * ?" in text

    assert lakehouse("upgrade", "--conf", "shop/conf") == 1
    assert "choose between the two" in capsys.readouterr().err
    (project / "databricks.yml").write_text(mine)
    assert lakehouse("upgrade", "--conf", "shop/conf") == 0


def test_without_git_a_file_that_both_changed_is_left_and_told(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    record = read_record(project)
    new = {**record.files, "README.md": "theirs\n"}
    (project / "README.md").write_text("mine\n")
    [change] = find_changes(project, record.files, new)
    apply_change(project, change)
    assert (change.effect, (project / "README.md").read_text()) == ("kept", "mine\n")


def test_what_the_owner_deleted_stays_deleted_and_what_he_changed_is_not_removed(
    project: Path,
) -> None:
    record = read_record(project)
    (project / "README.md").unlink()
    replace(project / "resources/rebuild.job.yml", "# By hand", "# Mine")
    new = {**record.files, "README.md": "new\n"}
    del new["resources/rebuild.job.yml"]
    [change] = find_changes(project, record.files, new)
    assert (change.path, change.effect) == ("resources/rebuild.job.yml", "kept")


def test_another_mode_is_an_upgrade(project: Path) -> None:
    replace(project / "databricks.yml", "shop_prod", "main")
    assert lakehouse("upgrade", "--mode", "ticks", "--conf", "shop/conf") == 0
    main = (project / "databricks.yml").read_text()
    assert "default: 0 0/5 * * * ?" in main and "{catalog: main}" in main
    assert not (project / "resources/cdc_arrival.job.yml").exists()
    assert read_record(project).answers.mode == "ticks"
    assert lakehouse("upgrade", "--conf", "shop/conf") == 0


def test_a_folder_that_is_no_project_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert lakehouse("upgrade") == 2
    assert "lakehouse init --bundle" in capsys.readouterr().err
    RECORD.parent.mkdir()
    RECORD.write_text("{}")
    assert lakehouse("upgrade") == 2


def test_databricks_asks_for_every_answer_with_the_same_choices() -> None:
    asked = SCHEMA["properties"]
    assert set(asked) == set(ProjectAnswers._fields)
    assert tuple(asked["mode"]["enum"]) == MODES
    settings = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    assert f'version = "{asked["version"]["default"]}"' in settings
    defaults = {name: asked[name]["default"] for name in DEFAULTS}
    assert ProjectAnswers("x", "1")._asdict() == {"name": "x", "version": "1", **defaults}
    assert re.fullmatch(asked["wheel_volume"]["pattern"], VOLUME)


def test_an_action_of_go_that_is_not_translated_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("README.md.tmpl").write_text("{{range .names}}{{end}}")
    shutil.copy(TEMPLATE / "__preamble.tmpl", ".")
    monkeypatch.setattr("cdc_lakehouse.project.rendering.TEMPLATE", Path())
    with pytest.raises(ValueError, match="expected a field, if, else, end or skip"):
        render_project(ANSWERS)


@pytest.mark.parametrize("step", ["rebuild", "rebuild ordes", "rebuild a b", "repair", ""])
def test_a_step_that_is_none_fails_and_says_so(
    project: Path, step: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lakehouse("job", "--step", step, "--conf", "shop/conf") == 2
    assert "do:" in capsys.readouterr().err


def test_a_step_that_fails_keeps_nothing_from_running(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rebuild of one table fails, and so does another's run: the job's task names both."""

    def rebuild(table: str, **_: object) -> None:
        raise TableFailed(table, "cannot be built")

    def run(**_: object) -> None:
        raise ManyTablesFailed([TableFailed("silver clicks", "is broken")])

    monkeypatch.setattr("cdc_lakehouse.cli.work.job.rebuild", rebuild)
    monkeypatch.setattr("cdc_lakehouse.cli.work.job.run", run)
    assert lakehouse("job", "--step", "rebuild orders", "--conf", "shop/conf") == 1
    told = capsys.readouterr().err
    assert "2 failed" in told and "orders: cannot be built" in told and "clicks: is broken" in told


def test_a_deploy_while_a_job_runs_changes_the_next_run_only(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The YAML is changed by the step, and the run after it has the YAML of the beginning."""
    table, seen = project / "conf" / "tables" / "orders.yml", list[object]()
    keys = load_tables(project / "conf")[0].keys

    def rebuild(**_: object) -> None:
        replace(table, "keys: [id]", "keys: [status]")

    def run(**common: Any) -> None:
        _, (orders,) = load_conf(Chosen(**common))
        seen.append(orders.keys)

    monkeypatch.setattr("cdc_lakehouse.cli.work.job.rebuild", rebuild)
    monkeypatch.setattr("cdc_lakehouse.cli.work.job.run", run)
    assert lakehouse("job", "--step", "rebuild orders", "--conf", "shop/conf") == 0
    assert lakehouse("job", "--conf", "shop/conf") == 0
    assert seen == [keys, ["status"]]


def test_packages_for_the_jobs_are_those_of_their_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index that is a folder has wheels for this machine, for others and for the jobs'."""
    kinds = ("cp311-cp311-manylinux_2_17_x86_64", "cp312-cp312-macosx_11_0_arm64")
    wanted = "cp312-cp312-manylinux_2_28_x86_64"
    for kind in (*kinds, "cp312-cp312-manylinux_2_17_aarch64", wanted):
        with ZipFile(tmp_path / f"needed-1.0-{kind}.whl", "w") as wheel:
            named = "Metadata-Version: 2.1\nName: needed\nVersion: 1.0\n"
            wheel.writestr("needed-1.0.dist-info/METADATA", named)
            wheel.writestr("needed-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\n")
            wheel.writestr("needed-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    download_needed(Path("shop"), ["--no-index\nneeded==1.0\n"])
    assert [file.name for file in Path("shop/wheels").iterdir()] == [f"needed-1.0-{wanted}.whl"]
    with pytest.raises(ConfigurationError, match="No matching distribution"):
        download_needed(Path("shop"), ["needed==2.0\n"])

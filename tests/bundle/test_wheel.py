from pathlib import Path

import pytest

from tests.bundle.conftest import PROJECT, ended
from tests.bundle.lint.reading import read
from tests.bundle.runner import Program, run

ENTRY_POINTS = ("bronze", "gold", "lakehouse", "silver")
AS_DATABRICKS_DOES = """
import sys
from importlib.metadata import distribution
name, *sys.argv[1:] = sys.argv[1:]
entry_points = distribution("cdc_lakehouse").entry_points
[entry_point] = [entry_point for entry_point in entry_points if entry_point.name == name]
entry_point.load()()
print("returned")
"""


def calls() -> list[list[str]]:
    """Every wheel task of every job: entry point, then arguments as the job gives them."""
    called: list[list[str]] = []

    def program(name: str) -> Program:
        return lambda arguments: called.append([name, *arguments]) or 0

    bundle = read(PROJECT, "dev")
    for job in bundle.jobs.keys() - {"rebuild"}:
        run(bundle, job, {name: program(name) for name in ENTRY_POINTS})
    run(bundle, "rebuild", {name: program(name) for name in ENTRY_POINTS}, {"table": "orders"})
    return [list(call) for call in sorted(set(map(tuple, called)))]


def test_the_wheel_holds_what_it_runs_with_and_no_tests(programs: Path) -> None:
    code = "import bronze, gold, lakehouse, silver; print(lakehouse.__file__)"
    found = ended(programs / "python", "-c", code, folder=programs)
    assert Path(found.stdout.strip()).is_relative_to(programs.parent)
    assert not list(programs.parent.glob("lib/python*/site-packages/tests"))


def test_the_wheel_holds_the_reports_template(programs: Path) -> None:
    [folder] = programs.parent.glob("lib/python*/site-packages/gold/report")
    assert {"report.html.j2", "report.css"} <= {file.name for file in folder.iterdir()}


def test_the_wheel_has_the_entry_points(programs: Path) -> None:
    assert all((programs / name).is_file() for name in ENTRY_POINTS)


@pytest.mark.parametrize("call", calls(), ids=lambda call: " ".join(call[:2]))
def test_an_entry_point_understands_what_a_job_gives_it(programs: Path, call: list[str]) -> None:
    """`--help` ends a command once its line has been parsed: an unknown option comes first."""
    helped = ended(programs / call[0], *call[1:], "--help", folder=programs)
    assert (helped.returncode, helped.stderr) == (0, "")


@pytest.mark.parametrize("name", ["bronze", "silver", "gold"])
def test_an_entry_point_refuses_an_option_it_does_not_know(programs: Path, name: str) -> None:
    assert ended(programs / name, "--tabel=orders", "--help", folder=programs).returncode == 2


@pytest.mark.parametrize("call", [["lakehouse", "validate", "--conf"], ["gold", "--help"]])
def test_an_entry_point_that_is_done_returns_to_its_caller(
    programs: Path, project: Path, call: list[str]
) -> None:
    """Databricks calls it as a function, and takes any SystemExit for a failure, 0 too."""
    arguments = [*call, str(project / "conf")] if call[-1] == "--conf" else call
    done = ended(programs / "python", "-c", AS_DATABRICKS_DOES, *arguments, folder=programs)
    assert done.stdout.endswith("returned\n")


def test_the_package_name_runs_as_a_module(programs: Path) -> None:
    helped = ended(
        programs / "python", "-m", "cdc_lakehouse", "--conf=conf", "--help", folder=programs
    )
    assert helped.returncode == 0
    assert "--continuous" in helped.stdout


@pytest.fixture(scope="session")
def without_spark(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH that hides pyspark, which the clean environment has borrowed."""
    folder = tmp_path_factory.mktemp("hidden")
    (folder / "sitecustomize.py").write_text("import sys; sys.modules['pyspark'] = None")
    return folder


@pytest.mark.parametrize("module", ["bronze", "silver", "gold", "cdc_lakehouse"])
def test_a_module_says_that_it_lacks_spark(
    programs: Path, without_spark: Path, project: Path, module: str
) -> None:
    given = [f"--conf={project}/conf", "--target=dev"]
    command = [programs / "python", "-m", module, *given]
    refused = ended(*command, folder=programs, PYTHONPATH=str(without_spark))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "no pyspark here" in refused.stderr


@pytest.mark.parametrize("call", calls(), ids=lambda call: " ".join(call[:2]))
def test_what_a_job_calls_says_outside_of_databricks_what_it_lacks(
    programs: Path, project: Path, call: list[str]
) -> None:
    """With the job's own arguments, but for the configuration's folder, which is not deployed."""
    given = [text.replace("/Workspace/bundle/files", str(project)) for text in call[1:]]
    refused = ended(programs / call[0], *given, folder=programs)
    assert refused.returncode == 2
    assert "neither a Databricks runtime nor databricks-connect" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("module", ["bronze", "silver", "gold"])
def test_a_module_without_a_configuration_says_so(programs: Path, module: str) -> None:
    refused = ended(programs / "python", "-m", module, folder=programs)
    assert refused.returncode == 2
    assert "a folder with targets/NAME.yml and tables/" in refused.stderr

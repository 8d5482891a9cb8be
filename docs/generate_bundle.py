"""Writes the repository's own bundle: the project's template, but with the wheel built from here.

.venv/bin/python docs/generate_bundle.py
"""

from importlib.metadata import version
from pathlib import Path

from cdc_lakehouse.project.rendering import ProjectAnswers, render_project

ROOT = Path(__file__).parents[1]
OWN = ("databricks.yml", "resources/", "environments/", "conf/targets/")
"""The files of a project that the repository has as well."""
NAMED = '"${var.package}"'
BUILT = "../dist/*.whl"
VARIABLE = """\
  package:
    description: The program that the jobs install, with its version
    default: cdc-lakehouse=={version}
"""
BUILD = """\
  build:
    description: Command that builds the wheel; "-o FOLDER" is added to it
    default: uv build --wheel
"""
PRESETS = "presets:\n"
ARTIFACTS = """\
experimental:
  # Without it a deploy deletes the wheel that running and queued runs have yet to install.
  skip_artifact_cleanup: true

artifacts:
  wheel:
    type: whl
    executable: bash
    # dist/ changes only when the wheel's content does: an unchanged wheel keeps its time, and the
    # deploy then changes no job.
    build: |-
      rm -rf build/wheel
      ${var.build} -o build/wheel
      cmp -s build/wheel/*.whl dist/*.whl || { rm -rf dist; cp -R build/wheel dist; }

presets:
  # A wheel of other content has another version, and the deploy then updates the jobs.
  artifacts_dynamic_version: true
"""


def repository_files() -> dict[str, str]:
    """The bundle's files by their path in the repository.

    Raises:
        ValueError: the template no longer has what is replaced here.
    """
    current = version("cdc-lakehouse")
    texts = render_project(ProjectAnswers("cdc_lakehouse", current))
    own = {path: text for path, text in texts.items() if path.startswith(OWN)}
    replaced = {path: text.replace(NAMED, BUILT) for path, text in own.items()}
    main = replaced["databricks.yml"]
    for part, instead in ((VARIABLE.format(version=current), BUILD), (PRESETS, ARTIFACTS)):
        if main.count(part) != 1:
            raise ValueError(f"found {main.count(part)} times, expected once: {part}")
        main = main.replace(part, instead)
    return replaced | {"databricks.yml": main}


def write_files() -> None:
    """Writes the files, and removes resources that the template no longer has."""
    files = repository_files()
    for file in (ROOT / "resources").iterdir():
        if f"resources/{file.name}" not in files:
            file.unlink()
    for path, text in files.items():
        (ROOT / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_files()

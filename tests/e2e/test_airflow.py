"""Airflow itself parses the DAG of docs/guides/orchestration.md, in an environment of its own."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.e2e.parts import INSTALL, PARTS, ROOT
from tests.pages.dialogue import blocks

PYTHON = PARTS / "airflow" / "bin" / "python"
PAGE = ROOT / "docs" / "guides" / "orchestration.md"
PARSE = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(sys.argv[1])
dags = {
    name: {
        "tasks": {task.task_id: sorted(task.downstream_task_ids) for task in dag.tasks},
        "runs": dag.max_active_runs,
        "catchup": dag.catchup,
    }
    for name, dag in bag.dags.items()
}
print(json.dumps({"errors": list(bag.import_errors.values()), "dags": dags}))
"""
needs_airflow = pytest.mark.skipif(
    not PYTHON.is_file(), reason=f"Airflow is not installed: run {INSTALL}"
)


def parsed(folder: Path, text: str) -> dict[str, object]:
    """What Airflow makes of a DAG file."""
    dags = folder / "dags"
    dags.mkdir(exist_ok=True)
    (dags / "shop.py").write_text(text)
    own = {"AIRFLOW_HOME": str(folder), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    around = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        [PYTHON, "-c", PARSE, dags], env=around | own, cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
@needs_airflow
def test_airflow_parses_the_dag_and_finds_a_fault_in_it(tmp_path: Path) -> None:
    (lines,) = [lines for language, _, lines in blocks(PAGE) if language == "python"]
    text = "\n".join(lines)
    dag = {"tasks": {"run": ["status"], "status": []}, "runs": 1, "catchup": False}
    assert parsed(tmp_path, text) == {"errors": [], "dags": {"shop_cdc": dag}}
    wrong = parsed(tmp_path, text.replace("run >> status", "run >> status >> run"))
    assert "Cycle" in str(wrong["errors"])

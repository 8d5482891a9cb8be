"""Runs a job's tasks: one process of the deployed wheel's environment, with one local Spark.

A task calls the wheel's entry point with the job's own arguments. What only a workspace has is
replaced by settings after them: the catalog by a lake in a folder, each volume by its folder.
"""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from tests.bundle.runner import Program
from tests.workspace.folders import Refused, Workspace

ENTRY_POINTS = ("bronze", "silver", "gold", "lakehouse")
LAYERS = ("bronze", "silver", "gold")
SETTING = "--set="
PASSED_ON = ("PATH", "HOME")

# Databricks looks the entry point up in the wheel's metadata and calls it as a function; any
# SystemExit is a failure. What it prints goes to stderr: stdout has the codes, one a line.
CALLS = """
import json, os, sys, traceback
from importlib.metadata import distribution
codes = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
known = {point.name: point for point in distribution("cdc_lakehouse").entry_points}
for line in sys.stdin:
    name, *sys.argv[1:] = json.loads(line)
    code = 1
    try:
        known[name].load()()
        code = 0
    except SystemExit as left:
        print(f"{name} left with {left.code}")
    except Exception:  # whatever a task raises is its failure, as on Databricks
        traceback.print_exc()
    sys.stdout.flush()
    print(code, file=codes, flush=True)
"""


class Compute(NamedTuple):
    """A started process that calls entry points."""

    workspace: Workspace
    process: "subprocess.Popen[str]"

    def call(self, name: str, arguments: Sequence[str]) -> int:
        """Run one task and wait for its exit code."""
        try:
            settings = replace_places(self.workspace, arguments)
        except Refused as refused:
            print(f"{name}: {refused}", flush=True)
            return 1
        assert self.process.stdin and self.process.stdout
        print(json.dumps([name, *arguments, *settings]), file=self.process.stdin, flush=True)
        return int(self.process.stdout.readline() or 1)


@contextmanager
def started(workspace: Workspace) -> Iterator[Mapping[str, Program]]:
    """The wheel's entry points by name, until the job has ended.

    The process sees the wheel only: neither this project's folder nor PYTHONPATH.
    """
    here = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    with subprocess.Popen(
        [workspace.programs / "python", "-c", CALLS], cwd=workspace.folder, env=here,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        compute = Compute(workspace, process)
        yield {name: _program(compute, name) for name in ENTRY_POINTS}


def replace_places(workspace: Workspace, arguments: Sequence[str]) -> list[str]:
    """Settings by which the catalog, schemas and volumes of a job's arguments lie in folders.

    Raises:
        Refused: a schema or volume that no deploy made.
    """
    pairs = (text.removeprefix(SETTING) for text in arguments if text.startswith(SETTING))
    given = dict(pair.split("=", 1) for pair in pairs)
    catalog = given["catalog"]
    for schema in (given[f"schemas.{layer}"] for layer in LAYERS):
        if not workspace.has_schema(catalog, schema):
            raise Refused(f"[SCHEMA_NOT_FOUND] {catalog}.{schema}")
    settings = {
        "kind": "local",
        "catalog": "null",
        "root": workspace.lake(catalog),
        "landing": workspace.at(given["landing"]),
        "checkpoints": workspace.at(given["checkpoints"]),
    }
    return [f"{SETTING}{key}={value}" for key, value in settings.items()]


def _program(compute: Compute, name: str) -> Program:
    return lambda arguments: compute.call(name, arguments)

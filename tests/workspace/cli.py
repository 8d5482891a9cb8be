"""The program `databricks` of the tests: four commands of Databricks' CLI, on a folder.

It stands in for the CLI and a workspace when a test types docs/getting-started/databricks.md.
The bundle, the wheel and the jobs are the real ones. LAKEHOUSE_WORKSPACE names the folder that
stands for the workspace, LAKEHOUSE_WORKSPACE_USER the user. It prints less than the CLI does.
"""

import argparse
import os
import sys
from pathlib import Path

from tests.workspace.bundles import deploy, run_job, validate
from tests.workspace.folders import Refused, Workspace, copy

FOLDER, USER = "LAKEHOUSE_WORKSPACE", "LAKEHOUSE_WORKSPACE_USER"


def main() -> None:
    """Run one command; exit code 1 when it is refused or a job failed."""
    given = _parser().parse_args()
    workspace = Workspace(Path(os.environ[FOLDER]), os.environ[USER])
    try:
        _run(workspace, given)
    except Refused as refused:
        print(f"Error: {refused}", file=sys.stderr)
        sys.exit(1)


def _run(workspace: Workspace, given: argparse.Namespace) -> None:
    here = Path.cwd()
    if given.command == "validate":
        validate(workspace, here)
    elif given.command == "deploy":
        deploy(workspace, here)
    elif given.command == "run":
        run_job(workspace, given.key)
    else:
        print(*copy(workspace, given.source, given.target, given.recursive), sep="\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("databricks", allow_abbrev=False)
    groups = parser.add_subparsers(required=True)
    bundle = groups.add_parser("bundle").add_subparsers(dest="command", required=True)
    # The stand-in is always strict: the lint knows no warnings.
    bundle.add_parser("validate").add_argument("--strict", action="store_true", required=True)
    bundle.add_parser("deploy")
    bundle.add_parser("run").add_argument("key")
    files = groups.add_parser("fs").add_subparsers(dest="command", required=True)
    cp = files.add_parser("cp")
    cp.add_argument("-r", "--recursive", action="store_true")
    cp.add_argument("source")
    cp.add_argument("target")
    return parser


if __name__ == "__main__":
    main()

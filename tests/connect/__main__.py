"""`python -m tests.connect COMMAND…`: runs it beside a Spark Connect server, and stops that.

The server's url is in the command's environment as LAKEHOUSE_TEST_REMOTE. Exits as the command did.
"""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.connect.server import serving


def main(command: list[str]) -> int:
    """Run the command to its end; a SIGTERM ends it and the server."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    temporary = tempfile.TemporaryDirectory(prefix="lakehouse-connect-")
    with temporary as folder, serving(Path(folder)) as remote:
        environment = os.environ | {"LAKEHOUSE_TEST_REMOTE": remote}
        return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

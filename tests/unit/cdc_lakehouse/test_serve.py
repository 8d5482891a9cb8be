"""When a lake's server ends: once nobody asks it, and when it is told to."""

import subprocess
import sys
import time

from cdc_lakehouse.cli.ask.serve import LastUse, stop_server
from lakehouse.spark.server import Server


def test_a_query_of_the_last_seconds_keeps_the_server() -> None:
    use = LastUse(time.time)
    time.sleep(0.05)
    assert not use.is_idle(0.02)


def test_a_server_that_nobody_has_used_is_idle() -> None:
    use = LastUse(lambda: 0.0)
    assert not use.is_idle(60)
    time.sleep(0.05)
    assert use.is_idle(0.02)


def test_a_server_that_has_just_ended_is_stopped() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    server = Server(host="h", pid=ended.pid, born="b", version="v", port=1, token="t")
    assert stop_server(server).endswith("is stopped")

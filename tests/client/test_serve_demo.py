# SPDX-License-Identifier: Apache-2.0
"""``make serve-demo`` from the outside: service, users, dashboard's address, and a clean end at Ctrl-C."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "examples" / "serve_demo.py"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.verify
def test_it_starts_serves_and_leaves_nothing_behind(tmp_path) -> None:
    port = free_port()
    command = [sys.executable, str(DEMO), "--users", "1000000", "--port", str(port)]
    command += ["--world", "random-blend:states=3,actions=2,horizon=2,d=2"]
    environment = os.environ | {"TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as demo:
        lines = []
        for line in demo.stdout:
            lines.append(line)
            if line.startswith("dashboard"):
                break
        assert lines[-1] == f"dashboard  http://127.0.0.1:{port}/dashboard\n", "".join(lines)
        assert list(tmp_path.glob("reticent-demo-*/demo.db"))
        demo.send_signal(signal.SIGINT)
        rest = demo.communicate(timeout=60)[0]
    assert demo.returncode == 0, rest
    assert rest.endswith("stopped; nothing is left behind\n")
    assert not list(tmp_path.glob("reticent-demo-*"))
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))


@pytest.mark.verify
@pytest.mark.slow
def test_a_port_that_is_taken_is_said_so(tmp_path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        command = [sys.executable, str(DEMO), "--port", str(taken.getsockname()[1]), "--world", "riverswim:states=3"]
        environment = os.environ | {"TMPDIR": str(tmp_path)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 1
    assert "the service did not start" in done.stderr
    assert not list(tmp_path.glob("reticent-demo-*"))

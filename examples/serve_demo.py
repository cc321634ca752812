# SPDX-License-Identifier: Apache-2.0
"""The service in one command: start it on this machine, send it simulated users, watch the dashboard, stop with Ctrl-C.

    python examples/serve_demo.py                         # or: make serve-demo
    python examples/serve_demo.py --users 5000 --port 9000 --trust local

Everything it stores is in a temporary directory and gone afterwards; its keys are random and live as long as it does.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import sys
import tempfile
from pathlib import Path

from reticent.cli.processes import DidNotStart, running, stopping, wait_until_healthy


def main() -> int:
    """Run the demo; the exit code is that of the users' command, 0 if it was stopped with Ctrl-C."""
    options = read_arguments()
    stop = stopping()
    keys = {
        name: secrets.token_urlsafe(32) for name in ("RETICENT_APP_KEY", "RETICENT_ADMIN_KEY", "RETICENT_USER_SECRET")
    }
    url = f"http://127.0.0.1:{options.port}"
    with tempfile.TemporaryDirectory(prefix="reticent-demo-") as directory:
        config = Path(directory) / "deployment.yaml"
        config.write_text(json.dumps(deployment(options, directory)), encoding="utf-8")  # JSON is YAML
        command = ["serve", "--init", "--config", str(config)]
        with running(command, os.environ | keys, signal.SIGTERM) as service:
            wait_until_healthy(service, url, stop)
            print(f"dashboard  {url}/dashboard\napi        {url}/openapi.json", flush=True)
            command = ["users", "--url", url, "--users", str(options.users), "--late", "0.1", "--lost", "0.05"]
            with running(command, os.environ | keys, signal.SIGINT) as crowd:
                while crowd.poll() is None and not stop.wait(0.2):
                    pass
            if crowd.returncode == 0 and not (options.once or stop.is_set()):
                print(f"dashboard  {url}/dashboard\nstill serving; Ctrl-C stops it", flush=True)
                stop.wait()
    print("stopped; nothing is left behind", flush=True)
    return 0 if stop.is_set() else int(crowd.returncode)


def read_arguments() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--world", default="mobile-health")
    parser.add_argument("--users", type=int, default=3000)
    parser.add_argument("--trust", choices=("joint", "local"), default="joint")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--port", type=int, default=8400)
    parser.add_argument("--once", action="store_true", help="stop when the users are through")
    return parser.parse_args()


def deployment(options: argparse.Namespace, directory: str) -> dict[str, object]:
    """The configuration: as many users as will come, in a database that goes away."""
    return {
        "world": options.world,
        "agent": f"private-score-vi:epsilon={options.epsilon},trust={options.trust}",
        "episodes": options.users,
        "database": f"sqlite:///{directory}/demo.db",
        "port": options.port,
        "rate_limit": 0,
        "finish_after": 5,
    }


if __name__ == "__main__":
    try:
        sys.exit(main())
    except DidNotStart as problem:
        sys.exit(str(problem))

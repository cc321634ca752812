# SPDX-License-Identifier: Apache-2.0
"""The pictures of docs/dashboard.md: a service, simulated users, and a browser that looks at it.

python benchmarks/dashboard_pictures.py --users 3000 --sent 2100
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))  # helpers that tests use too
from headless_browser import browser
from service_process import ENVIRONMENT, serving

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
VIEWS: dict[str, dict[str, Any]] = {
    "dashboard": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "dashboard_dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    "dashboard_phone": {"viewport": {"width": 360, "height": 740}, "color_scheme": "light"},
}


def main() -> None:
    """Serve, send users, take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--world", default="mobile-health")
    parser.add_argument("--agent", default="private-score-vi")
    parser.add_argument("--users", type=int, default=3000, help="planned")
    parser.add_argument("--sent", type=int, default=2100, help="sent before the pictures are taken")
    parser.add_argument("--out", type=Path, default=PICTURES)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        settings = {
            "world": options.world, "agent": options.agent, "episodes": options.users,
            "database": f"sqlite:///{directory}/pictures.db",
        }  # fmt: skip
        with serving(settings) as service:
            url = f"http://127.0.0.1:{service.port}"
            send(url, options.sent - 40)
            for name, view in VIEWS.items():
                with browser(**view) as window:
                    page = window.new_page()
                    page.goto(f"{url}/dashboard")
                    page.wait_for_selector("#value-chart .dot", timeout=60_000)
                    if name == "dashboard":  # users who come while the page is open give it a rate
                        time.sleep(3)
                        send(url, 40)
                    time.sleep(3)
                    page.screenshot(path=options.out / f"{name}.png", full_page=True)


def send(url: str, number: int) -> None:
    """Simulated users for the service."""
    command = [sys.executable, "-m", "reticent", "users", "--url", url, "--users", str(number)]
    subprocess.run(command, env={**os.environ, **ENVIRONMENT}, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""The TypeScript client, built once, in Node: users of it, and the example's page with its backend."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CLIENT = Path(__file__).parents[2] / "clients" / "typescript"
USERS = Path(__file__).with_name("typescript_users.mjs")
COMPILER = CLIENT / "node_modules" / "typescript" / "bin" / "tsc"
OLDEST = 20


def why_not() -> str | None:
    """What is missing for the TypeScript client; None if nothing is."""
    if shutil.which("node") is None:
        return f"Node is not installed (version {OLDEST} or newer; on Debian: apt-get install nodejs npm)"
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True, timeout=30).stdout
    if int(version.removeprefix("v").split(".")[0]) < OLDEST:
        return f"Node is {version.strip()}, but must be version {OLDEST} or newer; install a newer one"
    if not COMPILER.exists():
        return "the TypeScript compiler is not installed (make typescript-test, or npm install in clients/typescript)"
    return None


def build() -> None:
    """Compile the client into its ``dist``, unless that is newer than every source; safe in several processes at once."""
    with (Path(tempfile.gettempdir()) / f"reticent-typescript-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        built = CLIENT / "dist" / "index.js"
        sources = [CLIENT / "tsconfig.json", *(CLIENT / "src").rglob("*.ts")]
        if built.exists() and built.stat().st_mtime > max(source.stat().st_mtime for source in sources):
            return
        built.unlink(missing_ok=True)  # written anew even if it would stay the same, so that its time tells
        made = subprocess.run(
            ["node", str(COMPILER), "-p", str(CLIENT)], capture_output=True, text=True, timeout=300, check=False
        )
        assert made.returncode == 0, made.stdout + made.stderr


def visit(**job: Any) -> list[dict[str, Any]]:
    """Let users of the TypeScript client take part, one after another, in one process of Node; what became of each.

    ``job`` is what ``typescript_users.mjs`` reads.
    """
    ran = subprocess.run(
        ["node", str(USERS), str(CLIENT / "dist")],
        input=json.dumps(job), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


@contextlib.contextmanager
def example_page(service: str, key: str, port: int = 0) -> Iterator[str]:
    """The example's backend in front of ``service``; gives its address."""
    process = subprocess.Popen(
        ["node", str(CLIENT / "example" / "serve.mjs"), "--service", service, "--port", str(port)],
        env={**os.environ, "RETICENT_APP_KEY": key}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address, "the example's backend did not start"
        yield address
    finally:
        process.terminate()
        process.wait(30)
        if process.stdout is not None:
            process.stdout.close()

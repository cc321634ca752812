# SPDX-License-Identifier: Apache-2.0
"""Run README.md word for word, from a bare environment: ``make readme``.

Its code blocks are copied in order and run in a fresh copy of the tree, with no more of this environment than a Python
interpreter and pip's configuration. A block after the words "another terminal" gets a shell of its own. A command that
says "until Ctrl-C" is started and kept until the end. The program fails if a command fails, if users were not
served, if plans became no better, or if a figure that the page states for the walk is not reached.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMIT = 600.0
"""Seconds that the whole page may take."""

UNTIL_STOPPED = "until Ctrl-C"
FIGURE = r"(\d+\.\d+) ± (\d+\.\d+)"
WORTH = r"worth (\d+\.\d+) at first, (\d+\.\d+) at last"


class Failed(Exception):
    """What the page says is not so."""


@dataclasses.dataclass(frozen=True)
class Command:
    """One command of the page, or one Python program; ``terminal`` counts the shells that the page asks for."""

    text: str
    language: str
    terminal: int

    @property
    def keeps_running(self) -> bool:
        return self.language == "sh" and UNTIL_STOPPED in self.text


@dataclasses.dataclass(frozen=True)
class Figure:
    """A mean with 1.96 standard errors."""

    value: float
    error: float

    def agrees(self, other: Figure) -> bool:
        """Whether the two intervals meet: noise is drawn anew at every run."""
        return abs(self.value - other.value) <= self.error + other.error


def commands(page: str) -> list[Command]:
    """The page's commands in order: every line of a shell block, and every Python block as a whole.

    >>> [command.text for command in commands("a\\n```sh\\nls\\npwd\\n```\\n")]
    ['ls', 'pwd']
    """
    found: list[Command] = []
    terminal, before = 0, 0
    for block in re.finditer(r"^```(\w+)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        language, text = block.group(1), block.group(2)
        terminal += "another terminal" in page[before : block.start()]
        before = block.end()
        if language == "sh":
            found += [Command(line, language, terminal) for line in text.splitlines() if line.strip()]
        elif language == "python":
            found.append(Command(text, language, terminal))
    return found


def stated_figures(page: str) -> dict[str, Figure]:
    """What the page's tables state for the walk: rows of a name and ``mean ± error``."""
    rows = re.findall(rf"^\| ([^|]+) \| {FIGURE} \|$", page, re.MULTILINE)
    return {name.strip(): Figure(float(value), float(error)) for name, value, error in rows}


def check_replay(output: str, stated: dict[str, Figure]) -> None:
    """Hold the replay against the page's table, and the deployed agent above what does not learn, beyond the intervals."""
    printed = {}
    for name, expected in stated.items():
        row = re.search(rf"^ {re.escape(name)}\b.*?(\d+\.\d+) +(\d+\.\d+)", output, re.MULTILINE)
        if row is None:
            raise Failed(f"the replay has no row {name!r}")
        printed[name] = Figure(float(row.group(1)), float(row.group(2)))
        if not printed[name].agrees(expected):
            raise Failed(f"{name}: the page says {expected}, the replay {printed[name]}")
    deployed = printed["deployed"]
    for name in ("best fixed action", "the plan of the candidates alone"):
        if deployed.value - deployed.error <= printed[name].value + printed[name].error:
            raise Failed(f"the deployed agent ({deployed}) is not clearly above {name} ({printed[name]})")


def check_users(command: str, output: str) -> None:
    """Every user was served and counted, and plans became better, by half of what the page says at least.

    Returns themselves are not held against anything: a hundred users who are served while the plan is being learned, and a
    hundred later ones, differ by less than chance now and then.
    """
    table = re.search(r"^ users +served +counted.*\n.*\n +([\d,]+) +([\d,]+)", output, re.MULTILINE)
    if table is None:
        raise Failed("the users' command printed no table of users")
    served, counted = (int(number.replace(",", "")) for number in table.groups())
    asked = re.search(r"--users (\d+)", command)
    if not 0 < served == counted or (asked is not None and served != int(asked.group(1))):
        raise Failed(f"{served} users were served and {counted} counted, of {asked.group(1) if asked else 'all'}")
    worth = re.search(WORTH, output)
    if worth is None:
        raise Failed("the users' command does not say what the plans were worth")
    first, last = map(float, worth.groups())
    if last <= first:
        raise Failed(f"the plan was worth {first} at first and {last} at last: nothing was learned")
    said = re.search(WORTH, command)
    if said is None:
        return
    before, after = map(float, said.groups())
    # The first plan is a function of public data. Later ones have the noise of their releases in them.
    if first != before or last < (before + after) / 2:
        raise Failed(f"the plan was worth {first} at first and {last} at last, the page says {before} and {after}")


def check(command: Command, output: str, stated: dict[str, Figure]) -> None:
    """What the page promises of this command."""
    if command.text.startswith("reticent replay"):
        check_replay(output, stated)
    if command.text.startswith(("reticent users", "reticent quickstart")):
        check_users(command.text, output)


class Terminal:
    """A shell in the copied tree: exported variables and the working directory last from command to command."""

    def __init__(self, tree: Path, home: Path, until: float) -> None:
        self._tree, self._home, self._until = tree, home, until
        self._state = Path(tempfile.mkdtemp(dir=home))

    def run(self, command: Command) -> str:
        """The command's output, shown as it comes; ends all that it started if time is up.

        Raises:
          Failed: it failed, or took too long.
        """
        with self._started(command) as process:
            said = []
            watch = _ended_at(process, self._until)
            with watch:
                for line in process.stdout or ():
                    said.append(line)
                    print(f"  | {line}", end="", flush=True)
        if time.monotonic() >= self._until:
            raise Failed(f"the page took longer than its limit; this was running: {command.text}")
        if process.returncode:
            raise Failed(f"exit code {process.returncode}: {command.text}")
        return "".join(said)

    @contextlib.contextmanager
    def keep(self, command: Command) -> Iterator[None]:
        """Within the block the command runs, and the address that it says it serves answers.

        Raises:
          Failed: it ended, or no address answered in time.
        """
        log = self._state / "kept"
        with log.open("w") as output, self._started(command, output) as process:
            try:
                self._wait(process, log)
                yield
                if process.poll() is not None:
                    raise Failed(f"it ended by itself with exit code {process.returncode}: {command.text}")
            finally:
                print("".join(f"  | {line}\n" for line in log.read_text().splitlines()), end="", flush=True)
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(20)
                _end(process)

    def _wait(self, process: subprocess.Popen[str], log: Path) -> None:
        while time.monotonic() < self._until:
            if process.poll() is not None:
                raise Failed(f"it did not start: {log.read_text()[-2000:]}")
            address = re.search(r"serving on (http://\S+)", log.read_text())
            if address is not None:
                with contextlib.suppress(urllib.error.URLError, ConnectionError):
                    urllib.request.urlopen(f"{address.group(1)}/v1/health", timeout=5).close()
                    return
            time.sleep(0.1)
        raise Failed(f"nothing answered in time: {log.read_text()[-2000:]}")

    def _started(self, command: Command, output: object = subprocess.PIPE) -> subprocess.Popen[str]:
        program = self._state / "program.py"
        if command.language == "python":
            program.write_text(command.text)
        line = command.text if command.language == "sh" else f"python {program}"
        state, where = self._state / "exported", self._state / "folder"
        script = (
            f"[ ! -e {state} ] || . {state}\n[ ! -e {where} ] || cd \"$(cat {where})\"\n"
            f"set -e\n{line}\nset +e\nexport -p > {state}\npwd > {where}\n"
        )  # fmt: skip
        return subprocess.Popen(
            ["bash", "-c", script], cwd=self._tree, env=bare_environment(self._home), text=True, stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT, start_new_session=True,  # type: ignore[call-overload]
        )  # fmt: skip


@contextlib.contextmanager
def _ended_at(process: subprocess.Popen[str], until: float) -> Iterator[None]:
    """Within the block, the process and all that it started are killed when the time is up."""
    timer = threading.Timer(max(0.0, until - time.monotonic()), _end, [process])
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def bare_environment(home: Path) -> dict[str, str]:
    """A Python interpreter, the system's programs, an empty home, and how pip is configured here."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("PIP_") or name.lower().endswith("_proxy") or name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
    }
    for place in (Path.home() / ".config" / "pip" / "pip.conf", Path.home() / ".pip" / "pip.conf"):
        if place.exists():
            kept.setdefault("PIP_CONFIG_FILE", str(place))
    kept.setdefault("PIP_CACHE_DIR", str(Path.home() / ".cache" / "pip"))
    interpreter = Path(getattr(sys, "_base_executable", sys.executable)).resolve().parent
    path = f"{interpreter}:/usr/local/bin:/usr/bin:/bin"
    return {**kept, "PATH": path, "HOME": str(home), "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1"}


def fresh_copy(target: Path) -> None:
    """What a clone would have: tracked files, and new ones that are not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def run_page(limit: float) -> None:
    """Run the whole page; see the module.

    Raises:
      Failed: what the page says is not so.
    """
    with tempfile.TemporaryDirectory(prefix="reticent-readme-") as folder, contextlib.ExitStack() as kept:
        tree, home = Path(folder) / "reticent", Path(folder) / "home"
        home.mkdir()
        fresh_copy(tree)
        page = (tree / "README.md").read_text(encoding="utf-8")
        until, terminals = time.monotonic() + limit, {}
        for command in commands(page):
            terminal = terminals.setdefault(command.terminal, Terminal(tree, home, until))
            print(f"[{command.terminal + 1}] {command.text.rstrip()}", flush=True)
            began = time.monotonic()
            if command.keeps_running:
                kept.enter_context(terminal.keep(command))
            else:
                check(command, terminal.run(command), stated_figures(page))
            print(f"  {time.monotonic() - began:.0f} s", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds that the page may take")
    arguments = parser.parse_args()
    began = time.monotonic()
    try:
        run_page(arguments.limit)
    except Failed as problem:
        print(f"README.md: {problem}", file=sys.stderr)
        return 1
    print(f"README.md: every command works as written, {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Run the blocks of docs/examples.md, and keep the pictures that they make.

    python docs/run_examples.py [heading ...]

The blocks of a section run in order in a folder of their own, with the ``python`` and ``reticent`` of this environment and
the clone's ``examples/``. A caption that begins with a picture's name says what they wrote: it is kept as the section's
picture in ``docs/pictures``. Sections whose lines are the README's are run by ``make readme``, and a test runs the device.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PAGE = FOLDER / "examples.md"
ELSEWHERE = ("Personalise messages from a log", "Deploy", "Write the device")


def sections() -> dict[str, str]:
    """The page's tasks by their headings."""
    return dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE))


def blocks(heading: str) -> list[tuple[str, str]]:
    """Language and text of a section's blocks, in order."""
    return re.findall(r"^```(sh|python)\n(.*?)^```$", sections()[heading], re.DOTALL | re.MULTILINE)


def shown(heading: str) -> Path:
    """The section's picture."""
    found = re.findall(r"^!\[.+\]\((pictures/\w+\.png)\)$", sections()[heading], re.MULTILINE)
    if len(found) != 1:
        raise ValueError(f"{heading}: {len(found)} pictures")
    return FOLDER / str(found[0])


def written(heading: str) -> str | None:
    """What the blocks write, by the caption; None where the picture is another program's."""
    found = re.search(r"^\*`([\w/]+\.png)`", sections()[heading], re.MULTILINE)
    return None if found is None else found[1]


def run(heading: str, folder: Path, timeout: float = 900.0) -> str:
    """Run a section's blocks in ``folder``; what they printed.

    Raises:
      RuntimeError: a block failed, or the picture was not written.
    """
    shutil.copytree(FOLDER.parent / "examples", folder / "examples", dirs_exist_ok=True)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    said = ""
    for language, text in blocks(heading):
        program = ["bash", "-e", "-c", text] if language == "sh" else [sys.executable, "-c", text]
        done = subprocess.run(
            program, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=timeout,
            check=False,
        )  # fmt: skip
        said += done.stdout
        if done.returncode:
            raise RuntimeError(f"{heading}: exit status {done.returncode}\n{text}\n{done.stdout}\n{done.stderr}")
    made = written(heading)
    if made is not None and not (folder / made).exists():
        raise RuntimeError(f"{heading}: nothing wrote {made}")
    return said


def main(headings: list[str]) -> None:
    """Run the sections, all by default, and keep their pictures."""
    for heading in headings or [name for name in sections() if name not in ELSEWHERE]:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="reticent-example-") as folder:
            print(run(heading, Path(folder)), end="")
            made = written(heading)
            if made is not None:
                shutil.copy(Path(folder) / made, shown(heading))
        print(f"-- {heading}: {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

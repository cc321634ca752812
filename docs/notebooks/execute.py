# SPDX-License-Identifier: Apache-2.0
"""Execute the tutorials and write what every cell prints beneath it.

    python docs/notebooks/execute.py [name ...]

Cells of a notebook run in order, in one process and a directory of their own. What a cell prints is the block ``text``
right after it; pictures that cells save go to ``docs/pictures``. The tests execute the tutorials again and compare.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PICTURES = FOLDER.parent / "pictures"
CELL = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.S | re.M)
"""A cell, and what it printed."""


def names() -> list[str]:
    """All tutorials."""
    return sorted(path.stem for path in FOLDER.glob("*.md") if path.stem != "index")


def cells(name: str) -> list[tuple[str, str]]:
    """Every cell of a tutorial, and what the file says that it prints."""
    return [(code, said or "") for code, said in CELL.findall((FOLDER / f"{name}.md").read_text(encoding="utf-8"))]


def executed(name: str, directory: Path, timeout: float = 600.0) -> list[str]:
    """What each cell prints, executed in a process of its own in ``directory``.

    Raises:
      RuntimeError: a cell failed.
    """
    program = f"import execute; execute.run_cells({name!r})"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(FOLDER)!r}); {program}"],
        cwd=directory, capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr)
    printed: list[str] = json.loads(done.stdout.splitlines()[-1])
    return printed


def run_cells(name: str) -> None:
    """Execute the cells here, and print what each printed as one line of JSON."""
    printed, scope = [], {"__name__": "__main__"}
    for number, (code, _) in enumerate(cells(name)):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            exec(compile(code, f"{name}, cell {number}", "exec"), scope)
        printed.append(said.getvalue())
    print(json.dumps(printed))


def write(name: str) -> None:
    """Execute a tutorial and put what it prints into its file, and its pictures beside the others."""
    path = FOLDER / f"{name}.md"
    with tempfile.TemporaryDirectory() as place:
        printed = iter(executed(name, Path(place)))
        for picture in sorted(Path(place).glob("*.png")):
            shutil.copy(picture, PICTURES / picture.name)

    def with_output(found: re.Match[str]) -> str:
        said = "\n".join(line.rstrip() for line in next(printed).splitlines())
        return f"```python\n{found[1]}```\n" + (f"\n```text\n{said}\n```\n" if said else "")

    path.write_text(CELL.sub(with_output, path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    for chosen in sys.argv[1:] or names():
        write(chosen)
        print(chosen)

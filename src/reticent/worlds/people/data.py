# SPDX-License-Identifier: Apache-2.0
"""Where recorded people are kept: a folder that you name, never this repository.

Publishers offer these data under terms of their own, so the library brings none. Put the files, as they are
downloaded, into one folder and name it by the environment variable ``RETICENT_DATA`` or by an argument. A file whose
checksum is not the one that results were measured on is used all the same, with a warning.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from pathlib import Path
from typing import NamedTuple

from reticent.errors import MissingExtra, ReticentError

FOLDER = "RETICENT_DATA"
"""The environment variable that names the folder."""


class Published(NamedTuple):
    """A file of recorded people: its name, what it is, where to get it, and how its checksum begins."""

    file: str
    what: str
    where: str
    sha256: str


class MissingData(MissingExtra):
    """Data that are not where they were looked for; the message says where to get them."""

    def __init__(self, published: Published, folder: Path | None) -> None:
        self.what, self.package = published.what, published.file
        self.remedy = f"get {published.file} from {published.where} and set {FOLDER} to its folder"
        place = f"not in {folder}" if folder is not None else f"nowhere, as {FOLDER} is not set"
        ReticentError.__init__(self, f"{published.what}: the file {published.file} is {place}; {self.remedy}")


class OtherData(UserWarning):
    """A file is not the one that published figures were measured on."""


def folder_of(folder: str | Path | None = None) -> Path | None:
    """``folder``, or else the one that :data:`FOLDER` names, or else None."""
    place = folder if folder is not None else os.environ.get(FOLDER) or None
    return None if place is None else Path(place)


def locate(published: Published, folder: str | Path | None = None) -> Path:
    """The file's path in ``folder``, or else in the folder that :data:`FOLDER` names; the file is not read.

    Raises:
      MissingData: it is not there.
    """
    place = folder_of(folder)
    if place is None or not (place / published.file).is_file():
        raise MissingData(published, place)
    return place / published.file


def find(published: Published, folder: str | Path | None = None) -> Path:
    """:func:`locate`, with a warning if the file is not the one that results were measured on.

    Raises:
      MissingData: it is not there.
    """
    path = locate(published, folder)
    measured = hashlib.sha256(path.read_bytes()).hexdigest()
    if not measured.startswith(published.sha256):
        warnings.warn(
            f"{published.file} has the checksum {measured[:12]} and not {published.sha256}: figures of this data set were "
            "measured on another file",
            OtherData,
            stacklevel=2,
        )
    return path

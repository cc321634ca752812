# SPDX-License-Identifier: Apache-2.0
"""Recorded people, one file per data set: loaders, pilots, users for replay; :mod:`.worlds` registers the worlds.

The data are never here: :mod:`reticent.worlds.people.data` says where they are looked for.
"""

from reticent.worlds.people.data import FOLDER, MissingData, OtherData

__all__ = ["FOLDER", "MissingData", "OtherData"]

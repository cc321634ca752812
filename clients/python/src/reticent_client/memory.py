# SPDX-License-Identifier: Apache-2.0
"""What a device remembers of its own user between visits: the log-likelihoods behind the belief, in a file, if asked.

The file is JSON that the user can read (:meth:`BeliefMemory.show`) and erase (:meth:`BeliefMemory.erase`, or by deleting
the file). It is data at rest about the user: keep it where the user's other private files are.

Formal guarantee. Nothing of it is ever sent. A returning user acts on it, which is a function of what was published and of
the user's own data. What is reported at a visit is formed from that visit's own episode
(:mod:`reticent_wire.forms.kinds`), so that releases have the same law with and without a memory of other visits, given the
episodes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reticent_client.private_file import PrivateFile
from reticent_wire.boundary import Clipped

Floats = NDArray[np.float64]
Content = dict[str, dict[str, list[float]]]


class BeliefMemory:
    """Keeps ℓ of every user of this device in one file, by the digest of the model that it belongs to.

    >>> client = Client(url, key, memory=BeliefMemory("belief.json"))  # doctest: +SKIP
    """

    def __init__(self, path: str | Path) -> None:
        self._file = PrivateFile(path, "memory")

    def recall(self, user: str, model: str) -> Floats | None:
        """ℓ after the user's last visit; None at the first, or under another model. The visit that begins may be kept from
        now on."""
        with self._file.alone():
            content = self._read()
            if user not in content:
                self._file.write(content | {user: {}})
        kept = content.get(user, {}).get(model)
        return None if kept is None else np.array(kept, np.float64)

    def keep(self, user: str, model: str, likelihoods: Clipped[Floats]) -> None:
        """Remember ℓ after a visit; nothing if the user was erased since it began: what was erased stays so."""
        with self._file.alone():
            content = self._read()
            if user in content:
                content[user] = {model: likelihoods.on_device(lambda values: [float(value) for value in values])}
                self._file.write(content)

    def show(self) -> Content:
        """Everything that is kept: by user and model, the log-likelihood of each kind, the blend last."""
        return {user: kept for user, kept in self._read().items() if kept}

    def erase(self, user: str | None = None) -> None:
        """Forget one user, or all of them, and the visits that they are in; the next one begins as the first did."""
        with self._file.alone():
            content = self._read()
            self._file.write({} if user is None else {name: kept for name, kept in content.items() if name != user})

    def _read(self) -> Content:
        try:
            return {
                str(user): {str(model): [float(value) for value in values] for model, values in kept.items()}
                for user, kept in self._file.read().items()
            }
        except (ValueError, TypeError, AttributeError):
            raise self._file.unreadable() from None

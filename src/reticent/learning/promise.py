# SPDX-License-Identifier: Apache-2.0
"""What an agent promises its users; every agent says something, if only that it promises nothing.

``learning`` knows no more of privacy than this. What a private agent promises is a
:class:`reticent.privacy.guarantee.Guarantee`; every other agent says that it promises nothing.
"""

from __future__ import annotations

import abc
import dataclasses

from reticent.static_metadata import StaticMetadata


class Promise(StaticMetadata, abc.ABC):
    """A statement about users' privacy."""

    @abc.abstractmethod
    def sentence(self) -> str:
        """The promise in plain words."""


@dataclasses.dataclass(frozen=True, eq=False)
class NoPromise(Promise):
    """Nothing is promised about users; ``words`` may say what is promised instead."""

    words: str = "Promises no privacy: it is the yardstick for what privacy costs."

    def sentence(self) -> str:
        return self.words

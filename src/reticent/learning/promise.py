"""What is said about an agent, and no part of what it computes: above all, what it promises its users.

``learning`` knows no more of privacy than this. What a private agent promises is a
:class:`reticent.privacy.guarantee.Guarantee`; every other agent says that it promises nothing.
"""

from __future__ import annotations

import abc
import dataclasses


class Statement:
    """Something said about an agent.

    All statements compare equal, on purpose: an agent is a pytree, what is said about it belongs to its structure, and
    agents that differ in statements alone are one compiled program. Nothing inside such a program reads them.
    """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Statement)

    def __hash__(self) -> int:
        return 0


class Promise(Statement, abc.ABC):
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

# SPDX-License-Identifier: Apache-2.0
"""The errors a caller can cause, each naming the field, the value, the bound and the remedy.

No error of this package quotes what a user did: states, actions, rewards and statistics never get into a message, since
messages end up in logs.
"""

from __future__ import annotations


class ReticentError(ValueError):
    """Base of every error that bad input can cause. Raised before anything is spent or changed."""


class InvalidInput(ReticentError):
    """A value outside its declared domain.

    The message always has the same four parts, so that it can be acted on without reading the code.
    """

    def __init__(self, field: str, value: object, bound: str, remedy: str) -> None:
        self.field, self.value, self.bound, self.remedy = field, value, bound, remedy
        super().__init__(f"{field} is {value!s}, but must be {bound}; {remedy}")

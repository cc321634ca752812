# SPDX-License-Identifier: Apache-2.0
"""What the service says no to, other than malformed input. A refusal changes and spends nothing."""

from __future__ import annotations

from reticent.errors import ReticentError

STATUS = {
    "not-enrolled": 403,
    "unknown-episode": 404,
    "not-found": 404,
    "episode-taken": 409,
    "not-learning": 409,
    "wrong-trust": 409,
    "not-finished": 409,
    "in-shadow": 409,
    "round-open": 409,
    "batch-taken": 409,
    "batch-late": 410,
    "learning-stopped": 409,
    "episode-expired": 410,
    "round-over": 410,
    "too-many-requests": 429,
    "unavailable": 503,
}
"""The HTTP status of each kind."""


class Refusal(ReticentError):
    """A request that is well formed but cannot be granted; ``kind`` names the reason for programs."""

    def __init__(self, kind: str, message: str) -> None:
        self.kind, self.status = kind, STATUS[kind]
        super().__init__(message)

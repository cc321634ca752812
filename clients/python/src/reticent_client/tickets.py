# SPDX-License-Identifier: Apache-2.0
"""Admissions that an app's backend takes in bulk and hands to devices, which then make one request each: the report.

Formal guarantee (docs/proofs/one-request.md). The promise is that of the two-request protocol if tickets are handed out
independently of data: by a list, by the calendar, or when a user opens the app before the episode. Never hand one out
because an earlier one was used or was not, nor at the time of the report.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from reticent_wire.errors import InvalidInput


@dataclasses.dataclass(frozen=True)
class Ticket:
    """An admission of one user. It allows one report for that user: send it to the user's device alone.

    Attributes:
      opened: the service's answer to the admission.
    """

    user: str
    opened: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Plain values, for the way to the device."""
        return {"user": self.user, "opened": dict(self.opened)}

    @classmethod
    def read(cls, content: Any) -> Ticket:
        """The inverse of :meth:`to_json`.

        Raises:
          InvalidInput: it is no ticket.
        """
        user, opened = (content.get(key) for key in ("user", "opened")) if isinstance(content, dict) else (None, None)
        if not isinstance(user, str) or not isinstance(opened, dict) or not isinstance(opened.get("episode"), str):
            raise InvalidInput("ticket", "of another form", "what Ticket.to_json gave", "pass it on as it was")
        return cls(user, opened)

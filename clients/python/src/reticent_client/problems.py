# SPDX-License-Identifier: Apache-2.0
"""What can go wrong on the way to the service: its own words (RFC 9457), or none before the deadline."""

from __future__ import annotations

import json
from typing import Any

from reticent_wire.errors import ReticentError


class ServiceError(ReticentError):
    """The service refused a request. Every part of its explanation is an attribute; the message reads as one sentence.

    Attributes:
      status: the HTTP status.
      name: the kind of problem, such as ``episode-expired``; empty if the answer did not come from the service itself.
      title, detail, field, bound, remedy: as the service gave them, None where it gave none.
      retry_after: seconds that it asked to wait, None if it asked nothing.
    """

    def __init__(
        self,
        status: int,
        *,
        name: str = "",
        title: str = "",
        detail: str | None = None,
        field: str | None = None,
        bound: str | None = None,
        remedy: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.status, self.name, self.title, self.detail = status, name, title, detail
        self.field, self.bound, self.remedy, self.retry_after = field, bound, remedy, retry_after
        super().__init__(_sentence(status, title, detail, field, bound, remedy))

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status == 429 or (self.status >= 500 and self.status != 501)

    @classmethod
    def read(cls, status: int, body: bytes, retry_after: str | None) -> ServiceError:
        """The problem in an answer. An answer of something else on the way, such as a proxy, becomes one too."""
        content = _object(body)

        def text(key: str) -> str | None:
            return None if content.get(key) is None else str(content[key])

        return cls(
            status,
            name=str(content.get("type", "")).removeprefix("urn:reticent:problem:"),
            title=text("title") or f"the answer was HTTP {status} without an explanation",
            detail=text("detail"),
            field=text("field"),
            bound=text("bound"),
            remedy=text("remedy"),
            retry_after=_seconds(retry_after),
        )


class Unreachable(ReticentError):
    """No answer before the deadline. Whether the last request arrived is unknown; sending it again is safe."""

    def __init__(self, url: str, attempts: int, seconds: float, cause: BaseException) -> None:
        self.url, self.attempts, self.seconds = url, attempts, seconds
        times = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        super().__init__(
            f"no answer from {url} in {times} over {seconds:.1f} s ({cause}); check the address, or try again later: "
            "repeating a request is safe"
        )


def _sentence(
    status: int, title: str, detail: str | None, field: str | None, bound: str | None, remedy: str | None
) -> str:
    """One sentence; a part that the detail already says is not said again."""
    said = detail or ""
    parts = [f"{title}: {said}" if said and said != title else title]
    if field and field not in said:
        parts.append(f"field {field}")
    if bound and bound not in said:
        parts.append(f"must be {bound}")
    if remedy and remedy not in said:
        parts.append(remedy)
    return f"{'; '.join(parts)} (HTTP {status})"


def _object(body: bytes) -> dict[str, Any]:
    try:
        content = json.loads(body)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _seconds(text: str | None) -> float | None:
    """Seconds of a Retry-After header; a date, which this service never sends, counts as none."""
    try:
        return None if text is None else max(0.0, float(text))
    except ValueError:
        return None

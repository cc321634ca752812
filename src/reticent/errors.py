# SPDX-License-Identifier: Apache-2.0
"""The errors a user can cause, each naming the field, the value, the bound and the remedy."""

from __future__ import annotations

from reticent_wire.errors import InvalidInput, ReticentError

__all__ = ["InvalidInput", "MissingExtra", "ReticentError", "UnknownName"]


class UnknownName(ReticentError):
    """A name or key that is not registered; the message lists what is, nearest first."""

    def __init__(self, kind: str, given: str, known: list[str]) -> None:
        import difflib

        self.kind, self.given, self.known = kind, given, known
        near = difflib.get_close_matches(given, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        super().__init__(f"unknown {kind} {given!r}{hint} (known: {', '.join(known) or 'none'})")


class MissingExtra(ReticentError, ImportError):
    """Something that needs an optional package; the message says how to get it."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        self.what, self.package, self.remedy = what, package, f"pip install 'reticent[{extra}]'"
        super().__init__(f"{what} needs the package {package}, which is not installed; run {self.remedy}")

# SPDX-License-Identifier: Apache-2.0
"""The errors a user can cause, each naming the field, the value, the bound and the remedy."""

from __future__ import annotations

from reticent_wire.errors import InvalidInput, ReticentError

__all__ = ["InvalidInput", "MissingExtra", "ReticentError", "UnknownName", "unreadable_yaml"]


def unreadable_yaml(option: str, path: object, problem: Exception) -> InvalidInput:
    """The error for a file that cannot be read or is not YAML: why, and in which line."""
    mark = getattr(problem, "problem_mark", None)
    if mark is not None:
        what = getattr(problem, "problem", None) or "not YAML"
        return InvalidInput(option, f"{path}, line {mark.line + 1}: {what}", "valid YAML", "correct that line")
    reason = getattr(problem, "strerror", None) or "no text"
    return InvalidInput(option, f"{path} ({reason})", "a readable YAML file", "check the path")


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

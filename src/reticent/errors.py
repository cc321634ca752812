"""The errors a user can cause, each naming the field, the value, the bound and the remedy."""

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


class UnknownName(ReticentError):
    """A name or key that is not registered; the message lists what is, nearest first."""

    def __init__(self, kind: str, given: str, known: list[str]) -> None:
        import difflib

        self.kind, self.given, self.known = kind, given, known
        near = difflib.get_close_matches(given, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        super().__init__(f"unknown {kind} {given!r}{hint} (known: {', '.join(known) or 'none'})")


class MissingExtra(ReticentError):
    """Something that needs an optional package; the message says how to get it."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        self.what, self.package, self.remedy = what, package, f"pip install 'reticent[{extra}]'"
        super().__init__(f"{what} needs the package {package}, which is not installed; run {self.remedy}")

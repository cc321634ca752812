# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a deployment's file, in this library's words: the setting, its value, the bound, the remedy."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ValidationError

from reticent.errors import InvalidInput, ReticentError, UnknownName

SECRETIVE = (
    "settings", "database", "rollback_guard", "reader_key_sha256", "app_key_sha256", "shuffler_key_sha256",
    "admin_key_sha256", "enrolment_key",
)  # fmt: skip
"""Settings whose value no message repeats: an address may carry a password, and what is no key's hash may be the key."""

LONGEST = 60
"""Characters of a value that are repeated."""

REMEDY = "docs/service.md says what each setting means"

BOUNDS = {
    "greater_than": "above {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "below {lt}",
    "less_than_equal": "at most {le}",
    "literal_error": "{expected}",
    "string_pattern_mismatch": "text that matches {pattern}",
}
"""By pydantic's type of error, with the bound that its context has."""

KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "path": "a path",
    "tuple": "a list",
    "model": "a mapping, such as {{{fields}}}",
    "finite_number": "a finite number",
}
"""By the beginning of pydantic's type of error, where a value is of another kind altogether."""


def explained(
    problem: ValidationError, settings: type[BaseModel], parts: Mapping[str, type[BaseModel]]
) -> ReticentError:
    """The first thing that is wrong with ``settings``, of which ``parts`` are mappings themselves.

    Misspelled settings come first: what is missing then is what was misspelled.
    """
    errors = problem.errors()
    first = next((error for error in errors if error["type"] == "extra_forbidden"), errors[0])
    path = [str(part) for part in first["loc"]] or ["settings"]
    kind, context = first["type"], first.get("ctx", {})
    field = ".".join(path)
    if kind == "extra_forbidden":
        model = parts[path[0]] if len(path) > 1 else settings
        return UnknownName("setting", field, [".".join([*path[:-1], name]) for name in model.model_fields])
    if isinstance(context.get("error"), ReticentError):
        own: ReticentError = context["error"]
        return own
    if kind == "missing":
        return InvalidInput(field, "missing", "given", REMEDY)
    shown = "not accepted" if path[0] in SECRETIVE else _shown(first["input"])
    fields = ", ".join(f"{name}: …" for name in parts[field].model_fields) if field in parts else ""
    return InvalidInput(field, shown, _bound(kind, first["msg"]).format(**context, fields=fields), REMEDY)


def _bound(kind: str, message: str) -> str:
    if kind in BOUNDS:
        return BOUNDS[kind]
    for beginning, bound in KINDS.items():
        if kind.startswith(beginning):
            return bound
    return message.removeprefix("Input should be ").replace("{", "{{").replace("}", "}}")


def _shown(given: object) -> str:
    """A plain value as it was written, if it is short; of others the kind is said."""
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, str):
        return repr(given[:LONGEST])
    if isinstance(given, int | float):
        return str(given)[:LONGEST]
    kinds: tuple[tuple[type, str], ...] = ((list, "a list"), (dict, "a mapping"), (type(None), "empty"))
    return next((said for kind, said in kinds if isinstance(given, kind)), "not accepted")

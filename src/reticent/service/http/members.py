# SPDX-License-Identifier: Apache-2.0
"""The members of a group's body, cut apart before any of them is read.

One user's form must not decide whether others count. A JSON parser that reads the whole body would let it: one member
that is nested too deeply, or has a number that no parser takes, refuses all. So the body is cut at the commas of its one
list, and each member is parsed and validated by itself. What is wrong with one is its own answer.

Cutting looks at quotes and brackets alone. A body that a JSON serialiser made is cut where its members end, whatever they
contain; one that is put together by hand, out of text that was not escaped, may not be JSON at all, and is refused as a
whole: forming the body is the app's server's part (docs/service.md).
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from reticent.errors import InvalidInput

M = TypeVar("M", bound=BaseModel)


class OfUsers(BaseModel):
    """A body with a user's values."""


HEAD = re.compile(rb'\s*\{\s*"([^"\\]*)"\s*:\s*\[')
TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]|[^"\[\]{}]+', re.DOTALL)
TAIL = re.compile(rb"\s*\}\s*")
LONG = 400
NUMBER = re.compile(rb"(?<![0-9.eE])(?<![eE][+-])[0-9]{%d,}" % (LONG + 1))
"""A whole number beyond all floating-point numbers. Ids and tokens have no such run of digits."""

OPENING, CLOSING, QUOTE, COMMA = b"[{", b"]}", b'"', b","


def cut(body: bytes, field: str) -> list[bytes] | None:
    """The members of ``{"<field>": [member, …]}`` as they were written; None if the body has another form."""
    head = HEAD.match(body)
    if head is None or head[1] != field.encode():
        return None
    position = begin = head.end()
    members: list[bytes] = []
    depth = 0
    for token in TOKEN.finditer(body, position):
        if token.start() != position:
            return None  # a quote that is never closed
        position, first = token.end(), body[token.start() : token.start() + 1]
        if first in OPENING:
            depth += 1
        elif first in CLOSING:
            depth -= 1
            if depth < 0:
                members.append(body[begin : token.start()])
                alone = len(members) == 1 and not members[0].strip()
                whole = first == b"]" and TAIL.fullmatch(body, position) is not None
                return None if not whole else ([] if alone else members)
        elif depth == 0 and first != QUOTE:
            comma = body.find(COMMA, token.start(), position)
            while comma >= 0:
                members.append(body[begin:comma])
                begin = comma + 1
                comma = body.find(COMMA, begin, position)
    return None


def read_member(schema: type[M], member: bytes) -> M | InvalidInput:
    """A member as ``schema`` reads it, or what is wrong with its form."""
    try:
        return read(schema, member)
    except ValidationError as wrong:
        return malformed(wrong)


def read(schema: type[M], body: bytes) -> M:
    """A body as ``schema`` reads it, whatever the size of its numbers.

    Python refuses to read whole numbers of thousands of digits, and a number is a value of a user: one of so many digits is
    cut to :data:`LONG` of them, which every clip takes for the same.

    Raises:
      ValidationError: its form is another.
    """
    try:
        return schema.model_validate_json(body)
    except ValidationError:
        cut_down = NUMBER.sub(b"9" * LONG, body) if issubclass(schema, OfUsers) else body
        if cut_down == body:
            raise
        return schema.model_validate_json(cut_down)


def malformed(wrong: ValidationError) -> InvalidInput:
    """What is wrong with the form of one member, without a word of what it contains."""
    first = wrong.errors(include_url=False, include_context=False, include_input=False)[0]
    field, bound = place_of(first, "member")
    return InvalidInput(field, "malformed", bound, "correct this member and send it again; the others were answered")


def place_of(error: Any, whole: str) -> tuple[str, str]:
    """Which field an error of validation is about, and what it should be; ``whole`` names the object itself.

    The name of an unknown field is the caller's text, and is not repeated.
    """
    where = error["loc"][:-1] if error["type"] == "extra_forbidden" else error["loc"]
    return ".".join(str(part) for part in where) or whole, str(error["msg"])

# SPDX-License-Identifier: Apache-2.0
"""What a user sends is typed from the body of the request to the release: no branch and no text of it type-checks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from planted_leaks import refused_and_planted
from pydantic import BaseModel

from reticent.service.http import schemas
from reticent_wire.boundary import Clipped, Raw, clip_each
from reticent_wire.errors import InvalidInput

TOKEN = {"token": "a"}
TRAJECTORY = {**TOKEN, "states": [0, 7125, 0], "actions": [0, 1], "rewards": [7125.5, None]}
EPISODE = {"episode": "0" * 32}
BODIES: list[tuple[type[BaseModel], dict[str, Any], set[str]]] = [
    (schemas.Act, {**TOKEN, "step": 0, "state": 7125}, {"state"}),
    (schemas.Trajectory, TRAJECTORY, {"states", "actions", "rewards"}),
    (schemas.TrajectoryOf, {**TRAJECTORY, **EPISODE}, {"states", "actions", "rewards"}),
]


@pytest.mark.verify
@pytest.mark.guard
def test_mypy_refuses_every_planted_leak_of_the_service_and_nothing_else() -> None:
    """In the project's own cache, which ``make lint`` has filled: without it this takes a minute."""
    planted = Path(__file__).with_name("planted_service_type_leaks.py")
    found, wanted, told = refused_and_planted(planted, Path(__file__).parents[2] / ".mypy_cache")
    assert len(wanted) >= 25
    assert found == wanted, told


@pytest.mark.parametrize(("schema", "body", "of_user"), BODIES)
def test_every_value_of_a_user_in_a_body_is_raw_and_not_shown(
    schema: type[BaseModel], body: dict[str, Any], of_user: set[str]
) -> None:
    for read in (schema.model_validate_json(json.dumps(body)), schema.model_validate(body)):
        assert {name for name, value in read if isinstance(value, Raw)} == of_user
        assert "7125" not in f"{read!r} {read}"
        with pytest.raises(TypeError):
            bool(getattr(read, next(iter(of_user))))


def test_the_documented_form_of_a_users_values_is_the_content_and_not_the_wrapper() -> None:
    described = schemas.Trajectory.model_json_schema()["properties"]
    assert described["rewards"]["items"] == {"type": ["number", "null"]}
    assert described["states"]["minItems"] == 2
    assert schemas.Act.model_json_schema()["properties"]["state"]["type"] == ["number", "null"]


def test_a_group_is_clipped_at_once_and_a_wrong_form_is_its_own_problem() -> None:
    def into(values: list[int]) -> list[int | InvalidInput]:
        wrong = InvalidInput("form", "wrong", "right", "correct it")
        return [wrong if value < 0 else min(value, 5) for value in values]

    first, second, third = clip_each([Raw(9), Raw(-1), Raw(2)], into)
    assert isinstance(second, InvalidInput)
    assert isinstance(first, Clipped)
    assert isinstance(third, Clipped)
    assert Clipped.all_of([first, third]).within(sum).release(lambda total: total + 1).value == 8

# SPDX-License-Identifier: Apache-2.0
"""What a device remembers of its user between visits: whole visits alone, and nothing of it leaves."""

from __future__ import annotations

from pathlib import Path

import pytest
from make_vectors import example_model
from scripted_service import admitting, serving

from reticent_client import BeliefMemory, Budget, Client


@pytest.mark.parametrize("form", ["kinds", "kinds-planned", "factors"])
def test_a_visit_that_is_left_early_is_not_remembered(tmp_path: Path, form: str) -> None:
    """Its empty submission shows nothing of it, and neither does the next visit."""
    memory, model = BeliefMemory(tmp_path / "belief.json"), example_model(form)
    with (
        serving(admitting(model)) as (url, sent),
        Client(url, "key", trust="local", budget=Budget.in_memory(reports=3), memory=memory) as client,
    ):
        for steps in (1, model.horizon, 2):
            before = memory.show()
            episode = client.episode("ann").open()
            for step in range(steps):
                episode.act(step)
                episode.observe(1.0, step + 1)
            if steps == model.horizon:
                episode.submit()
                assert memory.show() != before
            else:
                episode.submit_empty()
                assert memory.show() == before
        assert [one.kind for one in sent].count("report") == 3


@pytest.mark.parametrize("form", ["kinds", "kinds-planned", "factors"])
@pytest.mark.parametrize("whose", ["ann", None])
def test_what_a_user_erases_in_the_middle_of_a_visit_does_not_come_back(
    tmp_path: Path, form: str, whose: str | None
) -> None:
    """Neither earlier visits nor the one they are in, in this process or another; the next begins as the first did."""
    path, model = tmp_path / "belief.json", example_model(form)
    memory = BeliefMemory(path)
    with (
        serving(admitting(model)) as (url, _),
        Client(url, "key", trust="local", budget=Budget.in_memory(reports=5), memory=memory) as client,
    ):

        def visit(erased: bool) -> list[float]:
            with client.episode("ann") as episode:
                assert episode.belief is not None
                before = episode.belief.tolist()
                for step in range(model.horizon):
                    episode.act(step)
                    episode.observe(1.0, step + 1)
                if erased:
                    BeliefMemory(path).erase(whose)
            return before

        new = visit(erased=True)
        assert memory.show() == {}
        assert visit(erased=False) == new
        assert list(memory.show()) == ["ann"]
        assert visit(erased=True) != new
        assert memory.show() == {}
        assert visit(erased=False) == new

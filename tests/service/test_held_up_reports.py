# SPDX-License-Identifier: Apache-2.0
"""No user's report or silence holds up another's, on the way to the service or in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from held_up import gathered, limited, micro_batched


@pytest.mark.parametrize("reports", [True, False])
def test_in_which_round_a_gathered_report_counts_does_not_depend_on_another_users(database: str, reports: bool) -> None:
    """The round ends before the tick, whoever else reports: what was sent counts in the next one."""
    first, second = gathered(database, reports)
    assert not any(first)
    assert any(second)


@pytest.mark.parametrize("together", [False, True])
def test_how_long_a_report_waits_in_the_service_does_not_depend_on_another_users(
    tmp_path: Path, together: bool
) -> None:
    stories = []
    for name, reports in (("with", True), ("without", False)):
        (tmp_path / name).mkdir()
        stories.append(micro_batched(tmp_path / name, reports, together=together))
    assert stories[0] == stories[1]
    assert [len(waits) for waits in stories[0]] == ([1, 2] if together else [0, 0])
    assert all(0 < wait <= 0.01 for waits in stories[0] for wait in waits)


@pytest.mark.parametrize(("local", "group"), [(False, False), (False, True), (True, False), (True, True)])
def test_what_a_user_asks_for_turns_no_other_user_away(tmp_path: Path, database: str, local: bool, group: bool) -> None:
    """The users of an app share its key, and so the limit of its requests."""
    assert limited(tmp_path, reports=True, local=local, group=group, database=database) == [200, 200]

# SPDX-License-Identifier: Apache-2.0
"""The program that runs README.md notices what is not as the page says; the page itself is run by ``make readme``."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from run_readme import ROOT, Command, Failed, Terminal, check_replay, check_users, commands, stated_figures

PAGE = (ROOT / "README.md").read_text(encoding="utf-8")
REPLAY = """
 acting                             how                    value        ±   last tenth
 ─────────────────────────────────────────────────────────────────────────────────────
 best fixed action: nudge                                 1.4645   0.0500            –
 the plan of the candidates alone                         0.6991   0.0335            –
 deployed                           real noise            {deployed}   0.0460       1.9932
 private, from scratch (tabular)    dp-ucbvi, simulated   1.2530   0.0524       1.4595
"""
USERS = """
 users               served   counted   abandoned   refused
 ──────────────────────────────────────────────────────────
                      {served}     {counted}           0         0

plan      worth 0.973 at first, {last} at last, if no user explored
return    1.110 in the first tenth, 1.790 in the last (best possible 1.843, at random 0.828)
"""
ASKED = "reticent users --model model.npz --users 1000    # plan worth 0.973 at first, 1.492 at last"


def test_the_page_has_a_command_in_its_first_eighty_words() -> None:
    assert len(PAGE[: PAGE.index("```sh")].split()) <= 80
    first = commands(PAGE)[0]
    assert (first.text, first.terminal) == ("python3 -m venv .venv", 0)


def test_the_walk_is_whole_and_its_users_come_in_another_terminal() -> None:
    told = commands(PAGE)
    named = [
        re.sub(r"^reticent (\w+).*", r"\1", command.text) for command in told if command.text.startswith("reticent ")
    ]
    assert named == ["quickstart", "fit", "rehearse", "replay", "serve", "users"]
    serve, users = (next(one for one in told if one.text.startswith(f"reticent {name}")) for name in ("serve", "users"))
    assert serve.keeps_running
    assert not users.keeps_running
    assert users.terminal == serve.terminal + 1
    assert {"deployed", "best fixed action", "the plan of the candidates alone"} <= set(stated_figures(PAGE))


def test_the_replay_is_held_against_the_page() -> None:
    stated = stated_figures(PAGE)
    check_replay(REPLAY.format(deployed="1.7958"), stated)
    with pytest.raises(Failed, match="deployed: the page says"):
        check_replay(REPLAY.format(deployed="1.5000"), stated)
    with pytest.raises(Failed, match="not clearly above best fixed action"):
        check_replay(REPLAY.format(deployed="1.5000"), stated | {"deployed": stated["best fixed action"]})
    with pytest.raises(Failed, match="no row 'deployed'"):
        check_replay("", {"deployed": stated["deployed"]})


@pytest.mark.parametrize(
    ("served", "counted", "last", "problem"),
    [
        ("0", "0", "1.492", "0 users were served"),
        ("900", "900", "1.492", "900 users were served and 900 counted, of 1000"),
        ("1,000", "0", "1.492", "1000 users were served and 0 counted"),
        ("1,000", "1,000", "0.973", "nothing was learned"),
        ("1,000", "1,000", "1.100", "the page says 0.973 and 1.492"),
    ],
)
def test_users_who_were_not_served_are_noticed(served: str, counted: str, last: str, problem: str) -> None:
    check_users(ASKED, USERS.format(served="1,000", counted="1,000", last="1.480"))
    with pytest.raises(Failed, match=problem):
        check_users(ASKED, USERS.format(served=served, counted=counted, last=last))


def test_a_terminal_remembers_and_a_failure_or_a_limit_is_noticed(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, tmp_path, time.monotonic() + 20)
    (tmp_path / "below").mkdir()
    for text in ("export ANSWER=42", "cd below"):
        terminal.run(Command(text, "sh", 0))
    assert terminal.run(Command('echo "$ANSWER $PWD"', "sh", 0)) == f"42 {tmp_path}/below\n"
    with pytest.raises(Failed, match="exit code 3: exit 3"):
        terminal.run(Command("exit 3", "sh", 0))
    with pytest.raises(Failed, match="longer than its limit"):
        Terminal(tmp_path, tmp_path, time.monotonic() + 0.2).run(Command("sleep 60", "sh", 0))
    with pytest.raises(Failed, match="it did not start"), terminal.keep(Command("exit 1  # until Ctrl-C", "sh", 0)):
        pass

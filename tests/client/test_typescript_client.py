# SPDX-License-Identifier: Apache-2.0
"""The TypeScript client against the real service, in Node and in Chromium: Python's numbers, and no second report."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import headless_browser
import numpy as np
import pytest
import typescript_client
from running_service import APP_KEY, SHUFFLER_KEY, running_service
from scipy.stats import chi2

from reticent_client import Client
from reticent_wire import Trajectory
from reticent_wire.arrays import from_json

pytestmark = pytest.mark.skipif(
    typescript_client.why_not() is not None,
    reason=f"THE TYPESCRIPT CLIENT IS NOT TESTED: {typescript_client.why_not()}",
)
in_chromium = pytest.mark.skipif(
    headless_browser.why_not() is not None,
    reason=f"THE TYPESCRIPT CLIENT IS NOT TESTED IN A BROWSER: {headless_browser.why_not()}",
)

WORLD = "random-blend:states=4,actions=2,horizon=3,d=2"
ROUNDS = "first=4,growth=1"
AGENTS = {
    "regressions": f"private-linopt-vi:epsilon=2,trust=local,{ROUNDS}",
    "regressions-po": f"private-linopt-po:epsilon=2,trust=local,{ROUNDS}",
    "counts": f"private-ucb-vi:epsilon=2,trust=local,{ROUNDS}",
    "score": "private-score-vi:epsilon=20,trust=local,first=0.4,growth=1",
    "kinds": "private-kinds:epsilon=20,trust=local,first=0.4,growth=1",
    "kinds-planned": "private-kinds:epsilon=20,trust=local,first=0.4,growth=1,plan=point-based,points=4",
}
USERS = 10


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    typescript_client.build()


def people(count: int, prefix: str = "user", **given: Any) -> list[dict[str, Any]]:
    """Users with random days; some of what happens to them is out of range."""
    made = []
    for number in range(count):
        draw = np.random.default_rng(number)
        states, rewards = draw.integers(0, 4, 4).tolist(), draw.random(3).tolist()
        made.append({"name": f"{prefix} {number}", "states": states, "rewards": rewards, "leaves": None, **given})
    return made


@pytest.mark.verify
@pytest.mark.parametrize(
    "form",
    [
        "regressions",
        "regressions-po",
        "counts",
        "score",
        "kinds",
        "kinds-planned",
    ],
)
def test_reports_are_python_s_numbers_plus_noise_of_the_published_scale(tmp_path: Path, form: str) -> None:
    """Steps bit for bit; what was sent less the steps is noise (chi-square, false alarm 1e-6 for each form)."""
    with (
        running_service(tmp_path, world=WORLD, agent=AGENTS[form], episodes=USERS + 2, rate_limit=0) as url,
        Client(url, APP_KEY) as python,
    ):
        users, epsilon = people(USERS), python.status()["epsilon"]
        options = {"trust": "local", "epsilon": epsilon}
        job = {"url": url, "key": APP_KEY, "store": str(tmp_path / "budget"), "options": options}
        visits = typescript_client.visit(**job, users=users)
        assert {visit["status"] for visit in visits} == {"counted"}
        assert visits[-1]["version"] > visits[0]["version"]
        assert python.status()["admitted"] == USERS
        rules = python.model.rules
        assert rules.form.name == form.removesuffix("-po")
        scale, noise = rules.noise_scale / rules.grid, []
        for user, visit in zip(users, visits, strict=True):
            content = visit["submission"]["content"]
            seen = Trajectory(
                np.array(user["states"]), np.array(visit["actions"]), np.array(user["rewards"]), visit["place"]
            )
            steps = python.model.steps(python.billboard(content["reference"]), seen)
            assert [int(step) for step in visit["steps"]] == steps.ravel().tolist()
            report = from_json("report", content["report"], dtype="<i8", shape=scale.shape)
            assert (report == steps)[scale == 0].all()
            noise.append(((report - steps)[scale > 0] / scale[scale > 0]).ravel())
        units = np.concatenate(noise)
        assert chi2.isf(1 - 5e-7, units.size) < float(units @ units) < chi2.isf(5e-7, units.size)
        # Users of Python's client come after them, into the same rounds.
        with python.episode("another") as episode:
            for _ in range(episode.horizon):
                episode.act(0)
                episode.observe(0.5, 0)
        assert episode.status == "counted"
        refused = typescript_client.visit(**{**job, "options": {"epsilon": epsilon}}, users=users[:1])
        assert [refused[0][name] for name in ("status", "reason")] == ["served", "user-already-counted"]


@pytest.mark.verify
def test_actions_are_those_of_the_published_policy(tmp_path: Path) -> None:
    """Explorers and the others, by their places, as Python's client reads the same billboards."""
    with (
        running_service(tmp_path, world=WORLD, agent=AGENTS["score"], episodes=USERS, rate_limit=0) as url,
        Client(url, APP_KEY) as python,
    ):
        job = {"url": url, "key": APP_KEY, "store": str(tmp_path / "budget"), "options": {}}
        users = people(USERS)
        visits = typescript_client.visit(**job, users=users)
        compared = 0
        for user, visit in zip(users, visits, strict=True):
            board = python.billboard(visit["version"])
            explores = visit["place"] < int(board.report["explorers"])
            if explores and bool(board.report["at_random"]):
                continue
            here = enumerate(user["states"][:-1])
            assert visit["actions"] == [board.choose(step, state, visit["place"]) for step, state in here]
            compared += 1
        assert compared > 0


@pytest.mark.verify
@pytest.mark.parametrize("form", ["kinds", "kinds-planned"])
def test_actions_follow_python_s_belief(tmp_path: Path, form: str) -> None:
    """The device in Node acts, step by step, as Python's belief does on the same billboards and observations."""
    with (
        running_service(tmp_path, world=WORLD, agent=AGENTS[form], episodes=USERS, rate_limit=0) as url,
        Client(url, APP_KEY) as python,
    ):
        job = {"url": url, "key": APP_KEY, "store": str(tmp_path / "budget"), "options": {}}
        users = people(USERS)
        for user, visit in zip(users, typescript_client.visit(**job, users=users), strict=True):
            known = python.belief(python.billboard(visit["version"]))
            for step, (state, reward) in enumerate(zip(user["states"], user["rewards"], strict=False)):
                assert visit["actions"][step] == known.act(step, state)
                known.observe(state, visit["actions"][step], reward, user["states"][step + 1])


def test_a_restored_service_gets_no_second_report(tmp_path: Path) -> None:
    """The store is lost, and the service starts afresh at the same address as the app knows it: the device remembers."""
    job = {"key": APP_KEY, "store": str(tmp_path / "budget"), "options": {"scope": "the study", "trust": "local"}}
    visits = []
    for life in ("before", "after"):
        (tmp_path / life).mkdir()
        with running_service(tmp_path / life, world=WORLD, agent=AGENTS["counts"], episodes=USERS, rate_limit=0) as url:
            visits.append(typescript_client.visit(url=url, **job, users=people(2)))
            if life == "after":  # the service did admit them
                with Client(url, APP_KEY) as python:
                    assert python.status()["admitted"] == 2
    assert [visit["status"] for visit in visits[0]] == ["counted"] * 2
    assert [(visit["status"], visit["reason"]) for visit in visits[1]] == [("served", "device-budget-spent")] * 2
    assert not any("/report" in route for visit in visits[1] for route in visit["routes"])


def test_leaving_looks_like_staying(tmp_path: Path) -> None:
    with running_service(tmp_path, world=WORLD, agent=AGENTS["score"], episodes=USERS, rate_limit=0) as url:
        job = {"url": url, "key": APP_KEY, "store": str(tmp_path / "budget"), "options": {}}
        warm, stayed, left = typescript_client.visit(**job, users=[*people(2), *people(1, prefix="left", leaves=1)])
        assert [one["status"] for one in (warm, stayed, left)] == ["counted", "counted", "empty"]
        assert stayed["routes"] == left["routes"]
        sizes = [len(json.dumps(one["submission"]["content"]["report"])) for one in (stayed, left)]
        assert sizes[0] == sizes[1]


@pytest.mark.parametrize("act", ["device", "server"])
def test_the_joint_model_sends_the_trajectory(tmp_path: Path, act: str) -> None:
    agent = f"private-linopt-vi:epsilon=2,{ROUNDS}"
    with running_service(tmp_path, world=WORLD, agent=agent, episodes=USERS, rate_limit=0) as url:
        job = {"url": url, "key": APP_KEY, "store": str(tmp_path / "budget"), "options": {"act": act}}
        # Clipped on the device. A service that acts refuses states that do not exist: the device does not know how many do.
        odd = {"states": [-3, 99 if act == "device" else 3, 1, 2], "rewards": [-1, 1, 7.5]}
        visits = typescript_client.visit(**job, users=[*people(2), *people(1, prefix="odd", **odd)])
        assert [visit["status"] for visit in visits] == ["counted"] * 3
        assert visits[0]["submission"]["kind"] == "trajectory"
        assert any("/actions" in route for route in visits[0]["routes"]) == (act == "server")
        assert visits[2]["submission"]["content"]["rewards"] == [0, 1, 1]


@pytest.mark.verify
def test_the_shuffle_model_hands_messages_to_the_shuffler(tmp_path: Path) -> None:
    agent = "private-score-vi:epsilon=20,trust=shuffle,first=0.4,growth=1"
    with running_service(tmp_path, world=WORLD, agent=agent, episodes=12, rate_limit=0) as url:
        job = {"url": url, "key": APP_KEY, "store": str(tmp_path / "budget"), "options": {}, "shuffler": SHUFFLER_KEY}
        visits = typescript_client.visit(**job, users=people(8))
        assert {visit["status"] for visit in visits} == {"sent"}
        assert not any("/report" in route for visit in visits for route in visit["routes"])
        with Client(url, APP_KEY, act="server") as python:
            assert python.status()["served_version"] == 2


# -- in a browser -----------------------------------------------------------------------------------------------------

DEMO = {
    "world": "mobile-health", "agent": "private-score-vi:epsilon=1,trust=local", "episodes": 10_000, "rate_limit": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_service(tmp_path_factory.mktemp("demo"), **DEMO) as url:
        yield url


def spend_a_day(page: Any, steps: int = 6) -> None:
    """Open the page's day and answer so many of its six questions; after fewer, leave."""
    page.click("#begin")
    for step in range(steps):
        page.wait_for_selector(f"#clock li.past:nth-child({step + 1})")
        page.check(f"input[name=activity][value='{(step + 2) % 4}']")
        page.check(f"input[name=burden][value='{step % 3}']")
        page.click("#next")
    if steps < 6:
        page.wait_for_selector(f"#clock li.past:nth-child({steps + 1})")
        page.click("#leave")
    page.wait_for_selector("#result:not([hidden])")


@in_chromium
@pytest.mark.verify
def test_a_visitor_of_the_example_takes_part_once(service: str, tmp_path: Path) -> None:
    """Her report is in range and nothing else of her day leaves; a fresh service at the same address gets no second one."""
    with headless_browser.browser(viewport={"width": 900, "height": 1000}) as context:
        page = context.new_page()
        sent: list[Any] = []
        errors: list[str] = []
        page.on("request", lambda request: sent.append(request) if request.method == "POST" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
        with example_page(service) as address:
            page.goto(address)
            page.wait_for_selector("#begin:visible")
            if pictures := os.environ.get("RETICENT_PICTURES"):
                page.screenshot(path=f"{pictures}/visit-start.png")
            spend_a_day(page)
            if pictures:
                page.screenshot(path=f"{pictures}/visit-end.png", full_page=True)
            assert page.get_attribute("#result", "data-status") == "counted"
            opened, reported = (json.loads(request.post_data) for request in sent)
            assert opened.keys() == {"user", "episode"}
            assert reported.keys() == {"token", "report", "reference"}
            with Client(service, APP_KEY, trust="local", epsilon=1.0) as python:
                scale = python.model.rules.noise_scale / python.model.rules.grid
                report = from_json("report", reported["report"], dtype="<i8", shape=scale.shape)
                # Contributions are at most 1 long, and noise beyond 7σ has probability 3e-12 a number.
                assert (np.abs(report) < 7 * scale + 2 / python.model.rules.grid).all()
            assert errors == []
            # She comes again: the service knows her.
            page.goto(address)
            page.wait_for_selector("#begin:visible")
            spend_a_day(page)
            assert page.get_attribute("#result", "data-status") == "served"
        with (
            running_service(tmp_path, **DEMO) as fresh,
            example_page(fresh, port=int(address.rsplit(":", 1)[1])),
        ):
            sent.clear()
            page.goto(address)
            page.wait_for_selector("#begin:visible")
            spend_a_day(page)
            assert page.get_attribute("#result", "data-status") == "served"
            assert "sends no second one" in page.inner_text("#explanation")
            assert [request.url.rsplit("/", 1)[1] for request in sent] == ["episodes"]


@in_chromium
@pytest.mark.verify
def test_a_visitor_who_leaves_sends_noise_alone(service: str) -> None:
    with headless_browser.browser() as context, example_page(service) as address:
        page = context.new_page()
        page.goto(address)
        page.wait_for_selector("#begin:visible")
        spend_a_day(page, steps=2)
        assert page.get_attribute("#result", "data-status") == "empty"


@in_chromium
@pytest.mark.verify
def test_a_page_refuses_a_service_with_too_little_noise(tmp_path: Path) -> None:
    loud = {**DEMO, "agent": "private-score-vi:epsilon=2,trust=local"}
    with (
        running_service(tmp_path, **loud) as url,
        headless_browser.browser() as context,
        example_page(url) as address,
    ):
        page = context.new_page()
        page.goto(address)
        page.wait_for_selector("#promise[data-failed=InvalidInput]")
        assert "asks for less noise" in page.inner_text("#promise")
        assert not page.is_visible("#begin")


@in_chromium
@pytest.mark.verify
def test_in_the_browser_noise_has_its_law_and_two_pages_make_one_claim(service: str) -> None:
    with headless_browser.browser() as context, example_page(service) as address:
        one, other = context.new_page(), context.new_page()
        for page in (one, other):
            page.goto(address)
        drawn = one.evaluate(
            """async () => {
              const { draw } = await import("/client/discrete_gaussian.js");
              const { data } = draw({ shape: [20000], data: new Float64Array(20000).fill(2 ** 30) }, 1);
              return Array.from(data, Number);
            }"""
        )
        units = np.array(drawn) / 2**30
        # Sum of squares: chi-square, false alarm 1e-6; any two of 20 000 agree with probability 0.05, any ten hardly ever.
        assert chi2.isf(1 - 5e-7, units.size) < float(units @ units) < chi2.isf(5e-7, units.size)
        assert len(set(drawn)) > len(drawn) - 10
        # Both pages claim the same sixty places at the same moments; they must agree on who got each.
        claim = """async ([mine, start]) => {
          const { BrowserStore } = await import("/client/index.js");
          const store = new BrowserStore();
          window.claims = (async () => {
            const got = [];
            for (let place = 0; place < 60; place++) {
              await new Promise((go) => setTimeout(go, start + 15 * place - Date.now()));
              got.push(await store.claim(`race ${start} ${place}`, `${mine}`));
            }
            return got;
          })();
        }"""
        start = one.evaluate("Date.now()") + 1500
        for name, page in (("one", one), ("other", other)):
            page.evaluate(claim, [name, start])
        got = [page.evaluate("window.claims") for page in (one, other)]
        assert got[0] == got[1]


def example_page(service: str, port: int = 0) -> Any:
    return typescript_client.example_page(service, APP_KEY, port)

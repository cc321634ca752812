# SPDX-License-Identifier: Apache-2.0
"""The dashboard in a real browser, against the real service: right, live, quiet, and usable by everybody."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import httpx
import numpy as np
import pytest
from serving import ADMIN, APP, KEYS, settings
from watching import browser, come, running, watch, why_not

from reticent.worlds.registry import make_world
from reticent.worlds.zoo.mobile_health import MESSAGES, state_name
from reticent_wire import arrays

pytestmark = pytest.mark.skipif(why_not() is not None, reason=f"THE DASHBOARD IS NOT TESTED: {why_not()}")

SHOWN = "document.querySelector('#value-chart .dot') !== null && !document.getElementById('numbers').hidden"


@pytest.fixture(scope="module")
def window() -> Iterator:
    with browser() as opened:
        yield opened


def deployed(directory: Path, world: str, users: int, **given: object) -> Iterator[SimpleNamespace]:
    """A service with some users, and a way to send more."""
    with running(settings(directory, world=world, **given)) as url:
        client, model, names = httpx.Client(base_url=url, timeout=60), make_world(world).model, itertools.count()

        def send(number: int) -> None:
            start = next(names)
            come(client, range(start, start + number), model)
            for _ in range(number - 1):
                next(names)

        send(users)
        yield SimpleNamespace(url=url, client=client, model=model, send=send)
        client.close()


@pytest.fixture(scope="module")
def health(tmp_path_factory, window) -> Iterator[SimpleNamespace]:
    """Greedy choices, 16 states, 300 users of whom 100 have come, a quarter of them controls."""
    given = {"agent": "private-linopt-vi:epsilon=10", "episodes": 300, "control": {"share": 0.25}}
    yield from deployed(tmp_path_factory.mktemp("health"), "mobile-health", 100, **given)


@pytest.fixture(scope="module")
def blend(tmp_path_factory, window) -> Iterator[SimpleNamespace]:
    """Random choices, more states than a page shows, a tree whose budget is spent bit by bit, and keys needed to read."""
    agent = "private-linopt-po:epsilon=2,counter=tree"
    world = "random-blend:states=45,actions=3,horizon=3,d=2"
    directory = tmp_path_factory.mktemp("blend")
    yield from deployed(directory, world, 3, agent=agent, episodes=8, public_reads=False)


def status_of(service: SimpleNamespace) -> dict:
    return service.client.get("/v1/status", headers=APP).json()


def policy_of(service: SimpleNamespace) -> np.ndarray:
    board = service.client.get("/v1/billboard", headers=APP).json()["policy"]
    return arrays.from_json("policy", board, dtype=board["dtype"], shape=tuple(board["shape"]))


def cells(watched) -> list[list[str]]:
    return watched.page.eval_on_selector_all(
        "#map tbody tr", "rows => rows.map(row => [...row.querySelectorAll('td')].map(cell => cell.textContent))"
    )


# -- right -----------------------------------------------------------------------------------------------------------------


def test_the_page_shows_the_published_numbers(window, health):
    with watch(window, health.url) as page:
        page.until(SHOWN)
        status = status_of(health)
        diagnostics = health.client.get("/v1/diagnostics").json()
        assert page.text("#budget-spent") == "ε 10"
        assert page.text("#budget-promised") == "of 10 promised · δ 0.00001"
        assert page.text("#users-admitted") == str(status["admitted"])
        assert page.text("#users-planned") == "of 300 planned"
        assert page.text("#version-served") == f"v{status['served_version']}" == "v2"
        assert page.text("#version-note").startswith(
            f"Next after {status['round_ends'][2] - status['admitted']} more users"
        )
        assert page.text("#control") == "25 % of every round’s places are controls: they are served v0 for ever."
        assert "one release only" in page.text("#budget-note")
        assert "more than 22,000 times" in page.text("#promise-plain")
        assert "1 in 100,000" in page.text("#promise-plain")
        assert page.text("#value-figure strong") == f"{diagnostics['value']['estimate']:.3g}"
        together = min(diagnostics["signal"]["transition_together"], diagnostics["signal"]["reward_together"])
        assert page.text("#signal-figure strong") == f"{together:.3g}×"
        bars = page.page.eval_on_selector_all("#signal-chart rect", "all => all.length")
        assert bars == 2 * health.model.horizon - 1  # nothing follows the last step
        rows = page.page.eval_on_selector_all("#ledger tbody tr", "all => all.map(row => row.innerText.split('\\t'))")
        ledger = health.client.get("/v1/ledger").json()["entries"]
        assert [row[:3] for row in rows] == [
            [str(e["round"]), str(e["episode"]), f"{e['epsilon']:.3g}"] for e in ledger
        ]
        assert [row[3] for row in rows] == [(e["digest"] or "planned")[:8] for e in ledger]
        assert page.page.eval_on_selector_all("#releases-chart .made", "all => all.length") == status["version"]
        assert page.page.is_hidden("#banner")


def test_the_heat_map_is_the_billboard(window, health):
    with watch(window, health.url) as page:
        page.until(SHOWN)
        # Short names of actions stand in the cells themselves, and what states are called before them.
        assert (np.array(cells(page)) == np.array(MESSAGES)[policy_of(health).T]).all()
        named = page.page.eval_on_selector_all("#map tbody th", "all => all.map(cell => cell.textContent)")
        assert named == [state_name(state) for state in range(16)]
        legend = page.page.inner_text("#map-legend")
        assert all(f"{name}: " in legend for name in MESSAGES)
        assert not re.search(r"\b(state|action) \d", page.page.inner_text("main"))
        colours = page.page.eval_on_selector_all(
            "#map tbody td", "all => all.map(cell => [cell.textContent, getComputedStyle(cell).backgroundColor])"
        )
        assert len({tuple(pair) for pair in colours}) == len({action for action, _ in colours})
        assert page.page.is_hidden("#map-pages")


# -- live ------------------------------------------------------------------------------------------------------------------


def test_a_release_shows_without_reloading(window, health):
    with watch(window, health.url) as page:
        page.until(SHOWN)
        page.page.evaluate("window.neverReloaded = true")
        before = status_of(health)
        health.send(before["round_ends"][before["version"]] - before["admitted"] + 1)
        after = status_of(health)
        assert after["served_version"] == before["served_version"] + 1
        page.until(f"document.getElementById('version-served').textContent === 'v{after['served_version']}'")
        page.until(f"document.getElementById('users-admitted').textContent === '{after['admitted']}'")
        page.until(f"document.getElementById('announce').textContent.includes('version {after['served_version']}')")
        page.until(
            f"document.getElementById('map-caption').textContent.startsWith('Version {after['served_version']}:')"
        )
        assert (np.array(cells(page)) == np.array(MESSAGES)[policy_of(health).T]).all()
        digest = health.client.get("/v1/ledger").json()["entries"][after["version"] - 1]["digest"]
        page.until(f"document.getElementById('ledger').textContent.includes('{digest[:8]}')")
        page.until("document.getElementById('users-note').textContent.includes('a minute')")
        assert page.page.evaluate("window.neverReloaded") is True
        assert page.text("#connection") == "Live"
        assert page.errors == []


def test_the_page_says_when_the_service_is_gone_and_comes_back(window, health):
    with watch(window, health.url) as page:
        page.until(SHOWN)
        page.page.route("**/v1/events", lambda route: route.abort())
        page.page.reload()
        page.until("document.getElementById('connection').dataset.state === 'lost'")
        page.page.unroute("**/v1/events")
        page.until("document.getElementById('connection').dataset.state === 'live'")


# -- quiet -----------------------------------------------------------------------------------------------------------------


def test_nothing_leaves_the_origin_and_nothing_is_wrong(window, health):
    with watch(window, health.url) as page:
        page.until(SHOWN)
        page.until("document.querySelectorAll('#value-chart .dot').length > 2")
        assert page.errors == []
        assert page.strangers() == []
        assert len(page.asked) < 16
        sizes = page.page.evaluate("performance.getEntriesByType('resource').map(one => one.decodedBodySize)")
        assert sum(sizes) < 100_000
        injected = page.page.evaluate(
            "() => { const made = document.createElement('script'); made.textContent = 'window.injected = 1';"
            " document.head.append(made); return window.injected === undefined }"
        )
        assert injected, "an inline script must not run"


# -- usable ----------------------------------------------------------------------------------------------------------------

STICKING_OUT = """() => {
  const wide = document.documentElement.clientWidth;
  const out = [...document.querySelectorAll('body *')].filter(one =>
    !one.closest('.scroll') && !one.closest('.unseen') && one.getBoundingClientRect().right > wide + 0.5);
  return [document.documentElement.scrollWidth, wide, out.map(one => one.id || one.className || one.textContent)];
}"""

CONTRAST = """(selectors) => selectors.map(selector => {
  const light = text => {
    const parts = text.match(/[0-9.]+/g).slice(0, 3).map(n => text.startsWith('color(') ? +n : n / 255)
      .map(n => n <= 0.03928 ? n / 12.92 : ((n + 0.055) / 1.055) ** 2.4);
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const one = document.querySelector(selector);
  let behind = one;
  while (getComputedStyle(behind).backgroundColor === 'rgba(0, 0, 0, 0)') behind = behind.parentElement;
  const [a, b] = [light(getComputedStyle(one).color), light(getComputedStyle(behind).backgroundColor)];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
})"""


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_nothing_sticks_out(window, health, width):
    with watch(window, health.url, width=width) as page:
        page.until(SHOWN)
        scrolled, wide, out = page.page.evaluate(STICKING_OUT)
        assert out == []
        assert scrolled <= wide == width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(window, health, scheme):
    with watch(window, health.url, scheme=scheme) as page:
        page.until(SHOWN)
        kinds = [
            ".lead",
            ".panel .quiet",
            ".figure strong",
            "#deployment",
            "#connection",
            "#ledger td",
            "#map tbody td",
        ]
        seen = page.page.evaluate(CONTRAST, kinds)
        assert min(seen) >= 4.5, seen
        background = page.page.evaluate("getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)")
        assert (sum(background) < 200) == (scheme == "dark")


def test_everything_has_a_name_for_those_who_do_not_see_it(window, health):
    with watch(window, health.url) as page:
        page.until(SHOWN)
        unnamed = page.page.evaluate(
            """() => [
              ...[...document.querySelectorAll('section')].filter(one =>
                !document.getElementById(one.getAttribute('aria-labelledby'))),
              ...[...document.querySelectorAll('svg, [role=region]')].filter(one =>
                !(one.getAttribute('aria-label') || one.getAttribute('aria-labelledby'))),
              ...[...document.querySelectorAll('input')].filter(one => one.labels.length === 0),
              ...[...document.querySelectorAll('img')].filter(one => !one.hasAttribute('alt')),
              ...[...document.querySelectorAll('[role=meter]')].filter(one => !one.getAttribute('aria-valuetext')),
            ].map(one => one.outerHTML.slice(0, 80))"""
        )
        assert unnamed == []
        assert page.page.eval_on_selector_all("h1", "all => all.length") == 1
        assert page.page.get_attribute("#announce", "aria-live") == "polite"


# -- keys, random policies, many states, the end ---------------------------------------------------------------------------


@pytest.mark.verify
def test_a_key_is_asked_for_once_and_kept_in_the_tab(window, blend):
    with watch(window, blend.url) as page:
        page.until("!document.getElementById('key').hidden")
        assert page.page.is_hidden("#numbers")
        page.page.fill("#key-field", "not the key")
        page.page.keyboard.press("Enter")
        page.until("document.getElementById('key-problem').textContent !== ''")
        page.page.fill("#key-field", KEYS["app_key"])
        page.page.keyboard.press("Enter")
        page.until(SHOWN)
        assert page.page.is_hidden("#key")
        page.page.reload()
        page.until(SHOWN)
        assert page.page.evaluate("localStorage.length") == 0
        assert page.page.evaluate("document.cookie") == ""
        assert not any(KEYS["app_key"] in url for url in page.asked)
        assert all("401" in error for error in page.errors), page.errors

        # The budget of a tree is spent bit by bit, and the forecast is the ledger's.
        status = status_of(blend)
        entries = blend.client.get("/v1/ledger", headers=APP).json()["entries"]
        assert 0 < status["epsilon_spent"] < status["epsilon"]
        assert page.text("#budget-spent") == f"ε {status['epsilon_spent']:.3g}"
        final = next(e for e in entries if e["epsilon"] >= entries[-1]["epsilon"] * (1 - 1e-9))
        assert f"by release {final['round']}, after {final['episode']} users" in page.text("#budget-note")

        # Random choices: the likeliest action, paler where it is less likely; by pages.
        policy = policy_of(blend)
        states = []
        for first, last in ((0, 20), (20, 40), (40, 45)):
            assert page.text("#map-where") == f"states {first}–{last - 1} of 45"
            states += cells(page)
            if last < 45:
                page.page.focus("#map-on")
                page.page.keyboard.press("Enter")
        assert page.page.is_disabled("#map-on")
        assert (np.array(states, dtype=int) == policy.argmax(axis=-1).T).all()
        likely = page.page.eval_on_selector_all(
            "#map tbody td", "all => all.map(cell => Number(cell.style.getPropertyValue('--likely')))"
        )
        assert likely == pytest.approx(policy.max(axis=-1).T[40:].ravel(), abs=1e-3)


@pytest.mark.verify
def test_the_end_is_announced(window, blend):
    with watch(window, blend.url) as page:
        page.until("!document.getElementById('key').hidden")
        page.page.fill("#key-field", KEYS["app_key"])
        page.page.keyboard.press("Enter")
        page.until(SHOWN)
        blend.send(5)
        page.until("document.getElementById('banner').textContent.startsWith('All places are taken')")
        assert page.page.is_visible("#banner")
        assert blend.client.post("/v1/admin/finish", json={}, headers=ADMIN).status_code == 200
        page.until("document.getElementById('banner').textContent.startsWith('Finished')")
        page.until("document.getElementById('announce').textContent.startsWith('Finished')")
        assert page.text("#version-note") == "This is the final policy."


@pytest.mark.verify
def test_it_loads_at_once(window, health):
    """A second on an idle machine is the aim (docs/dashboard.md); the bound here leaves room for busy ones."""
    with watch(window, health.url) as page:
        page.until(SHOWN)
        began = time.monotonic()
        page.page.reload()
        page.until(SHOWN)
        assert time.monotonic() - began < 10


@pytest.mark.verify
def test_a_tabular_agent_has_a_page_too(tmp_path, window):
    """What its releases do not say is said to be missing; nothing breaks."""
    agent = "private-ucb-vi:counter=epochs,first=2,growth=1"
    for service in deployed(tmp_path, "riverswim:states=3,horizon=3", 3, agent=agent, episodes=6):
        with watch(window, service.url) as page:
            page.until("document.getElementById('value-figure').textContent.startsWith('This agent publishes no')")
            page.until("document.getElementById('signal-figure').textContent.startsWith('This agent publishes noisy')")
            assert (np.array(cells(page)) == np.array(["left", "right"])[policy_of(service).T]).all()
            assert page.errors == []

# SPDX-License-Identifier: Apache-2.0
"""The interactive page in a real browser: it answers from the curves it carries, by keyboard and on a phone."""

from __future__ import annotations

import json
import os
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import explore_site
import headless_browser
import pytest

ROOT = Path(__file__).parents[1]
DATA = json.loads((ROOT / "docs" / "explore" / "curves.json").read_text())

missing = headless_browser.why_not() or explore_site.why_not()
in_chromium = pytest.mark.skipif(missing is not None, reason=f"THE INTERACTIVE PAGE IS NOT TESTED: {missing}")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    return explore_site.build(tmp_path_factory.mktemp("explore"))


@pytest.fixture(scope="module")
def window() -> Iterator[Any]:
    with headless_browser.browser() as opened:
        yield opened


@pytest.fixture
def page(window: Any, address: str) -> Iterator[Any]:
    """The page, which must neither fail nor ask anybody for anything."""
    opened, errors, asked = window.new_page(), [], []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    opened.on("request", lambda request: asked.append(request.url))
    opened.goto(address)
    yield opened
    opened.close()
    assert errors == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


# -- the data --------------------------------------------------------------------------------------------------------------


def test_every_choice_has_a_curve_and_its_attacker_the_accountant_s_figures() -> None:
    program = runpy.run_path(str(ROOT / "benchmarks" / "explore.py"))
    choices = {f"{trust},{epsilon:g}" for trust in program["TRUSTS"] for epsilon in program["EPSILONS"]}
    assert set(DATA["worlds"]) == set(program["WORLDS"])
    assert set(DATA["attacker"]) == choices
    assert DATA["points"] == program["grid"](DATA["settings"]["users"])
    assert DATA["settings"]["seeds"] >= 16
    for choice in choices:
        trust, epsilon = choice.split(",")
        assert DATA["attacker"][choice] == program["attacker"](trust, float(epsilon))
    for world in DATA["worlds"].values():
        assert set(world["curves"]) == {"none", *choices}
        for curve in world["curves"].values():
            for what in ("regret", "gap"):
                bands = zip(*(curve[what][name] for name in ("low", "median", "high")), strict=True)
                assert all(low <= median <= high for low, median, high in bands)
                assert len(curve[what]["median"]) == len(DATA["points"])


def test_the_page_says_how_many_runs_it_shows_and_when_they_were_made() -> None:
    said = (ROOT / "docs" / "explore.md").read_text(encoding="utf-8")
    assert f"median of {DATA['settings']['seeds']} runs" in " ".join(said.split())
    assert DATA["date"] in said


# -- in a browser ----------------------------------------------------------------------------------------------------------


def text(page: Any, name: str) -> str:
    return str(page.inner_text(f"#explore-{name}"))


@in_chromium
def test_answers_are_the_curves_numbers(page: Any) -> None:
    place = int(page.input_value("#explore-users"))
    assert DATA["points"][place] == pytest.approx(20_000, rel=0.1)
    page.check("input[name=world][value=tutor]")
    page.check("input[name=trust][value=local]")
    page.check("input[name=epsilon][value='3']")
    curve, floor = (DATA["worlds"]["tutor"]["curves"][key] for key in ("local,3", "none"))
    assert float(text(page, "regret").replace(",", "")) == pytest.approx(curve["regret"]["median"][place], rel=0.05)
    assert f"{round(floor['regret']['median'][place])}" in text(page, "regret-note")
    assert float(text(page, "gap").split()[0]) == pytest.approx(100 * curve["gap"]["median"][place], rel=0.1)
    assert text(page, "until") == f"{curve['until']['median']:,.0f}"
    assert float(text(page, "right").split()[2]) == pytest.approx(100 * DATA["attacker"]["local,3"]["right"], abs=0.06)
    assert "He may be the server." in text(page, "right-note")
    page.check("input[name=trust][value=joint]")
    assert "anybody but the server" in text(page, "right-note")
    assert "joint" in page.inner_text("#explore-said")


@in_chromium
def test_a_target_that_is_not_reached_is_said(page: Any) -> None:
    page.check("input[name=trust][value=local]")
    page.check("input[name=epsilon][value='0.3']")
    curve = DATA["worlds"]["mobile-health"]["curves"]["local,0.3"]
    assert curve["until"]["median"] is None or curve["until"]["median"] > 20_000
    assert "Not reached with" in text(page, "until-note")


@in_chromium
def test_it_is_used_by_keyboard(page: Any) -> None:
    page.focus("input[name=trust][value=joint]")
    page.keyboard.press("ArrowDown")
    assert page.is_checked("input[name=trust][value=shuffle]")
    assert "mixer" in text(page, "right-note")
    page.focus("#explore-users")
    before = text(page, "count")
    page.keyboard.press("End")
    assert text(page, "count") == f"about {DATA['settings']['users']:,} users" != before
    assert page.get_attribute("#explore-users", "aria-valuetext") == text(page, "count")
    page.focus("input[name=show][value=regret]")
    page.keyboard.press("ArrowRight")
    assert "gap" in page.inner_html("#explore-chart")
    page.focus("#explore-result summary")
    page.keyboard.press("Enter")
    assert "95 %" in page.inner_text("#explore-table")


@in_chromium
def test_the_picture_names_its_axes_and_moves_with_its_reader(page: Any) -> None:
    labels = page.eval_on_selector_all("#explore-chart text", "all => all.map(one => one.textContent)")
    assert {"users so far", "regret (reward lost so far)", "10,000"} <= set(labels)
    assert "nine in ten" in page.inner_text(".explore-key")
    before = page.get_attribute("#explore-chart circle", "cx")
    page.click("#explore-chart svg")  # in its middle
    assert float(page.get_attribute("#explore-chart circle", "cx")) < float(before)


@pytest.mark.verify
@in_chromium
@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (360, "dark"), (1280, "light"), (1280, "dark")])
def test_nothing_sticks_out_on_a_phone(page: Any, width: int, scheme: str) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)
    page.reload()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    outside = page.eval_on_selector_all(
        "#explore-chart text", f"all => all.filter(one => one.getBoundingClientRect().right > {width}).length"
    )
    assert outside == 0
    if pictures := os.environ.get("RETICENT_PICTURES"):
        page.locator("#explore").screenshot(path=f"{pictures}/explore-{width}-{scheme}.png")

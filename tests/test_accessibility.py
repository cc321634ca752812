# SPDX-License-Identifier: Apache-2.0
"""Dashboard, reports and the interactive page, checked with axe in a real browser: no serious and no critical finding."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import axe
import explore_site
import httpx
import pytest
from serving import settings
from watching import browser, come, running, watch

import reticent
from reticent.experiments.rehearsal import rehearse
from reticent.experiments.rehearsal.deployment import answer, deployment_text
from reticent.reports.plots.rehearsal import draw_rehearsal
from reticent.reports.rehearsal_page import rehearsal_html
from reticent.worlds.registry import make_world

pytestmark = pytest.mark.skipif(axe.why_not() is not None, reason=f"ACCESSIBILITY IS NOT TESTED: {axe.why_not()}")

WORLD = "random-blend:states=3,actions=2,horizon=2,d=2"
WIDTHS, SCHEMES = (360, 1280), ("light", "dark")


@pytest.fixture(scope="module")
def window() -> Iterator[Any]:
    with browser() as opened:
        yield opened


def check(window: Any, address: str, *, open_all: bool = True) -> None:
    """The page at either width, in either scheme; with everything that folds unfolded."""
    page = window.new_page()
    try:
        for width, scheme in itertools.product(WIDTHS, SCHEMES):
            page.set_viewport_size({"width": width, "height": 800})
            page.emulate_media(color_scheme=scheme)
            page.goto(address)
            if open_all:
                page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            assert axe.grave_findings(page) == [], (address, width, scheme)
    finally:
        page.close()


def test_axe_finds_what_is_wrong(window: Any) -> None:
    page = window.new_page()
    page.set_content("<html lang=en><title>x</title><main><img src='data:,'><input></main></html>")
    found = " ".join(axe.grave_findings(page))
    page.close()
    assert "image-alt" in found
    assert "label" in found


@pytest.mark.verify
@pytest.mark.skipif(explore_site.why_not() is not None, reason=f"THE SITE IS NOT TESTED: {explore_site.why_not()}")
def test_the_interactive_page(window: Any, tmp_path: Path) -> None:
    check(window, explore_site.build(tmp_path))


@pytest.mark.verify
def test_a_run_s_report(window: Any, tmp_path: Path) -> None:
    reticent.run(WORLD, ["private-score-vi:epsilon=1"], episodes=60, seeds=2, out=tmp_path, companions=False)
    check(window, (tmp_path / "report.html").as_uri())


@pytest.mark.verify
def test_a_rehearsal_s_page(window: Any, tmp_path: Path) -> None:
    found = rehearse(make_world(WORLD).model, users=60, truths=3, trusts=("joint",), epsilons=(1.0,))
    page = tmp_path / "rehearsal.html"
    deployed = deployment_text(found, world=WORLD)
    page.write_text(rehearsal_html(found, answer(found), deployed, draw_rehearsal(found)), encoding="utf-8")
    check(window, page.as_uri())


@pytest.mark.verify
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_dashboard(window: Any, tmp_path: Path, scheme: str) -> None:
    with running(settings(tmp_path)) as url, httpx.Client(base_url=url, timeout=60) as client:
        come(client, range(5), make_world(settings(tmp_path).world).model)
        for width in WIDTHS:
            with watch(window, url, width=width, scheme=scheme) as watched:
                watched.until("!document.getElementById('numbers').hidden")
                watched.until("document.querySelector('#map tbody td') !== null")
                assert axe.grave_findings(watched.page) == [], width
    with running(settings(tmp_path, public_reads=False)) as url, watch(window, url, scheme=scheme) as watched:
        watched.until("!document.getElementById('key').hidden")
        assert axe.grave_findings(watched.page) == []

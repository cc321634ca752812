# SPDX-License-Identifier: Apache-2.0
"""What an audit proved is what it prints: on the page, in the picture, on the terminal and as JSON."""

from __future__ import annotations

import dataclasses
import functools
import json
import re

import numpy as np
import pytest

from reticent.agents import make_agent
from reticent.audit import Attack, Audit, Bound, Evidence, Scores
from reticent.audit.degenerate_noise import degenerate_noise_evidence
from reticent.cli.audit import print_audit, write
from reticent.privacy.degenerate_noise import DegenerateCount
from reticent.privacy.guarantee import Guarantee
from reticent.reports.audit_page import audit_html
from reticent.reports.plots.audit import audit_figure
from reticent.worlds import make_world


@functools.cache
def guarantee() -> Guarantee:
    model = make_world("random-blend:states=3,actions=2,horizon=2,d1=2,d2=2").model
    return make_agent("private-linopt-vi:epsilon=1", model, 8).promise


def make_audit(*bounds: float) -> Audit:
    """An audit whose attacks proved these lower bounds; the first one is the strongest. All other numbers differ."""
    draw = np.random.default_rng(0)
    attacks = []
    for canary, epsilon in zip(("statistics", "trajectory"), bounds, strict=True):
        proven = {
            "gdp-fit": Bound("gdp-fit", epsilon, 0.0421),
            "gdp-threshold": Bound("gdp-threshold", epsilon / 2, 0.0332),
            "clopper-pearson": Bound("clopper-pearson", epsilon / 4, None),
        }
        scores = Scores(draw.normal(size=200), draw.normal(size=200), 0.268)
        attacks.append(Attack(canary, "made up", scores, Evidence(proven, "gdp-fit", 0.1, (0.4, 0.5), True, 0.05)))
    return Audit("private-linopt-vi", "nowhere", "releases", guarantee(), 8, 5000, 0.999, 3, tuple(attacks))


@pytest.mark.parametrize(
    ("bounds", "verdict"), [((0.123, 0.045), "consistent"), ((1.234, 0.045), "violated"), ((0.0, 0.0), "consistent")]
)
def test_the_bound_is_printed_everywhere_and_beside_the_claim(bounds, verdict, tmp_path, capsys) -> None:
    result = make_audit(*bounds)
    proven = f"{bounds[0]:.3f}"
    page = re.sub(r"\s+", " ", audit_html(result, b"png"))
    assert f"Claimed: ε = 1 at δ = 1e-05. Proven by attack: ε is at least {proven}. Verdict: <b>{verdict}</b>" in page
    rows = re.findall(r"<tr><td>as conspicuous[^<]*</td><td>([\d.]+)</td>", page)
    assert rows == [proven, f"{bounds[1]:.3f}"]
    texts = audit_figure(result).findobj(match=lambda artist: hasattr(artist, "get_text"))
    drawn = " ".join(text.get_text() for text in texts)
    assert f"claimed ε = 1   ·   proven at least {proven}" in drawn
    assert f"measured: ε ≥ {proven}  (gdp-fit)" in drawn
    print_audit(result, None)
    printed = capsys.readouterr().out
    assert re.search(rf"^{verdict}: claimed epsilon 1, proven at least {bounds[0]:.4f} at delta 1e-05", printed)
    assert re.search(rf"statistics +gdp-fit +{bounds[0]:.4f} +{bounds[0] / 2:.4f} +{bounds[0] / 4:.4f}", printed)
    write(result, tmp_path)
    stored = json.loads((tmp_path / "audit.json").read_text())
    assert (stored["lower_bound_epsilon"], stored["claimed_epsilon"], stored["verdict"]) == (bounds[0], 1.0, verdict)
    assert stored["attacks"][1]["lower_bounds"]["gdp-fit"]["epsilon"] == bounds[1]
    assert f'"lower_bound_epsilon": {bounds[0]}' in (tmp_path / "audit.html").read_text().replace("&#34;", '"')


def test_missing_noise_is_printed_everywhere_and_is_a_violation_by_itself(tmp_path, capsys) -> None:
    result = make_audit(0.123, 0.045)
    count = DegenerateCount("no noise on a whole release", 200_000, 391, 1e-9)
    found = degenerate_noise_evidence([count], guarantee())
    result = dataclasses.replace(
        result, attacks=(dataclasses.replace(result.attacks[0], degenerate=found), result.attacks[1])
    )
    assert (result.verdict, result.lower_bound_epsilon) == ("violated", 0.123)
    sentence = "in at least 0.0014 of the runs a release had no noise on a whole release (391 of 200,000)"
    assert sentence in audit_html(result, b"png")
    print_audit(result, None)
    assert f"missing noise: {sentence}" in capsys.readouterr().out
    write(result, tmp_path)
    stored = json.loads((tmp_path / "audit.json").read_text())
    assert stored["missing_noise"][0].startswith(sentence)
    assert stored["attacks"][0]["degenerate_noise"][0]["hits"] == 391

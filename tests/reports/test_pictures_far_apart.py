# SPDX-License-Identifier: Apache-2.0
"""The picture of a run: regrets far apart are all seen, and labels at the ends of lines do not overlap."""

from __future__ import annotations

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.text import Text

import reticent
from reticent.experiments.config import resolve
from reticent.reports.plots.run import _far_apart, _label, _regret_panel
from reticent.reports.plots.style import HEIGHT, WIDTH, label_ends, log_shares


def heights(axes, ends) -> list[tuple[float, float]]:
    """Lower and upper edge of every label on the page, in pixels."""
    label_ends(axes, ends)
    axes.figure.canvas.draw()
    boxes = [Text.get_window_extent(text) for text in axes.texts]  # an annotation's own would have its arrow in it
    return sorted((box.y0, box.y1) for box in boxes)


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_labels_stand_by_their_lines_and_apart(scale: str) -> None:
    figure = plt.figure(figsize=(WIDTH, HEIGHT))
    axes = figure.add_axes((0.1, 0.185, 0.4, 0.59))  # as the left panel of a run
    axes.set_yscale(scale)
    axes.set_ylim(1.0, 1e4)
    ends = [("one\njoint ε = 1", 2.0, "k"), ("two", 2.1, "k"), ("three\nno privacy", 9e3, "k")]
    found = heights(axes, ends)
    for (_, top), (bottom, _) in itertools.pairwise(found):
        assert bottom >= top - 1.0
    # The last label is at the height of its line: near the ceiling on either scale.
    assert axes.transAxes.inverted().transform((0, np.mean(found[-1])))[1] > 0.85
    plt.close(figure)


def test_regrets_that_are_far_apart_get_a_logarithmic_panel() -> None:
    result = reticent.run("riverswim:states=3", ["ucbvi"], episodes=30, seeds=2)
    for factor, expected in ((1.0, "linear"), (1e4, "log")):
        figure, axes = plt.subplots()
        worse = result.runs[0].curves
        worse = type(worse)(**{**vars(worse), "regret": factor * worse.regret})
        runs = (result.runs[0], type(result.runs[0])(result.runs[0].config, result.runs[0].agent, worse))
        shown = type(result)(**{**vars(result), "runs": runs})
        _regret_panel(axes, shown, ())
        assert axes.get_yscale() == expected
        plt.close(figure)
    assert not _far_apart([0.0, 5.0])


def test_a_comparator_has_a_short_name() -> None:
    config, _ = resolve("riverswim:states=3", ["private-linopt-vi"], episodes=20, seeds=1, companions=True)
    assert _label(config.agents[1]) == "ucrl-vtr\nno privacy"
    assert _label(config.agents[0]).startswith("private-linopt-vi\njoint ε = 1")


@pytest.mark.parametrize("low", [0.06, 0.15, 0.3])
def test_ticks_of_a_short_axis_do_not_collide(low: float) -> None:
    figure = plt.figure(figsize=(WIDTH, HEIGHT))
    axes = figure.add_axes((0.6, 0.185, 0.35, 0.59))  # as the right panel of a run
    log_shares(axes, low, 1.5)
    figure.canvas.draw()
    ticks = [label for label in axes.get_yticklabels(which="both") if label.get_text()]
    boxes = [label.get_window_extent() for label in ticks if low <= label.get_position()[1] <= 1.5]
    within = sorted(box.y0 for box in boxes)
    assert len(within) >= 2
    assert min(np.diff(within)) >= boxes[0].height
    plt.close(figure)

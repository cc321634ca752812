# SPDX-License-Identifier: Apache-2.0
"""The picture that needs no plotting library."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

import reticent
from reticent.reports.sketch import BOTTOM, LEFT, RIGHT, TOP, sketch_run


@pytest.mark.verify
def test_every_agent_is_a_line_within_the_panel_and_has_its_name() -> None:
    names = ["ucrl-vtr", "oppo"]
    result = reticent.run("riverswim:states=3,horizon=4", names, episodes=30, seeds=2)
    picture = ElementTree.fromstring(sketch_run(result))
    space = "{http://www.w3.org/2000/svg}"
    lines = picture.findall(f"{space}polyline")
    assert len(lines) == len(names) + 1  # and actions at random
    for line in lines:
        for point in line.attrib["points"].split():
            x, y = map(float, point.split(","))
            assert LEFT <= x <= RIGHT
            assert TOP <= y <= BOTTOM
    written = {text.text for text in picture.findall(f"{space}text")}
    assert {*names, "users (episodes)"} <= written
    # The end of a line is the mean regret of its agent, on the axis whose greatest number is the top one.
    ends = [float(line.attrib["points"].split()[-1].split(",")[1]) for line in lines[1:]]
    means = [row["regret_mean"] for row in result.summary()]
    assert (ends[0] < ends[1]) == (means[0] > means[1])

# SPDX-License-Identifier: Apache-2.0
"""Pictures: one style (``style``), bands that say what they are (``bands``), and a module for each thing that is drawn.

Colours are Okabe and Ito's, which people with any colour vision can tell apart; lines are labelled where they end, so
that no legend has to be matched. Everything that draws needs Matplotlib; ``bands`` and the names here do not.
"""

from reticent.reports.plots.bands import Band, Reference, band, band_words, gaps
from reticent.reports.plots.style import COLOURS, DPI, FAINT, HEIGHT, INK, WIDTH

__all__ = ["COLOURS", "DPI", "FAINT", "HEIGHT", "INK", "WIDTH", "Band", "Reference", "band", "band_words", "gaps"]

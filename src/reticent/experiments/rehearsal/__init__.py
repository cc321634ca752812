# SPDX-License-Identifier: Apache-2.0
"""A rehearsal: what a deployment will be like, answered before the first user, at no cost in privacy."""

from reticent.experiments.rehearsal.outcome import Outcome, Spread
from reticent.experiments.rehearsal.rehearsal import Absent, Rehearsal, rehearse

__all__ = ["Absent", "Outcome", "Rehearsal", "Spread", "rehearse"]

# SPDX-License-Identifier: Apache-2.0
"""Tabular agents by other authors, behind the house's interface. Importing this package registers them."""

from reticent.agents.tabular import (
    dp_ucbvi,
    ldp_obi,
    noisy_q_learning,
    private_ucb,
    psrl,
    pucb,
    q_learning,
    ucbvi,
)

__all__ = ["dp_ucbvi", "ldp_obi", "noisy_q_learning", "private_ucb", "psrl", "pucb", "q_learning", "ucbvi"]

# SPDX-License-Identifier: Apache-2.0
"""How fast this library is on this machine. (``benchmarks/opponents.py`` of the repository sets others beside it.)

Needs JAX, NumPy and SciPy alone, so that ``benchmarks/speed.py`` runs on a bare GPU machine as well.
"""

from measuring.measure import Bench, bench
from measuring.rows import Row
from measuring.work import CONTESTANTS, Contestant, Work, default_work, with_agents

__all__ = ["CONTESTANTS", "Bench", "Contestant", "Row", "Work", "bench", "default_work", "with_agents"]

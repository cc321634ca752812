"""How fast: this library beside a plain NumPy loop of the paper and beside other people's libraries, in one run.

Needs JAX, NumPy and SciPy alone, so that ``python -m reticent.experiments.bench`` runs on a bare GPU machine as well.
"""

from reticent.experiments.bench.measure import Bench, bench
from reticent.experiments.bench.rows import Row
from reticent.experiments.bench.work import CONTESTANTS, Contestant, Work, default_work, with_agents

__all__ = ["CONTESTANTS", "Bench", "Contestant", "Row", "Work", "bench", "default_work", "with_agents"]

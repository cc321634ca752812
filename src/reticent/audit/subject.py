# SPDX-License-Identifier: Apache-2.0
"""Who is audited: an agent, held to the guarantee that it carries."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from reticent.audit.hooks import Neighbours, neighbours_of
from reticent.audit.response import Response, probe
from reticent.errors import InvalidInput
from reticent.learning.learner import AnyLearner
from reticent.privacy.guarantee import Guarantee, guarantee_of
from reticent.privacy.participation import ONCE, worst_norm
from reticent.privacy.sums import PrivateSums, private_sums
from reticent.runtime import double_precision_methods

__all__ = ["Subject"]


@double_precision_methods
@dataclasses.dataclass(frozen=True, eq=False)
class Subject:
    """An agent and what it promises.

    Every check compares what the *agent* does with what its :class:`~reticent.privacy.guarantee.Guarantee` allows. Numbers
    that a calibration derives on the way are never taken from the code that uses them: the strength allowed follows from
    (ε, δ), the counter's response is measured, and noise is compared with the guarantee's table.

    What a pair of neighbours costs is its *strength*: μ under Gaussian noise, and ε where *pure* differential privacy is
    promised by Laplace noise.

    Raises:
      InvalidInput: the agent promises nothing, so that there is nothing to hold it to.
    """

    agent: AnyLearner

    def __post_init__(self) -> None:
        if guarantee_of(self.agent) is None:
            raise InvalidInput(
                "agent", self.agent.name, "one that promises privacy", f"it says: {self.agent.promise.sentence()}"
            )

    @functools.cached_property
    def guarantee(self) -> Guarantee:
        """What the agent promises."""
        promise = guarantee_of(self.agent)
        assert promise is not None
        return promise

    @functools.cached_property
    def neighbours(self) -> Neighbours:
        """The family's proposals of neighbours."""
        return neighbours_of(self.agent)

    @property
    def sums(self) -> PrivateSums:
        """The noisy sums that the agent releases.

        Raises:
          InvalidInput: it releases something else.
        """
        return private_sums(self.agent)

    @property
    def noised_reports(self) -> bool:
        """Whether users noise their own reports, so that a report is all there is to see."""
        return self.guarantee.trust.noised_reports

    @property
    def zero_out(self) -> bool:
        return self.guarantee.adjacency == "zero-out"

    @property
    def pure(self) -> bool:
        """Whether there is no δ: strengths are ε and costs are 1-norms."""
        return self.guarantee.pure

    @property
    def promised(self) -> float:
        """The largest strength that the promised (ε, δ) allows."""
        return self.guarantee.promised_strength

    @property
    def noise_scale(self) -> np.ndarray:
        """Scale of the noise per coordinate as the agent uses it, ``(H, D)``."""
        return np.asarray(self.sums.noise_scale)

    @functools.cached_property
    def response(self) -> Response | None:
        """The measured response of the counter; None where users noise their own reports and nothing else matters."""
        return None if self.noised_reports else probe(self.sums.counter)

    @property
    def exposure(self) -> float:
        """How often the most exposed round's item is charged, as measured; of a user who returns, all items together."""
        often = self.guarantee.participation
        if self.response is None:
            return float(np.sqrt(often.local_exposure(self.guarantee.releases)))
        if often != ONCE and not self.pure:
            return worst_norm(self.response.gram, often)
        return float((self.response.pure_exposures if self.pure else self.response.exposures).max())

    @property
    def declared_exposure(self) -> float:
        """The same as the ledger counts it."""
        charged = float(self.guarantee.ledger.exposure.max())
        return charged if self.pure else float(np.sqrt(charged))

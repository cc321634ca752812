# SPDX-License-Identifier: Apache-2.0
"""Where a model's numbers come from, and why that matters for privacy.

The guarantee covers the users that an agent meets. It does *not* cover whatever the agent knew before: candidate
models, state coding, smoothing, epoch sizes, bonus scales are part of the public billboard from the first user on. So
none of them may be computed from the protected users' own data, unless that computation was itself a differentially
private release, whose ε and δ then count against the same users. There are three honest origins:

* ``public``: records that may be published as they are (consented, anonymised by law, a pilot study, open data);
* ``simulated``: no person stands behind them;
* ``released``: the output of a mechanism that was differentially private for the people behind it, with its ε and δ.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal, get_args

from reticent.errors import InvalidInput

Kind = Literal["public", "simulated", "released"]


@dataclasses.dataclass(frozen=True)
class Provenance:
    """The origin of what is known before the first user; a model file carries it.

    Attributes:
      kind: ``public``, ``simulated`` or ``released``.
      source: which records, simulator or mechanism, in a few words.
      epsilon, delta: of the release; None for the other two kinds.
      note: anything a reader should know besides.
      doubt: why these numbers should not be learned from, such as too few records; empty if nothing speaks against it.

    >>> print(Provenance("public", "the pilot of spring").sentence())
    candidates come from public records (the pilot of spring): they are published as they are, and not covered by ε
    """

    kind: Kind
    source: str
    epsilon: float | None = None
    delta: float | None = None
    note: str = ""
    doubt: str = ""

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise InvalidInput(
                "provenance.kind",
                self.kind,
                "'public', 'simulated' or 'released'",
                "protected users' own data are none of these: candidates must not be made from them",
            )
        if not self.source.strip():
            raise InvalidInput("provenance.source", "empty", "a few words", "say which records or which simulator")
        released = self.kind == "released"
        for field, value in (("epsilon", self.epsilon), ("delta", self.delta)):
            if (value is None) == released:
                bound = "given exactly where the kind is 'released'"
                raise InvalidInput(
                    f"provenance.{field}", value, bound, "a release states its ε and δ, others have none"
                )
        if self.epsilon is not None and not 0 < self.epsilon < math.inf:
            raise InvalidInput("provenance.epsilon", self.epsilon, "positive and finite", "give the release's ε")
        if self.delta is not None and not 0 <= self.delta < 1:
            raise InvalidInput("provenance.delta", self.delta, "in [0, 1)", "give the release's δ")

    def sentence(self) -> str:
        """What this origin means for the guarantee, for a person."""
        after = "".join(f"; {text}" for text in (self.note, self.doubt) if text)
        if self.kind == "public":
            said = f"public records ({self.source}): they are published as they are, and not covered by ε"
        elif self.kind == "simulated":
            said = f"a simulation ({self.source}): no person stands behind them"
        else:
            said = (
                f"a private release ({self.source}) of ε = {self.epsilon:g}, δ = {self.delta:g}, which the people behind "
                "it have spent besides what they spend here"
            )
        return f"candidates come from {said}{after}"

    def to_dict(self) -> dict[str, Any]:
        """For a JSON document; :meth:`from_dict` is the inverse."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Provenance:
        """The provenance that :meth:`to_dict` wrote."""
        return cls(**content)

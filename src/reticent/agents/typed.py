# SPDX-License-Identifier: Apache-2.0
"""Options of an agent as an object, which an editor can complete and a type checker can check.

``PrivateScoreVI(epsilon=1, trust="local")`` is accepted wherever ``"private-score-vi:epsilon=1,trust=local"`` is; the
string is its short form, and what it is written as in results:

>>> str(PrivateScoreVI(epsilon=3, trust="local"))
'private-score-vi:trust=local,epsilon=3'
>>> PrivateScoreVI(trust="local")
PrivateScoreVI(trust='local')

What an option means is said by the dataclass that has it, such as
:class:`~reticent.agents.score.options.PrivateScoreOptions`. Agents that have no class here are named by strings.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from reticent.agents.linear_mdp.linear_mdp_plan import LinearMdpOptions
from reticent.agents.linear_mixture.privacy_plan import PrivateOptions
from reticent.agents.registry import AGENTS
from reticent.agents.score.options import PrivateScoreOptions, ScoreOptions
from reticent.agents.tabular.count_plan import CountOptions
from reticent.errors import InvalidInput
from reticent.naming import join


class AgentOptions:
    """What classes of options have in common: the ``agent`` that they are options of, and their short form."""

    agent: ClassVar[str]

    def __post_init__(self) -> None:
        offered = AGENTS.find(self.agent).options
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            if field.name not in offered and getattr(self, field.name) != field.default:
                raise InvalidInput(
                    field.name, getattr(self, field.name), f"left out: {self.agent} has no such option",
                    f"its options are {', '.join(sorted(offered))}",
                )  # fmt: skip

    @property
    def chosen(self) -> dict[str, Any]:
        """The options that are not the agent's defaults."""
        offered = AGENTS.find(self.agent).options
        values = {key: getattr(self, key) for key in offered}
        return {key: value for key, value in values.items() if value != offered[key].default}

    def __str__(self) -> str:
        return join(self.agent, self.chosen)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in self.chosen.items())})"


@dataclasses.dataclass(frozen=True, repr=False)
class ScoreVI(AgentOptions, ScoreOptions):
    """``score-vi``: Score-VI without privacy."""

    agent: ClassVar[str] = "score-vi"


@dataclasses.dataclass(frozen=True, repr=False)
class PrivateScoreVI(AgentOptions, PrivateScoreOptions):
    """``private-score-vi``: one clipped, noised vector per user; the default."""

    agent: ClassVar[str] = "private-score-vi"


@dataclasses.dataclass(frozen=True, repr=False)
class PrivateLinOptVI(AgentOptions, PrivateOptions):
    """``private-linopt-vi``: the paper's optimistic value iteration."""

    agent: ClassVar[str] = "private-linopt-vi"


@dataclasses.dataclass(frozen=True, repr=False)
class PrivateLinOptPO(AgentOptions, PrivateOptions):
    """``private-linopt-po``: the paper's optimistic policy optimization."""

    agent: ClassVar[str] = "private-linopt-po"


@dataclasses.dataclass(frozen=True, repr=False)
class PrivateLSVIUCB(AgentOptions, LinearMdpOptions):
    """``private-lsvi-ucb``: linear MDPs under joint privacy."""

    agent: ClassVar[str] = "private-lsvi-ucb"


@dataclasses.dataclass(frozen=True, repr=False)
class PrivateUCBVI(AgentOptions, CountOptions):
    """``private-ucb-vi``: tabular value iteration."""

    agent: ClassVar[str] = "private-ucb-vi"


@dataclasses.dataclass(frozen=True, repr=False)
class PrivateUCBPO(AgentOptions, CountOptions):
    """``private-ucb-po``: tabular policy optimization."""

    agent: ClassVar[str] = "private-ucb-po"
    bonus_scale: float = 0.03
    learning_rate: float | None = 0.1


@dataclasses.dataclass(frozen=True, repr=False)
class DPUCBVI(AgentOptions, CountOptions):
    """``dp-ucbvi``: tabular value iteration with a private Bernstein bonus."""

    agent: ClassVar[str] = "dp-ucbvi"
    bonus_scale: float = 0.0003
    shift_scale: float = 0.01

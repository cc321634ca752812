"""Agents by name: ``make_agent("ucrl-vtr:bonus_scale=0.3", model, episodes)``.

Adding an agent is one file in this package whose factory carries ``@AGENTS.register("name")``, and its import in the
package's ``__init__``. A factory takes ``(model, episodes)`` and keyword-only options; a private one also enters its
privacy plan in :data:`PLANS`, where audit, report and comparison find what it promises.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from reticent.learning import Learner
from reticent.naming import Registry
from reticent.worlds import Model

AGENTS: Registry[Learner] = Registry("agent")

PLANS: dict[str, Callable[..., Any]] = {}
"""By a private agent's name, the function ``(model, episodes, **options)`` that gives the privacy plan it keeps."""


REMARKS: dict[str, Callable[..., str]] = {}
"""By the name of an agent that promises users nothing, the function ``(**options)`` that says what it does promise."""


def privacy_plan_of(name: str, model: Model, episodes: int, options: Mapping[str, Any]) -> Any:
    """The privacy plan of the agent ``name`` with these options; None for an agent that promises nothing."""
    _load()
    return PLANS[name](model, episodes, **options) if name in PLANS else None


def make_agent(spec: str, model: Model, episodes: int, **overrides: Any) -> Learner:
    """The agent named by ``name`` or ``name:key=value,...`` for ``episodes`` users of ``model``.

    ``overrides`` fill options that the spec leaves open (None means not given).

    Raises:
      UnknownName: no such agent or option; the message lists those there are.
      InvalidInput: an option's value is outside its domain.
    """
    _load()
    return dataclasses.replace(AGENTS.make(spec, model, episodes, **overrides), name=spec)


def agent_rows() -> list[dict[str, Any]]:
    """One row per registered agent: its name, summary, and options with their defaults."""
    _load()
    return [
        {
            "name": entry.name,
            "summary": entry.summary,
            "options": {
                key: None if option.default is inspect.Parameter.empty else option.default
                for key, option in entry.options.items()
            },
        }
        for entry in AGENTS.entries()
    ]


def _load() -> None:
    import reticent.agents  # noqa: F401  (registers every agent)

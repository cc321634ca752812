# SPDX-License-Identifier: Apache-2.0
"""Agents by name: ``make_agent("ucrl-vtr:bonus_scale=0.3", model, episodes)``.

Adding an agent is one file in this package whose factory carries ``@AGENTS.register("name")``, and its import in the
package's ``__init__``. A factory takes ``(model, episodes)`` and keyword-only options; what the agent promises it carries
with it (``agent.promise``).
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, get_type_hints

from reticent.learning.learner import AnyLearner
from reticent.naming import Registry
from reticent.privacy.guarantee import guarantee_of
from reticent.runtime import double_precision
from reticent.worlds import Model

if TYPE_CHECKING:
    from reticent.agents.typed import AgentOptions

AGENTS: Registry[AnyLearner] = Registry("agent")


@double_precision
def make_agent(spec: str | AgentOptions, model: Model, episodes: int, **overrides: Any) -> AnyLearner:
    """The agent named by ``name`` or ``name:key=value,...``, or by typed options (:mod:`reticent.agents.typed`), for
    ``episodes`` users of ``model``.

    ``overrides`` fill options that the spec leaves open (None means not given).

    Raises:
      UnknownName: no such agent or option; the message lists those there are.
      InvalidInput: an option's value is outside its domain.
    """
    _load()
    agent = AGENTS.make(spec, model, episodes, **overrides)
    promise, about = guarantee_of(agent), getattr(model, "about", None)
    if promise is not None and about is not None:  # a promise states what was known before
        agent = dataclasses.replace(agent, promise=dataclasses.replace(promise, origin=about.provenance))
    return dataclasses.replace(agent, name=str(spec))


def register_with_options(
    name: str,
    summary: str,
    make: Callable[[Model, int, Any], AnyLearner],
    defaults: Any,
    without: Collection[str] = (),
) -> None:
    """Enter an agent whose options are the fields of the dataclass instance ``defaults``, but for those in ``without``.

    ``make(model, episodes, options)`` gets an instance with what the user chose.
    """

    def factory(model: Model, episodes: int, **chosen: Any) -> AnyLearner:
        return make(model, episodes, dataclasses.replace(defaults, **chosen))

    kinds = get_type_hints(type(defaults), include_extras=True)
    places = [inspect.Parameter(place, inspect.Parameter.POSITIONAL_OR_KEYWORD) for place in ("model", "episodes")]
    places += [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=getattr(defaults, field.name),
            annotation=kinds[field.name],
        )
        for field in dataclasses.fields(defaults)
        if field.init and field.name not in without
    ]
    factory.__signature__ = inspect.Signature(places)  # type: ignore[attr-defined]
    factory.__doc__ = summary
    AGENTS.register(name)(factory)


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

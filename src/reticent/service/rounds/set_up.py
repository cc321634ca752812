# SPDX-License-Identifier: Apache-2.0
"""A deployment and its store: what must not change in its life, and whether a store is this deployment's."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np

from reticent.errors import InvalidInput
from reticent.naming import split
from reticent.service.rounds.context import AnyContext
from reticent.service.rounds.integrity import attested
from reticent.service.store import records
from reticent.service.store.migrations import layout_of, require_layout


def facts(context: AnyContext) -> dict[str, Any]:
    """Everything that must not change in the life of a deployment, by name: model, promise, schedule, noise, and every
    option of the agent whether it was given or not."""
    configuration, control = context.configuration, context.control
    guarantee, rules = configuration.public_guarantee, configuration.published.rules
    return {
        "model": configuration.model_digest, "agent": split(configuration.name)[0],
        "contributions": context.contributions,
        "pan_private": configuration.pan_private, "grid": configuration.grid, "trust": guarantee.trust,
        "epsilon": guarantee.epsilon, "delta": guarantee.delta, "adjacency": guarantee.adjacency,
        "counter": configuration.counter, "releases": context.releases,
        "round_ends": configuration.schedule.ends.tolist(),
        "noise": [f"{sigma:.6e}" for sigma in configuration.noise_scale.flat], "form": rules.form.name,
        "ticket_lifetime": context.ticket_lifetime, "finish_after": context.finish_after,
        **({"canaries": context.canaries} if context.canaries else {}),
        **({"shadow": True} if context.shadow else {}),
        **({} if control is None else {"control": {"share": control.share, "version": control.version}}),
        **({"participation": dataclasses.asdict(context.returning.participation)} if context.returning.active else {}),
        **{f"resolved {key}": value for key, value in guarantee.settings.items()},
        **{f"option {key}": value for key, value in configuration.options.items()},
        **{f"bound {key}": [f"{one:.6e}" for one in np.ravel(value)] for key, value in rules.bounds.items()},
    }  # fmt: skip


def stored(context: AnyContext) -> Any:
    """The row of the deployment that was begun in the store; None if none was."""
    if not context.store.has_tables():
        return None
    with context.store.read() as tx:
        require_layout(layout_of(tx))
        return records.deployment(tx)


def adopt(context: AnyContext, found: Any) -> None:
    """Take a stored deployment for this one.

    Raises:
      InvalidInput: there is none, or it is another one, or the rollback guard is of another one; nothing was changed.
    """
    if found is None:
        raise InvalidInput(
            "database", "empty", "one that `reticent init` began", "check its path, or begin the deployment"
        )
    require_same(context, found)
    context.secrets, context.identity = context.secrets.of(found.identity), str(found.identity)
    if context.rollback_guard is not None:
        context.restores = context.rollback_guard.read().restores
        if found.halted is None:
            attested(context)


def require_same(context: AnyContext, found: Any) -> None:
    """Compare a stored deployment with this one.

    Raises:
      InvalidInput: it is another one, or another secret's.
    """
    wanted, kept = json.loads(json.dumps(facts(context))), json.loads(found.facts)
    require_layout(found.format)
    if wanted != kept:
        changed = sorted(key for key in {*wanted, *kept} if wanted.get(key) != kept.get(key))
        raise InvalidInput(
            "database", f"of another deployment ({', '.join(changed)})",
            "of this model, agent and number of users",
            "restore the configuration it was begun with, or start a new database with its own budget",
        )  # fmt: skip
    context.secrets.of(found.identity).unseal(found.key_check, "key check")

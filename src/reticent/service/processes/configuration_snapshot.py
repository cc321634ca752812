# SPDX-License-Identifier: Apache-2.0
"""The public configuration as the planner hands it to workers: JSON in a private directory.

Model and rules have the wire's form, in which devices get them too; every number survives to the last bit. Of the noise's
source nothing is handed over: a worker has one of its own if it starts sums with noise, and otherwise none.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from reticent.errors import InvalidInput
from reticent.learning.schedule import Schedule
from reticent.privacy.accounting.account import Account, GaussianAccount, LaplaceAccount
from reticent.privacy.accounting.binomial import BinomialAccount
from reticent.privacy.ledger import CounterShare
from reticent.privacy.noise import SecureNoise
from reticent.privacy.participation import Participation
from reticent.service.public_configuration import PublicConfiguration, PublicGuarantee
from reticent_wire import arrays
from reticent_wire.model import Model

ACCOUNTS: dict[str, type[Any]] = {kind.__name__: kind for kind in (GaussianAccount, LaplaceAccount, BinomialAccount)}
AS_THEY_ARE = ("name", "method", "counter", "model_digest", "names", "floor", "noise_factor", "pan_private")
QUOTED = ("sentence", "trust", "wire", "noised_reports", "adjacency", "epsilon", "delta")


def write_snapshot(home: Path, configuration: PublicConfiguration) -> None:
    """Write the public configuration for workers, whole or not at all."""
    fresh = home / "configuration.new"
    fresh.write_text(json.dumps(to_json(configuration), allow_nan=False), encoding="utf-8")
    fresh.replace(home / "configuration")


def read_snapshot(home: Path) -> PublicConfiguration:
    """The public configuration that :func:`write_snapshot` wrote."""
    return from_json(json.loads((home / "configuration").read_text(encoding="utf-8")))


def to_json(configuration: PublicConfiguration) -> dict[str, Any]:
    """The public configuration as plain values.

    Raises:
      InvalidInput: the agent accounts for its noise in a way of its own, which workers do not know.
    """
    guarantee = configuration.public_guarantee
    kind = type(guarantee.account).__name__
    if ACCOUNTS.get(kind) is not type(guarantee.account):
        raise InvalidInput("workers", "several", f"1 for an agent with {kind}", "serve it with one worker")
    return {
        **{field: getattr(configuration, field) for field in AS_THEY_ARE},
        "options": dict(configuration.options),
        "schedule": dataclasses.asdict(configuration.schedule),
        "published": configuration.published.to_json(),
        "initial": arrays.to_json(configuration.initial),
        "contribution_bound": arrays.to_json(configuration.contribution_bound),
        "epsilons": list(configuration.epsilons.items()),
        "public_guarantee": {
            **{field: getattr(guarantee, field) for field in QUOTED},
            "not_covered": list(guarantee.not_covered),
            "participation": dataclasses.asdict(guarantee.participation),
            "account": {"kind": kind, **dataclasses.asdict(guarantee.account)},  # type: ignore[call-overload]
            "shares": [dataclasses.asdict(share) for share in guarantee.shares],
            "exposure": arrays.to_json(guarantee.exposure),
            "round_ends": arrays.to_json(guarantee.round_ends),
            "settings": dict(guarantee.settings),
        },
    }


def from_json(content: dict[str, Any]) -> PublicConfiguration:
    """The inverse of :func:`to_json`."""
    quoted, planned = content["public_guarantee"], content["schedule"]
    known = dict(quoted["account"])
    account: Account = ACCOUNTS[known.pop("kind")](**known)
    rounds = (quoted["exposure"]["shape"][0],)
    guarantee = PublicGuarantee(
        **{field: quoted[field] for field in QUOTED},
        not_covered=tuple(quoted["not_covered"]),
        participation=Participation(**quoted["participation"]),
        account=account,
        shares=tuple(CounterShare(**share) for share in quoted["shares"]),
        exposure=arrays.from_json("exposure", quoted["exposure"], dtype="<f8", shape=rounds),
        round_ends=arrays.from_json("round_ends", quoted["round_ends"], dtype="<i8", shape=rounds),
        settings=quoted["settings"],
    )
    published = Model.read(content["published"])
    initial, bound = content["initial"], content["contribution_bound"]
    return PublicConfiguration(
        **{field: content[field] for field in AS_THEY_ARE},
        options=content["options"],
        schedule=Schedule(**{**planned, "sizes": None if planned["sizes"] is None else tuple(planned["sizes"])}),
        published=published,
        initial=arrays.from_json("initial", initial, dtype=initial["dtype"], shape=tuple(initial["shape"])),
        contribution_bound=arrays.from_json(
            "contribution_bound", bound, dtype="<f8", shape=published.rules.noise_scale.shape
        ),
        epsilons=dict(content["epsilons"]),
        public_guarantee=guarantee,
        source=SecureNoise() if content["pan_private"] and guarantee.wire == "trajectory" else None,
    )

# SPDX-License-Identifier: Apache-2.0
"""Which parties a user must trust, and with what: one object per trust model."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from reticent.errors import UnknownName
from reticent.naming import OneOf
from reticent.privacy.trust.joint import JOINT
from reticent.privacy.trust.local import LOCAL
from reticent.privacy.trust.shuffle import SHUFFLE
from reticent.privacy.trust.trust import Law, Trust

__all__ = ["JOINT", "LOCAL", "SHUFFLE", "TRUSTS", "Law", "Trust", "TrustName", "trust_named"]

TRUSTS: dict[str, Trust] = {trust.name: trust for trust in (JOINT, SHUFFLE, LOCAL)}
"""By name, from the most trust that is asked of a user to the least."""

TrustName: TypeAlias = Annotated[str, OneOf(TRUSTS)]
"""As the annotation of an option: the name of a trust model."""


def trust_named(name: str) -> Trust:
    """The trust model of this name.

    Raises:
      UnknownName: there is none; the message lists those there are.
    """
    if name not in TRUSTS:
        raise UnknownName("trust model", name, list(TRUSTS))
    return TRUSTS[name]

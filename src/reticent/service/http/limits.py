# SPDX-License-Identifier: Apache-2.0
"""How large a request of a deployment can be: it follows from the model, and no body is read beyond it."""

from __future__ import annotations

import math

from reticent.service.public_configuration import PublicConfiguration
from reticent_wire.limits import LARGEST_GROUP

OVERHEAD = 8192
"""Bytes for names, tokens and braces: a user's name of 256 characters takes up to 3072 if each is escaped."""

NUMBER = 32
"""Bytes of a number of a trajectory in JSON: a sign, 17 digits, an exponent, a comma and white space."""


def largest_request(configuration: PublicConfiguration) -> int:
    """Bytes of the largest body that a client of this deployment has a reason to send."""
    published = configuration.published
    stay = published.visits * (3 * published.horizon + 1)
    array = 4 * math.ceil(8 * configuration.noise_scale.size / 3)  # base64
    return OVERHEAD + {"trajectory": NUMBER * stay, "report": array, "messages": 2 * array}[configuration.wire]


def largest_group(request: int) -> int:
    """Bytes of the largest group, if a request of one user may have so many."""
    return LARGEST_GROUP * request

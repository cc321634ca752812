# SPDX-License-Identifier: Apache-2.0
r"""What a device sends to a shuffler: its statistics as ones among messages, hidden by coins that all users flip.

The protocol is that of :mod:`reticent_wire.shuffling`. Of a user's 2m + c one-bit messages for a coordinate only
their number and the number of ones matter, so both are formed directly: x + m ones of the 2m that say their value
:math:`x=\lfloor s/g+v\rfloor`, and as many as their c coins gave. v and the coins come from the operating system's entropy.

**What these numbers reveal.** By themselves, nearly everything: one user's few coins do not hide them. They are for the
shuffler alone, which learns no less from the bits if it can tell whose they are. All other parties see sums over a round.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from reticent_wire.billboard import Billboard
from reticent_wire.boundary import Clipped
from reticent_wire.errors import InvalidInput
from reticent_wire.grid import round_at
from reticent_wire.model import Model
from reticent_wire.shuffle_rules import ShuffleRules
from reticent_wire.shuffling import Tally, secure_coins, tally_of
from reticent_wire.trajectory import Trajectory

Integers = NDArray[np.int64]

MessageReceiver = Callable[[int, int, Integers, Integers, int], None]
"""A way to the shuffler: ``(round, place, ones, messages, restores)``. The same place may be handed over twice and counts
once. ``restores`` is how often the service's store had been restored when the user came: the shuffler must throw messages
away that were handed over before a restore, since their users may be admitted again."""


def form_messages(
    model: Model, billboard: Billboard, seen: Clipped[Trajectory] | None, number: int, within: int
) -> Tally:
    """The messages of user ``within`` of round ``number``; of a user who shows nothing (None), value 0 and their coins.

    Fresh coins each time: call it once per episode, and keep them.

    Raises:
      InvalidInput: the service named no such place; nothing has been sent.
    """
    rules = require_shuffle(model)
    coins = rules.coins_at(number, within)

    def mixed(values: Integers) -> Tally:
        heads = np.array([int(secure_coins(count).sum()) for count in coins.ravel().tolist()], np.int64)
        return tally_of(values, rules.reach, heads.reshape(coins.shape), coins)

    def rounded(shown: Trajectory) -> Integers:
        statistics = model.contribution(billboard, shown)
        steps = round_at(statistics, model.rules.grid, _uniforms(statistics.shape))
        # Clipping kept it there already; a service's error must not matter.
        return np.clip(steps, -rules.reach, rules.reach)

    return mixed(np.zeros(coins.shape, np.int64)) if seen is None else seen.within(rounded).release(mixed).value


def require_shuffle(model: Model) -> ShuffleRules:
    """The rules for messages.

    Raises:
      InvalidInput: there are none, or a number that can differ between users is hidden by no coin.
    """
    rules = model.rules.shuffle
    if rules is None:
        raise InvalidInput("report.shuffle", None, "given in the shuffle model", "ask the service's operator")
    rules.require_hiding()
    return rules


def _uniforms(shape: tuple[int, ...]) -> NDArray[np.float64]:
    drawn = [secrets.randbits(53) * 2.0**-53 for _ in range(int(np.prod(shape)))]
    return np.array(drawn).reshape(shape)

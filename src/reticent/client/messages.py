r"""What a device sends to a shuffler: its statistics as ones among messages, hidden by coins that all users flip.

The protocol is that of :mod:`reticent.privacy.trust.shuffle_protocol`. Of a user's 2m + c one-bit messages for a coordinate only their
number and the number of ones matter, so both are formed directly: x + m ones of the 2m that say her value
:math:`x=\lfloor s/g+v\rfloor`, and as many as her c coins gave. v and the coins come from the operating system's entropy.

**What these numbers reveal.** By themselves, nearly everything: one user's few coins do not hide her. They are for the
shuffler alone, which learns no less from her bits if it can tell that they are hers. Everybody else sees sums over a round.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from reticent.client.published import Billboard, Model, ShuffleRules
from reticent.client.report import Trajectory, clipped_products
from reticent.errors import InvalidInput
from reticent.privacy.trust.shuffle_protocol import coins_of_user, round_at, secure_coins

Integers = NDArray[np.int64]

Handover = Callable[[int, int, Integers, Integers], None]
"""A way to the shuffler: ``(round, number, ones, messages)``. The same number may be handed over twice and counts once."""


@dataclasses.dataclass(frozen=True, eq=False)
class UserMessages:
    """A user's messages, counted: ``ones`` among ``messages``, both ``(H, D)``."""

    ones: Integers
    messages: Integers


def form_messages(model: Model, billboard: Billboard, seen: Trajectory, number: int, within: int) -> UserMessages:
    """The messages of user ``within`` of round ``number``. Fresh coins each time: call it once per episode, and keep them.

    Raises:
      InvalidInput: the service named no such place; nothing has been sent.
    """
    rules = require_shuffle(model)
    sizes = rules.round_sizes
    if not (0 <= number < len(sizes) and 0 <= within < sizes[number]):
        raise InvalidInput("round, number", (number, within), "a place in a round", "ask the service's operator")
    statistics = clipped_products(model, billboard, seen)
    steps = round_at(statistics, model.rules.grid, _uniforms(statistics.shape))
    values = np.clip(
        steps, -rules.reach, rules.reach
    )  # clipping kept it there already; a service's error must not matter
    coins = coins_of_user(rules.coins, sizes[number], within)
    heads = np.array([int(secure_coins(count).sum()) for count in coins.ravel().tolist()], np.int64)
    return UserMessages(values + rules.reach + heads.reshape(coins.shape), 2 * rules.reach + coins)


def require_shuffle(model: Model) -> ShuffleRules:
    """The rules for messages.

    Raises:
      InvalidInput: there are none, or a number that can differ between users is hidden by no coin.
    """
    rules = model.rules.shuffle
    if rules is None:
        raise InvalidInput("report.shuffle", None, "given in the shuffle model", "ask the service's operator")
    if ((rules.coins <= 0) & (rules.reach > 0)).any() or (rules.reach < 0).any() or (rules.coins < 0).any():
        raise InvalidInput("report.shuffle.coins", "missing", "above 0 for every value", "do not send")
    return rules


def _uniforms(shape: tuple[int, ...]) -> NDArray[np.float64]:
    drawn = [secrets.randbits(53) * 2.0**-53 for _ in range(int(np.prod(shape)))]
    return np.array(drawn).reshape(shape)

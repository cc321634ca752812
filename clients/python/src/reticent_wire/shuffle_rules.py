# SPDX-License-Identifier: Apache-2.0
"""What is public about the messages of every round of the shuffle model: for devices, shufflers and the service.

**Users who never send.** At a time that was set before, the holder of the round's messages fills every silent place with a
*dummy*: the value 0 and as many fresh coins as the place has (:meth:`ShuffleRules.silent`), which is what a user sends who
shows nothing. So a batch is always of all s places and has 2sm + N messages, and silence is one more value that a user may
have: the promise holds whether they send or not, to every party but the shuffler (the theorem is in docs/shuffle.md).

**Deadlines** are numbers of admissions, which are public. A shuffler waits for messages of a round no longer than until
half of the next round's users have come (:meth:`ShuffleRules.last_call`), and the service for its batch until all of
them have (:meth:`ShuffleRules.until`); after the last round, until the deployment is finished.

Of the places at least the share ``honest`` must be dummies or users who flip their coins:
:func:`~reticent_wire.shuffling.coin_excess` has made sure that their coins are enough.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent_wire.arrays import from_json, to_json
from reticent_wire.errors import InvalidInput
from reticent_wire.shuffling import Tally, coins_of_user, doubled_sum, secure_heads

Integers = NDArray[np.int64]


@dataclasses.dataclass(frozen=True, eq=False)  # arrays have no single truth value to compare by
class ShuffleRules:
    """How messages are formed and added up.

    Attributes:
      reach: m, the most grid steps that a value can be from 0, ``(rows, D)``.
      coins: N, how many coins all users of a round flip together, ``(rows, D)``.
      round_sizes: users of each released round.
      honest: the share of a round's places whose coins the promise relies on.
    """

    reach: Integers
    coins: Integers
    round_sizes: tuple[int, ...]
    honest: float

    @classmethod
    def read(cls, content: Mapping[str, Any], shape: tuple[int, int]) -> ShuffleRules:
        """The rules in an answer of the service."""
        reach, coins = (
            from_json(f"report.shuffle.{name}", content[name], dtype="<i8", shape=shape) for name in ("reach", "coins")
        )
        return cls(reach, coins, tuple(int(size) for size in content["round_sizes"]), float(content["honest"]))

    def to_json(self) -> dict[str, Any]:
        """What :meth:`read` reads."""
        return {
            "reach": to_json(self.reach),
            "coins": to_json(self.coins),
            "round_sizes": list(self.round_sizes),
            "honest": self.honest,
        }

    def require_hiding(self) -> None:
        """Refuse rules by which a number that can differ between users is hidden by no coin.

        Raises:
          InvalidInput: there is one.
        """
        bare = (self.coins <= 0) & (self.reach > 0)
        if bare.any() or (self.reach < 0).any() or (self.coins < 0).any():
            raise InvalidInput("report.shuffle.coins", "missing", "above 0 for every value", "do not send")

    def size(self, number: int) -> int:
        """Users of round ``number``, 0-based.

        Raises:
          InvalidInput: there is no such round.
        """
        if not 0 <= number < len(self.round_sizes):
            raise InvalidInput("round", number, f"from 0 to {len(self.round_sizes) - 1}", "see the service's model")
        return self.round_sizes[number]

    def end(self, number: int) -> int:
        """How many users have been admitted when round ``number`` has had all its own."""
        return self.size(number) + sum(self.round_sizes[:number])

    def last_call(self, number: int) -> int | None:
        """At how many admissions a shuffler waits for no more of a round's messages; None after the last round."""
        if number + 1 >= len(self.round_sizes):
            return None
        return self.end(number) + -(-self.round_sizes[number + 1] // 2)

    def until(self, number: int) -> int | None:
        """At how many admissions a round's batch is waited for no longer; None: until the deployment is finished."""
        return self.end(number + 1) if number + 1 < len(self.round_sizes) else None

    def place(self, admission: int) -> tuple[int, int]:
        """Round and number within the round, 0-based, of the user who was admitted as number ``admission``, 0-based."""
        ends = np.cumsum(self.round_sizes)
        number = int(np.searchsorted(ends, admission, side="right"))
        return number, admission - int(ends[number] - self.round_sizes[number])

    def coins_at(self, number: int, within: int) -> Integers:
        """How many coins user ``within`` of round ``number`` flips, ``(rows, D)``.

        Raises:
          InvalidInput: there is no such place.
        """
        if not (0 <= number < len(self.round_sizes) and 0 <= within < self.round_sizes[number]):
            raise InvalidInput("round, number", (number, within), "a place in a round", "ask the service's operator")
        return coins_of_user(self.coins, self.round_sizes[number], within)

    def require_tally(self, number: int, within: int, tally: Tally) -> None:
        """Refuse messages that user ``within`` of round ``number`` cannot have sent: one of them would spoil the batch.

        How many they send is public, so a refusal tells nothing.

        Raises:
          InvalidInput: there is no such place, or they send more or fewer messages, or more ones than messages.
        """
        wanted = 2 * self.reach + self.coins_at(number, within)
        doubled_sum(tally, wanted)

    def silent(self, number: int, places: Collection[int]) -> Tally:
        """What is sent for places whose users are silent: the value 0 and each place's coins. Fresh coins each time.

        Raises:
          InvalidInput: there is no such round.
        """
        share, left = np.divmod(self.coins, self.size(number))
        coins = len(places) * share + np.searchsorted(np.sort(np.array(list(places), np.int64)), left)
        heads = np.array([secure_heads(count) for count in coins.ravel().tolist()], np.int64)
        return Tally(len(places) * self.reach + heads.reshape(coins.shape), 2 * len(places) * self.reach + coins)

    def doubled_sum(self, number: int, users: int, batch: Tally) -> Integers:
        """Twice the noisy sum of a round, in grid steps, from a batch of all its ``users`` places.

        Raises:
          InvalidInput: it is not of all of them, or they cannot have sent that.
        """
        size = self.size(number)
        if users != size:
            raise InvalidInput(
                "users", users, f"{size}, all places of the round", "fill silent places with dummies; post only then"
            )
        wanted = 2 * size * self.reach + self.coins
        return doubled_sum(batch, wanted)

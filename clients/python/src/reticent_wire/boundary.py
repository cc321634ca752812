# SPDX-License-Identifier: Apache-2.0
"""Types for what comes from a user: a branch, a comparison or a text on it does not type-check, and fails at run time.

A leak outside the noise has one cause: something other than the clip depends on a user's value. So a value is wrapped where
it comes in, and there is one way on from each wrapper:

* :class:`Raw`: as it came, whatever it is; :meth:`Raw.clip` takes it into public bounds.
* :class:`Clipped`: within them and still the user's; the device may use it (:meth:`Clipped.on_device`), a sum may take it
  up (:meth:`Clipped.within`), and a mechanism may release something of it (:meth:`Clipped.release`).
* :class:`Released`: noised, or meant for a server that is trusted with it; it may be sent, shown and branched on.

On a device they hold what an app observes. In the service they hold what is in the body of a request, and the sums of
rounds until their release.

Formal guarantee. A function that mypy accepts under the project's configuration (``truthy-bool``, strict equality and the
plugin ``typing_rules/user_values.py``), that has no ``Any`` and no ``type: ignore``, and that calls none of these methods
nor :func:`clip_each`, has the same control flow for any two values. At run time every implicit use of a value (truth,
comparison, conversion, length, iteration, text, key of a dictionary) raises :class:`DataEscapes`, whose message depends on
the type alone; what mypy does not see (the truth of a value that may be None, the key in a dict display) is refused there.

>>> reward = Raw(7.5)
>>> reward
<Raw: not shown>
>>> clipped = reward.clip(lambda value: min(max(value, 0.0), 1.0))
>>> clipped.release(lambda value: value + 0.25).value
1.25
>>> bool(reward)
Traceback (most recent call last):
reticent_wire.boundary.DataEscapes: a Raw value of a user has no __bool__; clip it, and release it by a mechanism
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, NoReturn, TypeVar

from reticent_wire.errors import ReticentError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R")

REFUSED = (
    "__bool__", "__len__", "__iter__", "__contains__", "__getitem__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__",
    "__ge__", "__hash__", "__int__", "__float__", "__index__", "__complex__", "__round__", "__str__", "__format__",
    "__bytes__", "__array__", "__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__reduce_ex__",
)  # fmt: skip
"""Everything by which Python could branch on a value, show it or turn it into another one without being asked."""


class DataEscapes(ReticentError, TypeError):
    """Something would have depended on a user's value outside a clip."""


class _Held(Generic[T_co]):
    """A value that is used by name only."""

    __slots__ = ("_value",)

    def __init__(self, value: T_co) -> None:
        self._value = value

    def __repr__(self) -> str:
        """The same for every value, so that a list of them may be shown."""
        return f"<{type(self).__name__}: not shown>"


def _refuse(name: str) -> Callable[..., NoReturn]:
    def refuse(self: Any, *given: Any) -> NoReturn:
        del given
        kind = type(self).__name__
        raise DataEscapes(f"a {kind} value of a user has no {name}; clip it, and release it by a mechanism")

    return refuse


for _name in REFUSED:
    setattr(_Held, _name, _refuse(_name))


class Raw(_Held[T_co]):
    """A value of one user as it came: it may be of any size, no number, or missing."""

    __slots__ = ()

    def clip(self, into: Callable[[T_co], R]) -> Clipped[R]:
        """The value within public bounds. ``into`` must give a value within them for *every* value, and raise for none.

        Only a public *form* that is wrong, such as the length of an episode, may be refused, in words that quote no value.
        """
        return Clipped(into(self._value))

    @staticmethod
    def all_of(parts: Sequence[Raw[T]]) -> Raw[list[T]]:
        """Values that came together as one, such as the parts of an episode."""
        return Raw([one._value for one in parts])


class Clipped(_Held[T_co]):
    """A value of one user within public bounds: its sensitivity is bounded, and it is still theirs."""

    __slots__ = ()

    def on_device(self, use: Callable[[T_co], R]) -> R:
        """What the user's own device makes of it: an action, or a step towards a contribution. It must not be sent."""
        return use(self._value)

    def within(self, step: Callable[[T_co], R]) -> Clipped[R]:
        """A step towards a release that stays within bounds: forming a contribution, adding it to a sum."""
        return Clipped(step(self._value))

    @staticmethod
    def all_of(parts: Sequence[Clipped[T]]) -> Clipped[list[T]]:
        """Several values as one, for what is computed of all of them, such as a sum."""
        return Clipped([one._value for one in parts])

    def release(self, mechanism: Callable[[T_co], R]) -> Released[R]:
        """What a mechanism makes of it: it adds the noise, encrypts it, answers the user whose value it is, or the trust
        model names a server that may see the value."""
        return Released(mechanism(self._value))


def clip_each(
    several: Sequence[Raw[T]], into: Callable[[list[T]], Sequence[R | ReticentError]]
) -> list[Clipped[R] | ReticentError]:
    """:meth:`Raw.clip` of several users' values, all at once; what has not the public form of one is its own problem."""
    clipped = into([one._value for one in several])
    return [one if isinstance(one, ReticentError) else Clipped(one) for one in clipped]


class Released(Generic[T]):
    """What may leave: as private as the mechanism that made it."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value

# SPDX-License-Identifier: Apache-2.0
"""The bodies of requests and answers, strict: no unknown field, no number from text."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)
from pydantic_core import CoreSchema, core_schema

from reticent.errors import InvalidInput
from reticent.service.http import members
from reticent_wire.boundary import Raw
from reticent_wire.limits import LARGEST_GROUP
from reticent_wire.trajectory import whole_number

IDENTITY = r"^[0-9a-f]{32}$"
INDEX = 2**31 - 1

Token = Annotated[str, Field(min_length=1, max_length=512)]
Index = Annotated[int, Field(ge=0, le=INDEX)]


class OfUser:
    """Marks a field as a user's: read as ``form``, and a :class:`~reticent_wire.boundary.Raw` from there on."""

    def __init__(self, form: Any) -> None:
        self._form = form

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        del source
        return core_schema.no_info_after_validator_function(Raw, handler.generate_schema(self._form))


_State = Annotated[int, BeforeValidator(whole_number), WithJsonSchema({"type": ["number", "null"]})]
_Whole = Annotated[Any, WithJsonSchema({"type": ["number", "null"]})]
_Real = Annotated[Any, WithJsonSchema({"type": ["number", "null"]})]

State = Annotated[Raw[int], OfUser(_State)]
"""Where a user is: any number, clipped to what states there are."""

States = Annotated[Raw[list[Any]], OfUser(Annotated[list[_Whole], Field(min_length=2, max_length=100_001)])]
Chosen = Annotated[Raw[list[Any]], OfUser(Annotated[list[_Whole], Field(min_length=1, max_length=100_000)])]
Rewards = Annotated[Raw[list[Any]], OfUser(Annotated[list[_Real], Field(min_length=1, max_length=100_000)])]
"""A user's values. They are clipped to what they can be and not refused, by
:func:`reticent_wire.trajectory.well_formed`. JSON says null where a program has NaN."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Problem(BaseModel):
    """An RFC 9457 problem document."""

    type: str
    title: str
    status: int
    detail: str
    field: str | None = None
    bound: str | None = None
    remedy: str | None = None


class Open(_Strict):
    """A user comes. ``episode`` is an id of the caller's choice, with which the request may be repeated.

    ``enrolment`` is the backend's token for the user, where the service asks for it
    (:mod:`reticent.service.rounds.enrolment`).
    """

    user: Annotated[str, Field(min_length=1, max_length=256)]
    enrolment: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    episode: Annotated[str, Field(pattern=IDENTITY)] | None = None


class Act(members.OfUsers, _Strict):
    """Where the user is: 0-based step and state. A state that does not exist is taken for the nearest one."""

    token: Token
    step: Index
    state: State


class Trajectory(members.OfUsers, _Strict):
    """A whole episode: H + 1 states, H actions, H rewards. Values out of range are clipped."""

    token: Token
    states: States
    actions: Chosen
    rewards: Rewards

    @property
    def sent(self) -> Raw[list[Any]]:
        """States, actions and rewards."""
        return Raw.all_of([self.states, self.actions, self.rewards])


class Empty(_Strict):
    """An episode of which nothing is shown."""

    token: Token


class Array(_Strict):
    """An array: type, shape, and base64 of its little-endian bytes."""

    dtype: Literal["<f8", "<i4", "<i8"]
    shape: Annotated[list[Index], Field(max_length=8)]
    data: str


class Report(_Strict):
    """A report that was noised on the device: integers ``<i8`` of shape (H, D), in units of the model's grid.

    ``reference`` is the version that it was formed under, where reports refer to a round.
    """

    token: Token
    report: Array
    reference: Index | None = None


class Batch(_Strict):
    """The messages of one round (0-based), counted: integers ``<i8`` of shape (H, D) each; of all its places, ``users``.

    ``batch`` is an id of the shuffler's choice, with which the request may be repeated. ``restores`` is what its users were
    told when they came.
    """

    batch: Annotated[str, Field(pattern=IDENTITY)]
    round: Index
    users: Index
    ones: Array
    messages: Array
    restores: Index = 0


class Opened(BaseModel):
    """The user is served ``version``; ``reason`` says why the user is not learned from, if so.

    ``round`` and ``place`` are theirs, both 0-based: their place decides what they are served of the version, and with
    a shuffler how many coins they flip. ``reference`` is the version that their round's contributions refer to, where
    they do. ``restores``: how often the store was restored before this admission. Messages to a shuffler carry it.
    ``rules`` is the digest of the model's rules: a device that has other ones fetches the model again.
    """

    episode: str
    token: str
    version: int
    trust: Literal["joint", "shuffle", "local"]
    learning: bool
    reason: Literal["user-already-counted", "too-soon", "horizon-used-up", "learning-stopped"] | None
    horizon: int
    expires_at: float | None
    round: int | None = None
    place: int | None = None
    reference: int | None = None
    restores: int = 0
    rules: str | None = None


M = TypeVar("M", bound=BaseModel)


def _by_itself(value: Any, read: ValidatorFunctionWrapHandler) -> Any:
    """A member, or what is wrong with its form; the group is read on."""
    try:
        return read(value)
    except ValidationError as wrong:
        return members.malformed(wrong)


class _Group(_Strict, Generic[M]):
    """A body of many users' requests. ``member`` reads one, and ``name`` is the list's."""

    member: ClassVar[type[BaseModel]]
    name: ClassVar[str]

    @classmethod
    def apart(cls, body: bytes) -> Self | None:
        """The group with each member read by itself, whatever the others are; None if its own form is another."""
        cut = members.cut(body, cls.name)
        if cut is None or not 0 < len(cut) <= LARGEST_GROUP:
            return None
        given: dict[str, Any] = {cls.name: [members.read_member(cls.member, one) for one in cut]}
        return cls.model_construct(**given)

    @property
    def each(self) -> list[M | InvalidInput]:
        """The members in their order, or what is wrong with one."""
        return cast("list[M | InvalidInput]", getattr(self, self.name))


class OpenAll(_Group[Open]):
    """Users who come together."""

    member, name = Open, "users"
    users: Annotated[list[Annotated[Open, WrapValidator(_by_itself)]], Field(min_length=1, max_length=LARGEST_GROUP)]


class TrajectoryOf(Trajectory):
    """A whole episode, and which one it is."""

    episode: Annotated[str, Field(pattern=IDENTITY)]


class Trajectories(_Group[TrajectoryOf]):
    """Episodes that are submitted together."""

    member, name = TrajectoryOf, "trajectories"
    trajectories: Annotated[
        list[Annotated[TrajectoryOf, WrapValidator(_by_itself)]], Field(min_length=1, max_length=LARGEST_GROUP)
    ]


class ReportOf(Report):
    """A noised report, and the episode it is of."""

    episode: Annotated[str, Field(pattern=IDENTITY)]


class Reports(_Group[ReportOf]):
    """Noised reports that are submitted together."""

    member, name = ReportOf, "reports"
    reports: Annotated[
        list[Annotated[ReportOf, WrapValidator(_by_itself)]], Field(min_length=1, max_length=LARGEST_GROUP)
    ]


class AllOpened(BaseModel):
    """To each user, in their order, the answer to a request of their own: a member with a ``type`` is a problem."""

    opened: list[Opened | Problem]


class Action(BaseModel):
    """What to do, with what probability that was chosen, and which version says so."""

    action: int
    probability: float
    version: int


class Receipt(BaseModel):
    """The episode was counted, once, however often it was sent."""

    episode: str
    status: Literal["counted"] = "counted"
    version: int


class Receipts(BaseModel):
    """To each episode, in their order, what it would have been told by itself: a member with a ``type`` is a problem."""

    receipts: list[Receipt | Problem]


class BatchReceipt(BaseModel):
    """The round has its batch, once, however often it was sent."""

    batch: str
    round: int
    users: int
    status: Literal["counted"] = "counted"


class Billboard(BaseModel):
    """A published plan."""

    version: int
    method: Literal["value-iteration", "policy-optimization"]
    horizon: int
    states: int
    actions: int
    floor: float
    form: str
    policy: Array
    report: dict[str, Array]
    values: Array
    final: bool
    model: str


class OpenRound(BaseModel):
    """The round that takes reports now, 0-based, and the version that they are formed under; None after the last."""

    round: int
    reference: int | None


class ModelNames(BaseModel):
    """What states and actions are called; null where they have no names.

    ``history``: how a device makes states of what it observes (:mod:`reticent_wire.history`); null where a state is one
    observation.
    """

    states: list[str] | None
    actions: list[str] | None
    history: dict[str, Any] | None = None


class CanaryStatus(BaseModel):
    """What canaries show (:mod:`reticent.service.rounds.canaries`): a false alarm has probability ``alpha``, ever.

    ``found_within``: after so many releases a tenth too little noise has raised the alarm.
    """

    alarm: bool
    log_e_value: float
    alpha: float
    releases: int
    numbers: int
    found_within: int


class Status(BaseModel):
    """Where the deployment stands; public.

    ``restores``: how often its store was restored. ``recorded``: in the shuffle model, how many of the admitted users every
    restore brings back; a round's batch is posted when all of its users are. ``device_acts``: whether actions are chosen on
    users' devices only, because they depend on the user's own episode so far or nothing is to be sent between visits.
    """

    version: int
    served_version: int
    fallback: int | None
    control_share: float | None
    control_version: int | None
    admitted: int
    episodes: int
    rounds: int
    releases: int
    round_ends: list[int]
    open_round: int
    lost_rounds: int
    restores: int
    recorded: int | None
    canaries: CanaryStatus | None
    learning: bool
    halted: str | None
    finished: bool
    trust: str
    agent: str
    world: str | None
    method: str
    counter: str
    contributions: int
    pan_private: bool
    device_acts: bool
    epsilon: float
    delta: float
    epsilon_spent: float
    promise: str
    not_covered: list[str]


class AdminStatus(Status):
    """With numbers that depend on users' data: for the operator only."""

    open_episodes: int
    sealed_rounds_waiting: int


class LedgerEntry(BaseModel):
    """One planned release, and its digest if it was made."""

    round: int
    episode: int
    mu_squared: float
    epsilon: float
    remaining: float
    released: bool
    digest: str | None


class Ledger(BaseModel):
    """The privacy account per user: a page of its entries, of ``releases`` in all; ``next`` is the page after it."""

    epsilon: float
    delta: float
    adjacency: str
    trust: str
    contributions: int
    pan_private: bool
    noise_factor: float
    releases: int
    next: int | None
    entries: list[LedgerEntry]
    shares: list[dict[str, Any]]


class Transparency(BaseModel):
    """A page of the signed :mod:`~reticent.service.durability.ledger_chain`; ``next`` is the version after it."""

    deployment: str
    public_key: str
    head: str
    entries: list[dict[str, str]]
    next: int | None


class Live(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Health(BaseModel):
    """The service can serve; ``problems`` are those that an operator should look at all the same."""

    status: Literal["ok", "degraded"] = "ok"
    version: int
    problems: list[str]


class Fallback(_Strict):
    """The published version that users are to be served; null for the newest."""

    version: Index | None


class Served(BaseModel):
    """The version that users who come now are served."""

    served_version: int


class Erase(_Strict):
    """A user who asks to be forgotten."""

    user: Annotated[str, Field(min_length=1, max_length=256)]


class Erased(BaseModel):
    """What was done and what could not be, for the user who asked (:class:`reticent.service.durability.erasure.Erased`)."""

    episodes: int
    before: bool
    deleted: list[str]
    kept: list[str]
    cannot_be_undone: list[str]


class Expired(BaseModel):
    """How many episodes are waited for no longer."""

    expired: int

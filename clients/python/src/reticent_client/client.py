# SPDX-License-Identifier: Apache-2.0
"""A device's or an app's way to the service: users' episodes, with policies and model fetched once and kept."""

from __future__ import annotations

import collections
import functools
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, get_args

from reticent_client.budget import Budget
from reticent_client.connection import Connection, Observer
from reticent_client.decisions import DecisionObserver
from reticent_client.episode import Episode
from reticent_client.group import Group
from reticent_client.memory import BeliefMemory
from reticent_client.messages import MessageReceiver, require_shuffle
from reticent_client.micro_batching import MicroBatcher, MicroBatching
from reticent_client.names import Names
from reticent_client.problems import ServiceError
from reticent_client.shuffler import Shuffler
from reticent_client.stays import StayFile
from reticent_client.submission import SUBMISSIONS, Receipt, Submission
from reticent_client.tickets import Ticket
from reticent_wire.arrays import from_json
from reticent_wire.billboard import Billboard
from reticent_wire.errors import InvalidInput
from reticent_wire.forms.form import Belief
from reticent_wire.limits import LARGEST_GROUP
from reticent_wire.model import Model
from reticent_wire.promise import require_promise

Acting = Literal["device", "server"]

VERSIONS_KEPT = 8
"""Billboards kept at a time; users of older versions fetch theirs again."""


class Client:
    """Talks to one service; may be shared between threads.

    >>> client = Client("http://127.0.0.1:8400", "dev-app-key", trust="local", epsilon=1.0)

    Args:
      url, key: address of the service, and the app's key.
      act: ``device`` chooses actions here from the published policy; ``server`` asks for each, which shows the service
        every state and is refused in the local model, and where users act on a belief about themselves or report a stay.
      trust: demand this trust model; by default whatever the service says. A device that was promised the local model
        should demand it: otherwise a service that says ``joint`` is sent raw trajectories.
      epsilon, delta: in the local model, demand that all reports that the ``budget`` allows a user are together
        (ε, δ)-private; by default any noise will do. The
        device works it out itself (:mod:`reticent_wire.promise`). It cannot with a shuffler: others flip the coins.
      shuffler: in the shuffle model, who gets an episode's messages: a :class:`~reticent_client.shuffler.Shuffler` or any
        callable ``(round, place, ones, messages, restores)``. With one, the client demands the shuffle model.
      budget: the device's own count of reports (:class:`~reticent_client.budget.Budget`): a user whose budget is spent is
        served without a report, whatever the service asks for. In the local model there is always one: by default one
        report in :meth:`Budget.default <reticent_client.budget.Budget.default>`, whose scope is ``url``. One that is
        forgotten at the end of the process must be asked for (``Budget.in_memory()``). In the other models there is none
        by default, and the service is trusted to ask once.
      decisions: told of every decision with its probability, on this device, such as a
        :class:`~reticent_client.decisions.DecisionLog`. Nothing of it is sent.
      memory: where users act on a belief about themselves, keeps it on this device between visits
        (:class:`~reticent_client.memory.BeliefMemory`); by default it is forgotten with the episode. Nothing of it is sent.
      stays: where a user's visits are reported once, keeps finished visits on this device until then
        (:class:`~reticent_client.stays.StayFile`), so that the app may be closed in between; see :meth:`resume_stay`.
      deadline, timeout, plain_http, observer: of the connection (:class:`~reticent_client.connection.Connection`).
      micro_batching: have requests that threads make within a moment sent together
        (:class:`~reticent_client.micro_batching.MicroBatching`);
        for a backend that serves many users at once. By default each is sent by itself.
    """

    def __init__(
        self,
        url: str,
        key: str | None,
        *,
        act: Acting = "device",
        trust: Literal["joint", "shuffle", "local"] | None = None,
        epsilon: float | None = None,
        delta: float = 1e-5,
        shuffler: MessageReceiver | None = None,
        budget: Budget | None = None,
        decisions: DecisionObserver | None = None,
        memory: BeliefMemory | None = None,
        stays: StayFile | None = None,
        deadline: float = 30.0,
        timeout: float = 10.0,
        plain_http: bool = False,
        observer: Observer | None = None,
        micro_batching: MicroBatching | None = None,
    ) -> None:
        if act not in get_args(Acting):
            raise InvalidInput("act", act, "'device' or 'server'", "device is the default")
        if epsilon is not None and not 0 < epsilon < float("inf"):
            raise InvalidInput("epsilon", epsilon, "a finite number above 0", "give the ε that was promised")
        if not 0 < delta < 1:
            raise InvalidInput("delta", delta, "in (0, 1)", "give the δ that was promised")
        self.act: Acting = act
        self._budget, self.decisions, self.memory, self.stays = budget, decisions, memory, stays
        self.connection = Connection(
            url, key, deadline=deadline, timeout=timeout, plain_http=plain_http, observer=observer
        )
        self._micro_batcher = None if micro_batching is None else MicroBatcher(self.connection, micro_batching)
        if shuffler is not None and trust not in (None, "shuffle"):
            raise InvalidInput("shuffler", "given", f"None with trust={trust}", "the service gets everything there")
        self._demanded = trust if shuffler is None else "shuffle"
        self._epsilon, self._delta, self._shuffler = epsilon, delta, shuffler
        self._billboards: collections.OrderedDict[int, Billboard] = collections.OrderedDict()
        self._lock = threading.Lock()

    def episode(self, user: str, *, episode: str | None = None, enrolment: str | None = None) -> Episode:
        """An episode of ``user``, to be used in a ``with`` statement; an id of your own makes a restart safe too.

        ``enrolment`` is the token of the app's backend for the user, where the service asks for one.
        """
        return Episode(self, user, episode, enrolment)

    def resume_stay(self, user: str) -> Episode | None:
        """The open stay of ``user`` that this device keeps, after its finished visits; None without one.

        Raises:
          InvalidInput: the service's trust model or noise is not what the client demands, or the file is unreadable.
        """
        kept = None if self.stays is None else self.stays.recall(user)
        if kept is None:
            return None
        self.require_trustworthy()
        episode = Episode(self, user, str(kept["opened"]["episode"]))
        episode.resumed(kept)
        return episode

    def group(self, users: Sequence[str], *, enrolments: Mapping[str, str] | None = None) -> Group:
        """Episodes of several users, opened and submitted in one request each; for a backend that plays for many.

        ``enrolments`` are their tokens by user, where the service asks for them.
        """
        return Group(self, users, enrolments)

    def admit(
        self, users: Sequence[str], *, enrolments: Mapping[str, str] | None = None
    ) -> list[Ticket | ServiceError]:
        """Tickets for users who will play later, in their order, or why one was refused; for an app's backend.

        A device with a ticket makes one request, its report. Hand tickets out independently of what users do, and
        before they play: see :mod:`reticent_client.tickets`.

        Raises:
          InvalidInput: the service's trust model is not what the client demands; no user was named to it.
          ServiceError, Unreachable: it refused all of them, or did not answer.
        """
        self._require_demanded()
        vouched = {} if enrolments is None else enrolments
        named = [Episode(self, user, enrolment=vouched.get(user)).named for user in users]
        tickets: list[Ticket | ServiceError] = []
        for first in range(0, len(named), LARGEST_GROUP):
            part = named[first : first + LARGEST_GROUP]
            answers = self.connection.post("/v1/groups/episodes", {"users": part})["opened"]
            if len(answers) != len(part):
                raise ServiceError(200, title=f"{len(answers)} answers to {len(part)} members of a group")
            tickets += [self._ticket(*each) for each in zip(part, answers, strict=True)]
        return tickets

    def _ticket(self, named: dict[str, str], answer: dict[str, Any]) -> Ticket | ServiceError:
        if "type" not in answer:
            return Ticket(named["user"], answer)
        problem = ServiceError.read(int(answer["status"]), json.dumps(answer).encode(), None)
        if not problem.passing:
            return problem
        try:  # alone, with the patience that a single request has
            return Ticket(named["user"], self.connection.post("/v1/episodes", named))
        except ServiceError as refusal:
            return refusal

    def begin(self, ticket: Ticket) -> Episode:
        """The episode of a ticket, already open; to be used in a ``with`` statement. What it needs is published.

        A stay that this device keeps goes on after its finished visits if it is the ticket's own.

        Raises:
          InvalidInput: the service's trust model or noise is not what the client demands, or the ticket is of another one.
        """
        self.require_trustworthy()
        episode = Episode(self, ticket.user, str(ticket.opened["episode"]))
        kept = None if self.stays is None else self.stays.recall(ticket.user)
        if kept is not None and str(kept["opened"]["episode"]) == episode.id:
            episode.resumed(kept)
        else:
            episode.opened(ticket.opened)
        return episode

    def send(self, submission: Submission) -> Receipt:
        """Send what an episode formed, now or after a restart; sending twice counts once.

        Messages go to the shuffler alone.
        """
        if submission.kind == "messages":
            return self._hand_over(submission)
        route = f"/v1/episodes/{{episode}}/{submission.kind}"
        member = {"episode": submission.episode, **submission.content}
        answer = self._together(
            submission.kind, member, lambda: self.connection.post(submission.path, submission.content, route=route)
        )
        return Receipt.read(answer, submission)

    def open(self, named: dict[str, str]) -> dict[str, Any]:
        """The service's answer to a user who comes, as :attr:`Episode.named <reticent_client.episode.Episode.named>`."""
        return self._together("open", named, lambda: self.connection.post("/v1/episodes", named))

    def _together(self, kind: str, member: dict[str, Any], alone: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        return alone() if self._micro_batcher is None else self._micro_batcher.ask(kind, member, alone)

    def _hand_over(self, submission: Submission) -> Receipt:
        if self._shuffler is None:
            raise InvalidInput("shuffler", None, "given in the shuffle model", "make the Client with a shuffler")
        content, shape = submission.content, self.model.rules.noise_scale.shape
        ones, messages = (from_json(name, content[name], dtype="<i8", shape=shape) for name in ("ones", "messages"))
        came = int(content.get("restores", 0))
        self._shuffler(int(content["round"]), int(content["place"]), ones, messages, came)
        return Receipt(submission.episode, "sent", int(content["version"]))

    # -- what the service publishes -----------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """The public status: users admitted, versions, privacy promised and spent."""
        return self.connection.get("/v1/status")

    @functools.cached_property
    def trust(self) -> str:
        """The trust model of the deployment, asked for once."""
        return str(self._first_status["trust"])

    @functools.cached_property
    def _first_status(self) -> dict[str, Any]:
        return self.status()

    @functools.cached_property
    def model(self) -> Model:
        """The public model, fetched once: it cannot change during a deployment."""
        return Model.read(self.connection.get("/v1/model"))

    @functools.cached_property
    def names(self) -> Names:
        """What states and actions are called, fetched once."""
        return Names.read(self.connection.get("/v1/names"))

    @functools.cached_property
    def budget(self) -> Budget | None:
        """The device's own count of reports; never None in the local model."""
        if self._budget is None and self.trust == "local":
            return Budget.default(scope=self.connection.url)
        return self._budget

    def billboard(self, version: int) -> Billboard:
        """One version of the policy; those used last are kept, as they cannot change either."""
        with self._lock:
            if version in self._billboards:
                self._billboards.move_to_end(version)
                return self._billboards[version]
        board = Billboard.read(self.connection.get(f"/v1/billboards/{version}", route="/v1/billboards/{version}"))
        if board.version != version:
            raise InvalidInput("billboard.version", board.version, str(version), "ask the service's operator")
        if self.trust != "joint" or board.remembers:
            if board.model != self.model.digest:
                raise InvalidInput(
                    "billboard.model", board.model, self.model.digest, "make a new Client: the model changed"
                )
            self.model.rules.form.require_version(self.model, board)
            board.require_sizes(self.model)
        with self._lock:
            self._billboards[version] = board
            while len(self._billboards) > VERSIONS_KEPT:
                self._billboards.popitem(last=False)
        return board

    def belief(self, billboard: Billboard, user: str | None = None) -> Belief | None:
        """What a ``user`` who is served ``billboard`` acts on at first; None where users act by the policy alone."""
        if not billboard.remembers:
            return None
        known = None if self.memory is None or user is None else self.memory.recall(user, self.model.digest)
        return self.model.rules.form.belief(self.model, billboard, known)

    def visits(self, billboard: Billboard) -> int:
        """V, of one stay, which is one report. A joint service whose users may act by the policy alone has none, and its
        model is not fetched."""
        needed = self.trust != "joint" or billboard.remembers or self._first_status.get("device_acts", False)
        return self.model.visits if needed else 1

    def reference(self, served: int, own_round: int | None) -> Billboard:
        """What a contribution of now is formed under: the version that its user was ``served``, or a round's reference.

        With a shuffler that is the reference of their own round, elsewhere of the round that is open now. After the last
        round nothing counts, and anything will do.
        """
        if self.model.rules.form.formed_under == "served":
            return self.billboard(served)
        if own_round is not None:
            return self.billboard(own_round)
        current = self.connection.get("/v1/round")["reference"]
        return self.billboard(served if current is None else int(current))

    def require_trustworthy(self) -> None:
        """Check the service's trust model, and what its rules promise, before a user is named to it.

        Raises:
          InvalidInput: it is not what was demanded, or this client does not know it.
        """
        self._require_demanded()
        if self.trust not in SUBMISSIONS:
            raise InvalidInput("trust", self.trust, f"one of {', '.join(SUBMISSIONS)}", "use a newer client")
        if self.act == "server" and self._first_status.get("device_acts", False):
            raise InvalidInput(
                "act", "server", "device where users act on a belief about themselves or report a whole stay",
                "let the client act: a server would have to be shown the whole episode for every action",
            )  # fmt: skip
        if self.trust != "joint":
            if self.act == "server":
                raise InvalidInput(
                    "act", "server", f"device in the {self.trust} model", "asking for actions would show every state"
                )
            self._noise_checked  # noqa: B018  (computed once, raises)
            if isinstance(self._shuffler, Shuffler):  # else places are used up for nothing
                self._shuffler.require_started()

    def require_rules(self, opened: Mapping[str, Any]) -> None:
        """Check that a report of a user who was ``opened`` is formed and noised by the rules of their deployment.

        A client may outlive a deployment at its address, or be given the model of an old one by a cache on the way: it
        fetches the model once more then, and examines it like the first.

        Raises:
          InvalidInput: its rules are still others, or not what the client demands; nothing may be formed.
        """
        rules = opened.get("rules")
        if self.trust == "joint" or not rules or rules == self.model.rules.digest:
            return
        for published in ("model", "_noise_checked"):
            self.__dict__.pop(published, None)
        with self._lock:
            self._billboards.clear()
        self.require_trustworthy()
        if rules != self.model.rules.digest:
            raise InvalidInput(
                "report.digest", self.model.rules.digest, f"{rules}, as the service said to the user",
                "do not send; a cache on the way has another deployment's model",
            )  # fmt: skip

    def _require_demanded(self) -> None:
        if self._demanded is not None and self.trust != self._demanded:
            raise InvalidInput("trust", self.trust, f"{self._demanded}, as demanded", "do not send; ask its operator")

    @functools.cached_property
    def _noise_checked(self) -> bool:
        if self.trust != "shuffle":
            assert self.budget is not None  # the local model
            self.budget.require_usable()
            require_promise(self.model, self._epsilon, self._delta, max(1, self.budget.reports))
            return True
        if self._shuffler is None:
            raise InvalidInput("shuffler", None, "given in the shuffle model", "make the Client with a shuffler")
        if self._epsilon is not None:
            raise InvalidInput(
                "epsilon", self._epsilon, "None in the shuffle model", "a device cannot see whether others flip coins"
            )
        require_shuffle(self.model)
        return True

    # -- connections --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the connections."""
        self.connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

# SPDX-License-Identifier: Apache-2.0
"""A device's or an app's way to the service: users' episodes, with policies and model fetched once and kept."""

from __future__ import annotations

import collections
import functools
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, get_args

from reticent_client.budget import Budget
from reticent_client.connection import Connection, Observer
from reticent_client.decisions import DecisionObserver
from reticent_client.episode import Episode
from reticent_client.group import Group
from reticent_client.messages import Handover, require_shuffle
from reticent_client.names import Names
from reticent_client.submission import SUBMISSIONS, Receipt, Submission
from reticent_wire.arrays import from_json
from reticent_wire.billboard import Billboard
from reticent_wire.errors import InvalidInput
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
        every state and is refused in the local model.
      trust: demand this trust model; by default whatever the service says. A device that was promised the local model
        should demand it: otherwise a service that says ``joint`` is sent raw trajectories.
      epsilon, delta: in the local model, demand that all reports that the ``budget`` allows a user are together
        (ε, δ)-private; by default any noise will do. The
        device works it out itself (:mod:`reticent_wire.promise`). It cannot with a shuffler: others flip the coins.
      shuffler: in the shuffle model, who gets an episode's messages: a :class:`~reticent_client.shuffler.Shuffler` or any
        callable ``(round, place, ones, messages, restores)``. Whoever gives one demands the shuffle model.
      budget: the device's own count of reports (:class:`~reticent_client.budget.Budget`): a user whose budget is spent is
        served without a report, whatever the service asks for. In the local model there is always one: by default one
        report in :meth:`Budget.default <reticent_client.budget.Budget.default>`, whose scope is ``url``. One that is
        forgotten at the end of the process must be asked for (``Budget.in_memory()``). In the other models there is none
        by default, and the service is trusted to ask once.
      decisions: told of every decision with its probability, on this device, such as a
        :class:`~reticent_client.decisions.DecisionLog`. Nothing of it is sent.
      deadline, timeout, plain_http, observer: of the connection (:class:`~reticent_client.connection.Connection`).
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
        shuffler: Handover | None = None,
        budget: Budget | None = None,
        decisions: DecisionObserver | None = None,
        deadline: float = 30.0,
        timeout: float = 10.0,
        plain_http: bool = False,
        observer: Observer | None = None,
    ) -> None:
        if act not in get_args(Acting):
            raise InvalidInput("act", act, "'device' or 'server'", "device is the default")
        if epsilon is not None and not 0 < epsilon < float("inf"):
            raise InvalidInput("epsilon", epsilon, "a finite number above 0", "give the ε that was promised")
        if not 0 < delta < 1:
            raise InvalidInput("delta", delta, "in (0, 1)", "give the δ that was promised")
        self.act: Acting = act
        self._budget, self.decisions = budget, decisions
        self.connection = Connection(
            url, key, deadline=deadline, timeout=timeout, plain_http=plain_http, observer=observer
        )
        if shuffler is not None and trust not in (None, "shuffle"):
            raise InvalidInput("shuffler", "given", f"None with trust={trust}", "the service gets everything there")
        self._demanded = trust if shuffler is None else "shuffle"
        self._epsilon, self._delta, self._shuffler = epsilon, delta, shuffler
        self._billboards: collections.OrderedDict[int, Billboard] = collections.OrderedDict()
        self._lock = threading.Lock()

    def episode(self, user: str, *, episode: str | None = None, enrolment: str | None = None) -> Episode:
        """An episode of ``user``, to be used in a ``with`` statement; an id of your own makes a restart safe too.

        ``enrolment`` is the token of the app's backend for her, where the service asks for one.
        """
        return Episode(self, user, episode, enrolment)

    def group(self, users: Sequence[str], *, enrolments: Mapping[str, str] | None = None) -> Group:
        """Episodes of several users, opened and submitted in one request each; for a backend that plays for many.

        ``enrolments`` are their tokens by user, where the service asks for them.
        """
        return Group(self, users, enrolments)

    def send(self, submission: Submission) -> Receipt:
        """Send what an episode formed, now or after a restart; sending twice counts once.

        Messages go to the shuffler, and to nobody else.
        """
        if submission.kind == "messages":
            return self._hand_over(submission)
        answer = self.connection.post(
            submission.path, submission.content, route=f"/v1/episodes/{{episode}}/{submission.kind}"
        )
        return Receipt.read(answer, submission)

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
        return str(self.status()["trust"])

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
        if self.trust != "joint":
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

    def reference(self, served: int, own_round: int | None) -> Billboard:
        """What a contribution of now is formed under: the version that its user was ``served``, or a round's reference.

        With a shuffler that is the reference of her own round, elsewhere of the round that is open now. After the last
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
        if self._demanded is not None and self.trust != self._demanded:
            raise InvalidInput("trust", self.trust, f"{self._demanded}, as demanded", "do not send; ask its operator")
        if self.trust not in SUBMISSIONS:
            raise InvalidInput("trust", self.trust, f"one of {', '.join(SUBMISSIONS)}", "use a newer client")
        if self.trust != "joint":
            if self.act == "server":
                raise InvalidInput(
                    "act", "server", f"device in the {self.trust} model", "asking for actions would show every state"
                )
            self._noise_checked  # noqa: B018  (computed once, raises)

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

# SPDX-License-Identifier: Apache-2.0
"""One JSON request, one answer: connections that are kept, retries that are safe, and an end to waiting.

Every request of this client may be sent twice: it reads something published, or it carries an episode id that the client
chose. So a lost answer, a 5xx and a 429 are tried again until the deadline, with pauses that double and are drawn at
random, or that the service asked for. All other refusals are final at once.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import random
import threading
import time
import urllib.parse
from collections.abc import Callable
from typing import Any

from reticent_client.problems import ServiceError, Unreachable
from reticent_wire.errors import InvalidInput

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds: pauses are uniform between 0 and a bound that starts at the first and doubles up to the second."""

Observer = Callable[[str, float, int], None]
"""Told of every attempt: its route with ids left out, its seconds, and the HTTP status (0 if there was no answer)."""


class Connection:
    """Sends requests to one service; safe to share between threads, each of which has its own kept connection.

    Args:
      url: address of the service, ``https`` unless it is on this machine (or ``plain_http`` says that it may be).
      key: the bearer key.
      deadline: seconds for one request, all attempts and pauses included.
      timeout: seconds for one attempt.
      observer: told of every attempt; for measurements.
    """

    def __init__(
        self,
        url: str,
        key: str | None,
        *,
        deadline: float = 30.0,
        timeout: float = 10.0,
        plain_http: bool = False,
        observer: Observer | None = None,
    ) -> None:
        parts = urllib.parse.urlsplit(url)
        host = parts.hostname or ""
        if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
            raise InvalidInput("url", url, "http(s)://host[:port][/path]", "give the address of the service")
        if parts.scheme == "http" and not (plain_http or is_loopback(host)):
            raise InvalidInput(
                "url", url, "https, away from this machine", "use https, or plain_http=True in a network of your own"
            )
        for field, value in (("deadline", deadline), ("timeout", timeout)):
            if not 0 < value < float("inf"):
                raise InvalidInput(field, value, "a finite number of seconds above 0", "30 and 10 are the defaults")
        self.url = url.rstrip("/")
        self.deadline = deadline
        self._host, self._port, self._base = host, parts.port, parts.path.rstrip("/")
        self._make = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        self._timeout, self._observer = timeout, observer
        self._mine = threading.local()
        self._all: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()
        self._random = random.SystemRandom()

    def get(self, path: str, *, route: str | None = None) -> dict[str, Any]:
        """The JSON object at ``path``."""
        return self._request("GET", path, None, route)

    def post(self, path: str, content: dict[str, Any], *, route: str | None = None) -> dict[str, Any]:
        """The answer to a JSON object. Only for requests that are safe to repeat, which all of this service's are."""
        return self._request("POST", path, json.dumps(content, separators=(",", ":")).encode(), route)

    def close(self) -> None:
        """Close every thread's connection; a later request opens a new one."""
        with self._lock:
            for connection in self._all:
                connection.close()

    def _request(self, method: str, path: str, body: bytes | None, route: str | None) -> dict[str, Any]:
        start, attempts, bound = time.monotonic(), 0, FIRST_PAUSE
        while True:
            attempts += 1
            left = self.deadline - (time.monotonic() - start)
            wanted = None
            try:
                return self._attempt(method, path, body, route or path, min(self._timeout, max(left, 0.001)))
            except ServiceError as refusal:
                if not refusal.passing:
                    raise
                problem: Exception = refusal
                wanted = refusal.retry_after
            except (OSError, http.client.HTTPException) as failure:
                problem = failure
            pause = self._random.uniform(0, bound) if wanted is None else wanted
            bound = min(2 * bound, LONGEST_PAUSE)
            elapsed = time.monotonic() - start
            if elapsed + pause >= self.deadline:
                if isinstance(problem, ServiceError):
                    raise problem
                raise Unreachable(self.url, attempts, elapsed, problem) from problem
            time.sleep(pause)

    def _attempt(self, method: str, path: str, body: bytes | None, route: str, timeout: float) -> dict[str, Any]:
        """One exchange on this thread's connection, which is dropped if anything goes wrong on it."""
        connection = self._connection()
        headers = self._headers if body is None else self._headers | {"Content-Type": "application/json"}
        start, status = time.monotonic(), 0
        try:
            connection.timeout = timeout
            if connection.sock is None:
                connection.connect()
            connection.sock.settimeout(timeout)
            connection.request(method, self._base + path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
            status = answer.status
        except (OSError, http.client.HTTPException):
            connection.close()
            raise
        finally:
            if self._observer is not None:
                self._observer(f"{method} {route}", time.monotonic() - start, status)
        if not 200 <= status < 300:
            raise ServiceError.read(status, content, answer.getheader("Retry-After"))
        return _json_object(status, content)

    def _connection(self) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection | None = getattr(self._mine, "connection", None)
        if connection is None:
            connection = self._mine.connection = self._make(self._host, self._port)
            with self._lock:
                self._all.append(connection)
        return connection


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _json_object(status: int, content: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(content)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise ServiceError(
            status, title="the answer is not a JSON object", remedy="check that the address is a service"
        )
    return answer

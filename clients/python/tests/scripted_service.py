# SPDX-License-Identifier: Apache-2.0
"""A service that says what a test tells it to, lies included, and writes down what it is sent."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from make_vectors import example_billboard

from reticent_wire import Billboard, Model


class Sent(NamedTuple):
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def content(self) -> Any:
        return json.loads(self.body)

    @property
    def kind(self) -> str:
        return self.path.rsplit("/", 1)[-1]


Answer = tuple[int, Any] | None
"""A status and a JSON object; None loses the answer."""


@contextlib.contextmanager
def listening(handler: type[http.server.BaseHTTPRequestHandler]) -> Iterator[str]:
    """A server of this machine with this handler, at the address that is given."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


@contextlib.contextmanager
def serving(answer: Callable[[Sent], Answer]) -> Iterator[tuple[str, list[Sent]]]:
    """Serve by ``answer``, which may lose a request; and what was sent."""
    sent: list[Sent] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            sent.append(Sent(self.command, self.path, dict(self.headers.items()), body))
            given = answer(sent[-1])
            if given is None:
                self.close_connection = True
                return
            status, content = given
            text = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = answer

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    with listening(Handler) as url:
        yield url, sent


def admitting(
    model: Model, board: Billboard | None = None, changes: dict[str, Any] | None = None, **opened: Any
) -> Callable[[Sent], Answer]:
    """A deployment of the local model that admits every user as often as they come: what a service that was restored from a
    backup, or that lies, does.

    ``changes`` are its other lies, by path or by its last part; ``opened`` are those about an admission.
    """
    shown = example_billboard(model) if board is None else board
    trust = opened.get("trust", "local")
    published = {
        "/v1/status": {"trust": trust}, "/v1/model": model.to_json(), "/v1/round": {"reference": shown.version},
        f"/v1/billboards/{shown.version}": shown.to_json(),
    }  # fmt: skip

    def answer(sent: Sent) -> Answer:
        told = (changes or {}).get(sent.path, (changes or {}).get(sent.kind, "nothing"))
        if told != "nothing":
            return None if told is None else (200, told)
        if sent.method == "GET":
            return (200, published[sent.path]) if sent.path in published else (404, {})
        if sent.path == "/v1/episodes":
            return 201, admitted(sent.content["episode"])
        if sent.path == "/v1/groups/episodes":
            return 200, {"opened": [admitted(one["episode"]) for one in sent.content["users"]]}
        if sent.path == "/v1/groups/reports":
            return 200, {"receipts": [counted(one["episode"]) for one in sent.content["reports"]]}
        return 200, counted(sent.path.split("/")[3])

    def admitted(episode: str) -> dict[str, Any]:
        return {
            "episode": episode, "token": "a token", "version": shown.version, "trust": trust, "learning": True,
            "reason": None, "horizon": model.horizon, "round": 0, "place": 0, "reference": shown.version, **opened,
        }  # fmt: skip

    def counted(episode: str) -> dict[str, Any]:
        return {"episode": episode, "status": "counted", "version": shown.version}

    return answer

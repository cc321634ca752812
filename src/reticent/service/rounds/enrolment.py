# SPDX-License-Identifier: Apache-2.0
"""Enrolment tokens: the app's backend vouches for a user until a time, signed with Ed25519.

An app's key on a phone is extractable by anyone with the device: with it alone a stranger could make users up until all K
places are gone. With the setting ``enrolment_key`` a user is admitted only with a token that the backend signed for
their name. The service holds the public key only, so that not even it can make a user up.

A token is ``<payload>.<signature>`` in base64url without padding; the payload is the JSON list ``[user, expires_at]``, and
what is signed is :data:`PURPOSE` followed by the payload's bytes.
"""

from __future__ import annotations

import base64
import binascii
import json

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from reticent.service.rounds.refusals import Refusal

PURPOSE = b"reticent enrolment v1\n"


def issue(key: Ed25519PrivateKey, user: str, expires_at: float) -> str:
    """The backend's side: a token for ``user`` that holds until the Unix time ``expires_at``."""
    payload = json.dumps([user, expires_at], separators=(",", ":")).encode()
    return f"{_text(payload)}.{_text(key.sign(PURPOSE + payload))}"


class Enrolment:
    """The service's side: asks for a genuine token in time.

    Args:
      public_key: 64 hexadecimal digits.
    """

    def __init__(self, public_key: str) -> None:
        self._key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))

    def require(self, user: str, token: str | None, now: float) -> None:
        """Let ``user`` pass if the backend vouches for them.

        Raises:
          Refusal: there is no token, it is not genuine, another user's, or its time is over.
        """
        if token is None:
            raise Refusal("not-enrolled", "this service admits users with an enrolment token of the app's backend only")
        try:
            payload, signature = (_bytes(part) for part in token.split("."))
            self._key.verify(signature, PURPOSE + payload)
            named, until = json.loads(payload)
            held = named == user and now < float(until)
        except (ValueError, TypeError, binascii.Error, InvalidSignature):
            held = False
        if not held:
            raise Refusal("not-enrolled", "the enrolment token is not genuine, not this user's, or its time is over")


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode("ascii").rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)

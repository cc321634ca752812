"""What the deployment's secret is used for: names of users, tokens of episodes, coins of random policies, sums at rest.

Each purpose has a key of its own, derived by HKDF. All of it is standard: HMAC-SHA256 for names, tokens and coins,
AES-256-GCM for what is stored.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import hmac
import json
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from reticent.errors import InvalidInput

NONCE = 12
"""Bytes of a fresh random nonce; with at most 2^32 messages under one key, two are equal with probability 2^-33."""


@dataclasses.dataclass(frozen=True)
class EpisodeToken:
    """What the service must know of an open episode, kept by the client so that workers need no memory.

    Attributes:
      episode: its id.
      version: the plan that its user is served, to the end.
      learning: whether her episode will be learned from.
      expires_at: Unix time after which it will not.
      place: hers in her round, 0-based; None if she is not learned from.
    """

    episode: str
    version: int
    learning: bool
    expires_at: float
    place: int | None = None


class Secrets:
    """The keys of one deployment. Nothing here is ever printed or stored."""

    def __init__(self, secret: str) -> None:
        self._names, self._tokens, self._coins, rest = (
            HKDF(SHA256(), 32, None, f"reticent service v1 {purpose}".encode()).derive(secret.encode())
            for purpose in ("names", "tokens", "coins", "storage")
        )
        self._storage = AESGCM(rest)

    def __repr__(self) -> str:
        return "Secrets(...)"

    def name(self, user: str) -> str:
        """A user's name as it is stored: without the secret it can be neither read nor guessed."""
        return hmac.new(self._names, user.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()

    def coin(self, episode: str, step: int) -> float:
        """A uniform number in [0, 1) that nobody can foresee and that a retried request gets again."""
        digest = hmac.new(self._coins, f"{episode} {step}".encode(), hashlib.sha256).digest()
        return (int.from_bytes(digest[:8], "big") >> 11) / 2.0**53

    def sign(self, token: EpisodeToken) -> str:
        """The token as text: readable by anyone, but made by nobody else."""
        payload = json.dumps(dataclasses.astuple(token), separators=(",", ":")).encode()
        return f"{_text(payload)}.{_text(hmac.new(self._tokens, payload, hashlib.sha256).digest())}"

    def read(self, text: str) -> EpisodeToken:
        """The token of a text that :meth:`sign` made.

        Raises:
          InvalidInput: nobody here made it.
        """
        try:
            payload, mark = (_bytes(part) for part in text.split("."))
        except (ValueError, binascii.Error):
            payload, mark = b"", b""
        if not hmac.compare_digest(hmac.new(self._tokens, payload, hashlib.sha256).digest(), mark):
            raise InvalidInput("token", "not genuine", "one that this service gave out", "send it unchanged")
        return EpisodeToken(*json.loads(payload))

    def seal(self, content: bytes, where: str) -> bytes:
        """Encrypt what is stored at ``where``; it can be opened there only."""
        nonce = os.urandom(NONCE)
        return nonce + self._storage.encrypt(nonce, content, where.encode())

    def unseal(self, content: bytes, where: str) -> bytes:
        """The inverse of :meth:`seal`.

        Raises:
          InvalidInput: another secret sealed it, it belongs elsewhere, or it was changed.
        """
        try:
            return self._storage.decrypt(content[:NONCE], content[NONCE:], where.encode())
        except InvalidTag:
            remedy = "start with the secret that the deployment was begun with"
            raise InvalidInput("RETICENT_USER_SECRET", "another one", f"the one that sealed {where}", remedy) from None


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode("ascii").rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)

# SPDX-License-Identifier: Apache-2.0
"""What the deployment's secret is used for: names of users, tokens of episodes, coins of random policies, sums at rest.

Each purpose has a key of its own, derived by HKDF. All of it is standard: HMAC-SHA256 for names, tokens, coins and the
rollback guard, AES-256-GCM for what is stored, Ed25519 for what outsiders check. Seals and tokens are bound to one
deployment: under the same secret, what belongs to one means nothing to another.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hmac
import json
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
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
      learning: whether the episode will be learned from.
      expires_at: Unix time after which it will not.
      place: of the user in their round, 0-based; None if the user is not learned from.
      restores: how often the store had been restored when the user came.
    """

    episode: str
    version: int
    learning: bool
    expires_at: float
    place: int | None = None
    restores: int = 0


class Damaged(InvalidInput):
    """Sealed content that does not open: another secret's, another place's, or changed."""


class Secrets:
    """The keys of the deployment with this ``identity``. Nothing here is ever printed or stored."""

    def __init__(self, secret: str, identity: str = "") -> None:
        self._secret, self._identity = secret, identity.encode()
        *marking, signing, rest = (
            HKDF(SHA256(), 32, None, f"reticent service v1 {purpose}".encode()).derive(secret.encode())
            for purpose in ("names", "tokens", "coins", "witness", "erased", "ledger", "storage")
        )
        self._names, self._tokens, self._coins, self._witness, self._erased = (
            hmac.new(key, digestmod="sha256") for key in marking
        )
        self._storage, self._signing = AESGCM(rest), Ed25519PrivateKey.from_private_bytes(signing)

    def of(self, identity: str) -> Secrets:
        """The same secret's keys for the deployment with this identity."""
        return Secrets(self._secret, identity)

    def sign_entry(self, content: bytes) -> bytes:
        """An Ed25519 signature that :attr:`public_key` verifies."""
        return self._signing.sign(content)

    @property
    def public_key(self) -> str:
        """For outsiders: 64 hexadecimal digits."""
        return self._signing.public_key().public_bytes_raw().hex()

    def mark(self, content: bytes) -> str:
        """What makes the rollback guard's own writing known."""
        return _mac(self._witness, content).hex()

    def __repr__(self) -> str:
        return "Secrets(...)"

    def name(self, user: str) -> str:
        """A user's name as it is stored: without the secret it can be neither read nor guessed."""
        return _mac(self._names, user.encode("utf-8", "surrogatepass")).hex()

    def erased(self, episode: str) -> str:
        """What stands in the place of the id of an erased episode: a holder of the id can be recognised, and it cannot be
        found out from this."""
        return _mac(self._erased, self._identity + episode.encode()).hex()[:32]

    def disowned(self, name: str, episode: str) -> str:
        """What stands in the place of a user's stored name with one erased episode.

        It is another one with each, so that no two of them can be put together. A request in that user's name
        is recognised, and one in another name is not.
        """
        return _mac(self._erased, self._identity + f"{name} {episode}".encode()).hex()

    def coin(self, episode: str, step: int) -> float:
        """A uniform number in [0, 1) that cannot be foreseen and that a retried request gets again."""
        digest = _mac(self._coins, f"{episode} {step}".encode())
        return (int.from_bytes(digest[:8], "big") >> 11) / 2.0**53

    def sign(self, token: EpisodeToken) -> str:
        """The token as text: readable by anyone, made here only."""
        content = (token.episode, token.version, token.learning, token.expires_at, token.place, token.restores)
        payload = json.dumps(content, separators=(",", ":")).encode()
        return f"{_text(payload)}.{_text(_mac(self._tokens, self._identity + payload))}"

    def read(self, text: str) -> EpisodeToken:
        """The token of a text that :meth:`sign` made.

        Raises:
          InvalidInput: it was not made here.
        """
        try:
            payload, mark = (_bytes(part) for part in text.split("."))
        except (ValueError, binascii.Error):
            payload, mark = b"", b""
        if not hmac.compare_digest(_mac(self._tokens, self._identity + payload), mark):
            raise InvalidInput("token", "not genuine", "one that this service gave out", "send it unchanged")
        return EpisodeToken(*json.loads(payload))

    def seal(self, content: bytes, where: str) -> bytes:
        """Encrypt what is stored at ``where``; it can be opened there only."""
        nonce = os.urandom(NONCE)
        return nonce + self._storage.encrypt(nonce, content, self._identity + where.encode())

    def unseal(self, content: bytes, where: str) -> bytes:
        """The inverse of :meth:`seal`.

        Raises:
          Damaged: another secret sealed it, it belongs elsewhere, or it was changed.
        """
        try:
            return self._storage.decrypt(content[:NONCE], content[NONCE:], self._identity + where.encode())
        except InvalidTag:
            remedy = "start with the secret that the deployment was begun with"
            raise Damaged("RETICENT_USER_SECRET", "another one", f"the one that sealed {where}", remedy) from None


def _mac(key: hmac.HMAC, content: bytes) -> bytes:
    """HMAC-SHA256. Not ``hmac.digest``: that lets go of the interpreter, and getting it back takes longer than the work."""
    mac = key.copy()
    mac.update(content)
    return mac.digest()


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode("ascii").rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)

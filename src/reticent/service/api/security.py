"""Who may ask: apps open episodes, admins end rounds, and published numbers are for everyone who may read them."""

from __future__ import annotations

import hashlib
import hmac
from typing import Annotated

from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from reticent.service.config import Settings

BEARER = HTTPBearer(auto_error=False, description="An app key or an admin key.")
Given = Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)]


class Keys:
    """Hashes of the accepted keys."""

    def __init__(self, settings: Settings) -> None:
        self._app, self._admin = settings.key_hashes("app"), settings.key_hashes("admin")
        self.open_reads = settings.open_reads

    def is_app(self, key: str) -> bool:
        """Whether an app or an admin has this key."""
        return _among(key, self._app) | self.is_admin(key)

    def is_admin(self, key: str) -> bool:
        return _among(key, self._admin)


def _among(key: str, hashes: tuple[str, ...]) -> bool:
    """Whether a key's hash is in the list; takes as long whichever it is."""
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
    found = False
    for known in hashes:
        found |= hmac.compare_digest(digest, known)
    return found


def require_app(request: Request, given: Given) -> None:
    """For routes of apps; an admin may use them too."""
    if given is None or not request.app.state.keys.is_app(given.credentials):
        raise _unauthorized()


def require_reader(request: Request, given: Given) -> None:
    """For published numbers: open on a loopback address or by setting, else for holders of a key."""
    if not request.app.state.keys.open_reads:
        require_app(request, given)


def require_admin(request: Request, given: Given) -> None:
    """For routes of admins."""
    require_app(request, given)
    assert given is not None
    if not request.app.state.keys.is_admin(given.credentials):
        raise HTTPException(403, "this needs an admin key")


def _unauthorized() -> HTTPException:
    return HTTPException(401, "send a valid key as 'Authorization: Bearer <key>'", {"WWW-Authenticate": "Bearer"})

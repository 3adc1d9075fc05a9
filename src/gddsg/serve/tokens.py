"""Who may do what: bearer tokens, of which only digests are kept."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from gddsg.errors import InputError
from gddsg.serve.journal import Journal

Rights = Literal["read", "teach"]

_PREFIX = "gddsg_"
_BYTES = 32
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._@-]{0,63}")
_SECONDS_REMEMBERED = 1.0


@dataclass(frozen=True)
class Client:
    """Who makes a request.

    Attributes
    ----------
    name : str
        Of the token, or the address where none is needed.
    rights : {"read", "teach"}
        Who may teach may read, too.
    """

    name: str
    rights: Rights


def add_token(journal: Journal, name: str, rights: Rights) -> str:
    """A new token; nobody can find it out later.

    Parameters
    ----------
    journal : Journal
        Where its digest is kept.
    name : str
        What the audit log calls its owner.
    rights : {"read", "teach"}
        What it allows.
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} cannot be the name of a token. Expected 1 to 64 letters, digits, blanks, . _ @ or -."
        )
    token = _PREFIX + secrets.token_urlsafe(_BYTES)
    if not journal.set_token(name, digest_token(token), rights):
        raise InputError(f"There is a token {name!r} already. Remove it first, or choose another name.")
    return token


def digest_token(token: str) -> bytes:
    """What is kept of a token: 32 random bytes cannot be guessed, so one round of SHA-256 is enough.

    Parameters
    ----------
    token : str
        As the client has it.
    """
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()


class Tokens:
    """The tokens of a service; one that is added or removed meanwhile counts within a second.

    Parameters
    ----------
    journal : Journal
        Where their digests are.
    clock : callable
        Seconds.
    """

    def __init__(self, journal: Journal, clock: Callable[[], float] = time.monotonic) -> None:
        self._journal, self._clock = journal, clock
        self.refresh()

    @property
    def stale(self) -> bool:
        """Whether somebody should call :meth:`refresh`."""
        return self._clock() - self._then > _SECONDS_REMEMBERED

    def refresh(self) -> None:
        """Read the tokens again; that may take a moment, and has to wait for who writes."""
        self._then, self._known = self._clock(), self._journal.tokens()

    def any(self) -> bool:
        """Whether there are tokens at all."""
        return bool(self._known)

    def find(self, token: str) -> Client | None:
        """The client that has this token; None where nobody has.

        Parameters
        ----------
        token : str
            As the client gives it.
        """
        given, found = digest_token(token), None
        for name, digest, rights, _ in self._known:  # all of them: time tells nothing about which one it was
            if hmac.compare_digest(given, digest):
                found = Client(name, "teach" if rights == "teach" else "read")
        return found

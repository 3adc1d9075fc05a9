"""What the service tells a client whose request it cannot carry out."""

from __future__ import annotations

from gddsg.errors import (
    BackboneError,
    DataError,
    GddsgError,
    InputError,
    ModelFileError,
    PhotoError,
    UnknownClassError,
)


class RequestError(Exception):
    """A request that is refused.

    Parameters
    ----------
    status : int
        Of the HTTP answer.
    code : str
        One word for programs.
    message : str
        What was given and what was expected.
    hint : str
        What to do.
    retry_after : int or None
        Seconds after which the same request may be carried out.
    """

    def __init__(self, status: int, code: str, message: str, hint: str = "", retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.hint, self.retry_after = status, code, message, hint, retry_after

    @property
    def body(self) -> dict[str, dict[str, str]]:
        """What the client is sent."""
        return {"error": {"code": self.code, "message": self.message, "hint": self.hint}}

    @property
    def headers(self) -> dict[str, str]:
        """Those that go with it."""
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}


_KINDS: tuple[tuple[type[GddsgError], int, str, str], ...] = (
    (UnknownClassError, 404, "unknown_class", "GET /v1/classes lists the classes there are."),
    (ModelFileError, 503, "storage", "Look at the disk and at the model file, then try again."),
    (BackboneError, 409, "backbone", "Start the service with the backbone that the model was learnt with."),
    (PhotoError, 422, "unusable_photo", "Send JPEG, PNG, WebP or another usual format."),
    (DataError, 422, "unusable", "Change the request as the message says."),
    (InputError, 422, "unusable", "Change the request as the message says."),
)


def fault_of(error: GddsgError) -> RequestError:
    """What to tell of an error of the library.

    Parameters
    ----------
    error : GddsgError
        The error.
    """
    for kind, status, code, hint in _KINDS:
        if isinstance(error, kind):
            return RequestError(status, code, str(error), hint, retry_after=5 if status == 503 else None)
    return RequestError(422, "unusable", str(error))


def busy(what: str, seconds: int = 1) -> RequestError:
    """There is more to do than can wait.

    Parameters
    ----------
    what : str
        What is waiting.
    seconds : int
        After which to try again.
    """
    return RequestError(503, "busy", f"Too many {what} are waiting.", "Try again in a moment.", retry_after=seconds)

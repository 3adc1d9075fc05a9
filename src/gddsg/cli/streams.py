"""Standard output and error that never fail a command in the middle: what goes wrong is remembered to the end."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO


class SteadyStream(io.TextIOBase):
    """A stream that takes any text and raises nothing.

    Characters that the encoding cannot show are written as backslash escapes. The first write that fails (a full disk,
    a closed descriptor, a reader that has gone) is the last one that is tried; the rest is dropped.

    Parameters
    ----------
    stream : file object or None
        Where the text goes; None where there is none, as Python has it for a descriptor closed from the start.

    Attributes
    ----------
    failure : Exception or None
        Why writing ended.
    is_answer : bool
        Whether the text is what the command was asked for, so that losing it is an error.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self.failure: Exception | None = None
        self.is_answer = True

    @property
    def encoding(self) -> str:  # type: ignore[override]  # a plain attribute in the base class, which is empty there
        """Of the stream below."""
        return getattr(self._stream, "encoding", None) or "utf-8"

    @property
    def reader_has_gone(self) -> bool:
        """Whether writing ended because nobody reads any more, as with ``| head``."""
        return isinstance(self.failure, BrokenPipeError)

    @property
    def reason(self) -> str:
        """Why writing ended, for messages."""
        return getattr(self.failure, "strerror", None) or str(self.failure)

    def writable(self) -> bool:
        """Always."""
        return True

    def isatty(self) -> bool:
        """Whether a person looks at it."""
        with suppress(OSError, ValueError):
            return self._stream is not None and self._stream.isatty()
        return False

    def fileno(self) -> int:
        """Of the stream below."""
        return self._existing().fileno()

    def write(self, text: str) -> int:
        """Write text, or remember why not."""
        shown = text.encode(self.encoding, "backslashreplace").decode(self.encoding)
        if self.failure is None:
            try:
                self._existing().write(shown)
            except (OSError, ValueError) as error:  # ValueError: the stream was closed
                self.failure = error
        return len(text)

    def flush(self) -> None:
        """Hand on what was written, or remember why not."""
        if self.failure is None and self._stream is not None:
            try:
                self._stream.flush()
            except (OSError, ValueError) as error:
                self.failure = error

    def finish(self) -> None:
        """Flush; after a failure, lead the descriptor nowhere, for Python would try the rest again as it exits."""
        self.flush()
        if self.failure is not None and self._stream is not None:
            with suppress(OSError, ValueError), Path(os.devnull).open("wb") as nowhere:
                os.dup2(nowhere.fileno(), self._stream.fileno())

    def _existing(self) -> TextIO:
        if self._stream is None:
            raise OSError(errno.EBADF, "it is closed")
        return self._stream


@contextmanager
def steady_streams() -> Iterator[tuple[SteadyStream, SteadyStream]]:
    """While inside, standard output and error raise nothing; gives both."""
    _occupy_standard_descriptors()
    before = sys.stdout, sys.stderr
    out, err = SteadyStream(sys.stdout), SteadyStream(sys.stderr)
    sys.stdout, sys.stderr = out, err
    try:
        yield out, err
    finally:
        out.finish()
        err.finish()
        sys.stdout, sys.stderr = before


def work_is_done() -> None:
    """Say that what the command was asked for has happened: output that cannot be written is no failure of it."""
    if isinstance(sys.stdout, SteadyStream):
        sys.stdout.is_answer = False


def _occupy_standard_descriptors() -> None:
    """Open those of 0, 1 and 2 that are closed, lest the next file to be opened be taken for standard output."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)

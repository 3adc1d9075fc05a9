"""What follows from a value that never changes: computed when it is first asked for, once, by whichever thread asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Kept = TypeVar("Kept")
Derived = TypeVar("Derived")


class Once(Generic[T]):
    """A cell that is filled once. It pickles as an empty one: what follows from a value need not be stored with it.

    Examples
    --------
    >>> square = Once()
    >>> square.get(lambda: 7**2), square.get(lambda: 0)
    (49, 49)
    """

    __slots__ = ("_found", "_lock")

    def __init__(self) -> None:
        self._lock = Lock()
        self._found: tuple[T, ...] = ()

    def peek(self) -> T | None:
        """The value if it is there already, else None; nobody waits."""
        return self._found[0] if self._found else None

    def get(self, compute: Callable[[], T]) -> T:
        """The value; computed now if nobody has asked before. Others who ask meanwhile wait for it.

        Parameters
        ----------
        compute : callable
            Gives the value. Where it raises, the cell stays empty and the next who asks tries again.
        """
        if not self._found:
            with self._lock:
                if not self._found:
                    self._found = (compute(),)
        return self._found[0]

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), ())


@dataclass(frozen=True, eq=False)
class Carried(Generic[Kept, Derived]):
    """What a learner carries from task to task, and what follows from it.

    Attributes
    ----------
    kept : Kept
        Sums, samples or the like; never changed in place.
    derived : Once[Derived]
        What is computed from ``kept`` for predictions, such as weights.
    """

    kept: Kept
    derived: Once[Derived] = field(default_factory=Once)


class Lazy(Generic[T]):
    """A value that the first who asks computes; all who ask meanwhile wait for it and get the same.

    Parameters
    ----------
    compute : callable
        Gives the value; let go once it has done so.

    Examples
    --------
    >>> numbers = iter([7, 8])
    >>> number = Lazy(lambda: next(numbers))
    >>> number(), number()
    (7, 7)
    """

    def __init__(self, compute: Callable[[], T]) -> None:
        self._cell: Once[T] = Once()
        self._compute: Callable[[], T] | None = compute

    def __call__(self) -> T:
        """The value."""
        return self._cell.get(self._run)

    def _run(self) -> T:
        assert self._compute is not None  # the cell asks once
        value = self._compute()
        self._compute = None
        return value

    def peek(self) -> T | None:
        """The value if it is there already, else None; nobody waits."""
        return self._cell.peek()


class Part(Lazy[T]):
    """A part of something immutable that succeeds another, whose part it may start from.

    Parameters
    ----------
    compute : callable
        Gives the part, from the latest that was computed before it, or from None.
    before : Part or None
        The same part of the predecessor.

    Examples
    --------
    >>> first = Part(lambda earlier: [1], None)
    >>> second = Part(lambda earlier: [*(earlier or []), 2], first)  # nobody has asked for the first one yet
    >>> first(), Part(lambda earlier: [*(earlier or []), 3], first)(), second()
    ([1], [1, 3], [2])
    """

    def __init__(self, compute: Callable[[T | None], T], before: Part[T] | None) -> None:
        self._earlier = None if before is None else before.latest()
        super().__init__(lambda: compute(self._earlier))

    def _run(self) -> T:
        value = super()._run()
        self._earlier = None  # from now on the value is what a successor starts from
        return value

    def latest(self) -> T | None:
        """The value, or where nobody has asked for it the one it would be computed from."""
        earlier, value = self._earlier, self.peek()
        return earlier if value is None else value

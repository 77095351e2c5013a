"""Ask a site, and ask again while it is away or at work.

`call` sends a request to a site and returns its reply; it raises an OSError (such as TimeoutError) where none came.
Nothing here knows how.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from uneven import checks
from uneven.federation.messages import MOST_STEPS, read_message, write_message
from uneven.federation.policy import Refused

Call = Callable[[str, str], str]
Tell = Callable[[str, str, int, int], None]
"""Told of a site: its name, what it does, how many of its rows are done, and how many there are."""

PAUSES = (0.005, 0.5)
"""Seconds between two requests to a site that is busy or away: the first pause, and the longest."""

STANDSTILL = 60
"""A site at work is left out after so many times the patience without a further hundredth of its rows."""


class Lost(Refused):
    """A site was lost after it may have charged its rows."""


def tell_nothing(_site: str, _what: str, _done: int, _of: int) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class Ask:
    """How a server asks: by which call, how long it waits for a site that is away, and where it reports progress."""

    call: Call
    patience: float = 60.0
    tell: Tell = tell_nothing

    def __call__(self, site: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Reply of a site; asked again while it is away or still at work.

        Raises
        ------
        Refused
            Where the site says no to begin with.
        Lost
            Where it says no later, sends no message, or is at work without progress for too long.
        TimeoutError
            Where it was away for longer than the patience.
        """
        text, pause, work = write_message(request), PAUSES[0], _Work(site, STANDSTILL * self.patience)
        since, begun = time.monotonic(), False
        while True:
            try:
                answer = self.call(site, text)
            except UnicodeDecodeError:
                raise Lost(f"{site!r} sent something that is not a message") from None
            except OSError:
                begun = True  # it may have heard the request
                if time.monotonic() - since > self.patience:
                    raise TimeoutError(f"no answer from {site!r} for {self.patience:g} s") from None
            else:
                reply = _accepted(site, answer, begun)
                if "working" not in reply:
                    return reply
                since, begun = time.monotonic(), True
                self.tell(site, "at work", *work.follow(reply["working"]))
            time.sleep(pause)
            pause = min(2.0 * pause, PAUSES[1])


class _Work:
    """What a site at work says of its progress, and since when there was none."""

    def __init__(self, site: str, limit: float) -> None:
        self.site, self.limit, self.mark, self.of, self.since = site, limit, 0, 0, time.monotonic()

    def follow(self, working: Any) -> tuple[int, int]:
        """Rows that are done, and of how many; refused where they are not counts or do not grow."""
        with reading(self.site):
            of = checks.whole("of", working["of"], most=MOST_STEPS)
            rows = checks.whole("rows", working["rows"], least=0, most=of)
        self.of = self.of or of
        if 100 * (min(rows, self.of) - self.mark) >= self.of:
            self.mark, self.since = rows, time.monotonic()
        if time.monotonic() - self.since > self.limit:
            raise Lost(f"{self.site!r} was at work without progress for {self.limit:g} s")
        return rows, of


def _accepted(site: str, answer: str, begun: bool) -> dict[str, Any]:
    try:
        reply = read_message(answer)
    except ValueError:
        raise Lost(f"{site!r} sent something that is not a message") from None
    if "failed" in reply:
        raise Lost(f"{site!r} failed: {_one_line(reply['failed'])}")
    if "refused" in reply:
        raise (Lost if begun else Refused)(f"{site!r} refused: {_one_line(reply['refused'])}")
    return reply


@contextmanager
def reading(site: str) -> Iterator[None]:
    """Turn what is wrong with a site's reply into one line, for which the site is left out."""
    try:
        yield
    except Refused:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as wrong:
        said = f"{wrong.args[0]} is missing" if isinstance(wrong, KeyError) else str(wrong)
        raise Lost(f"{site!r} sent a wrong reply: {_one_line(said)}") from None


def _one_line(text: object) -> str:
    """What a site wrote, without control characters and not too long."""
    return "".join(one if one.isprintable() else " " for one in str(text)[:300])

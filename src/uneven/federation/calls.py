"""Ask a site, and ask again while it is away or at work.

`call` sends a request to a site and returns its reply; it raises an OSError (such as TimeoutError) where none came.
Nothing here knows how.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from uneven.federation.messages import read_message, write_message
from uneven.federation.policy import Refused

Call = Callable[[str, str], str]
Tell = Callable[[str, str, int, int], None]
"""Told of a site: its name, what it does, how many of its rows are done, and how many there are."""

PAUSES = (0.005, 0.5)
"""Seconds between two requests to a site that is busy or away: the first pause, and the longest."""


def no_tell(_site: str, _what: str, _done: int, _of: int) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class Ask:
    """How a server asks: by which call, how long it waits for a site that is away, and whom it tells of progress."""

    call: Call
    patience: float = 60.0
    tell: Tell = no_tell

    def __call__(self, site: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Reply of a site; asked again while it is away or still at work.

        Raises
        ------
        Refused
            Where the site says no, or cannot answer.
        TimeoutError
            Where it was away for longer than the patience.
        """
        text, pause, since = write_message(request), PAUSES[0], time.monotonic()
        while True:
            try:
                answer = self.call(site, text)
            except OSError:
                if time.monotonic() - since > self.patience:
                    raise TimeoutError(f"no answer from {site!r} for {self.patience:g} s") from None
            else:
                reply = _accepted(site, answer)
                if "working" not in reply:
                    return reply
                since = time.monotonic()
                self.tell(site, "at work", int(reply["working"]["rows"]), int(reply["working"]["of"]))
            time.sleep(pause)
            pause = min(2.0 * pause, PAUSES[1])


def _accepted(site: str, answer: str) -> dict[str, Any]:
    try:
        reply = read_message(answer)
    except ValueError:
        raise Refused(f"{site!r} sent something that is no message") from None
    for key in ("refused", "failed"):
        if key in reply:
            raise Refused(f"{site!r} {key}: {reply[key]}")
    return reply

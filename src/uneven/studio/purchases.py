"""What more rows of each source would change, and what they would cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from uneven.words import format_number

if TYPE_CHECKING:
    from uneven.io import SourceEntry
    from uneven.valuation import Valuation


def tabulate_purchases(
    entries: Sequence[SourceEntry], found: Valuation, more: int
) -> tuple[str, list[tuple[str, ...]]]:
    """What is compared, and a table of it: a header and a row for each source."""
    what = "expected excess" if found.anchored else "bound"
    rows: list[tuple[str, ...]] = [("more of", "rows then", f"{what} now", f"{what} then", "change", "cost")]
    for worth in found.worths:
        figures = format_number(found.bound), format_number(worth.next_bound), f"{100 * worth.next_change:+.3g}%"
        cost = tell_cost(find_entry(entries, worth.name), more)
        rows.append((worth.name, f"{worth.rows + more:,}", *figures, cost))
    return what, rows


def find_entry(entries: Sequence[SourceEntry], name: str) -> SourceEntry:
    """The source of a file that has this name in a plan; rows with a level of their own have their source's before it.

    >>> from uneven.io import SourceEntry
    >>> entries = [SourceEntry("a"), SourceEntry("a, b"), SourceEntry("a, b, c")]
    >>> find_entry(entries, "a, b (ε = 1)").name
    'a, b'
    """
    own = [one for one in entries if name == one.name or name.startswith(f"{one.name} (")]
    return max(own, key=lambda one: len(one.name))


def tell_cost(entry: SourceEntry, more: int) -> str:
    """What so many rows cost, where they have a price or one for each epsilon."""
    if entry.price is not None:
        return format_number(entry.price * more)
    if entry.prices is None:
        return "no price"
    return "; ".join(f"{format_number(price * more)} at ε = {epsilon:g}" for epsilon, price in entry.prices.items())

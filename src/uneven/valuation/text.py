"""A valuation in words, for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from uneven.planner import can_promise, describe_exchange, describe_problem, name_moments
from uneven.valuation.worths import Worth
from uneven.words import format_count, format_number, format_table, wrap

if TYPE_CHECKING:
    from uneven.valuation.valuing import Valuation


def summarize(found: Valuation) -> str:
    """Valuation as a few paragraphs: what to buy, why, the bound that it gives, and what more would be worth."""
    notes = [wrap([f"Note: {caveat}" for caveat in found.caveats])] if found.caveats else []
    advice = wrap(_describe_purchases(found))
    return "\n\n".join([_headline(found), _tabulate_sources(found), advice, _tabulate_next(found), *notes])


def format_money(value: float) -> str:
    """Money for a reader: with cents, or three digits of small amounts.

    >>> [format_money(x) for x in (1234.5, 2.0, 0.01234, 0.0)]
    ['1,234.50', '2.00', '0.0123', '0.00']
    """
    return f"{value:.3g}" if 0 < value < 0.1 else f"{value:,.2f}"


def _headline(found: Valuation) -> str:
    what = "What data is worth" if found.budget is None else f"What to buy with {format_money(found.budget)}"
    return wrap([f"{what}: {describe_problem(found.problem)}"])


def _tabulate_sources(found: Valuation) -> str:
    bought = {purchase.source: purchase.rows for purchase in found.purchases}
    rows = [("source", "noise", "on offer", "price", "buy", "cost", "worth in rows", "in money")]
    for worth in found.worths:
        count = bought.get(worth.name, 0)
        owned = worth.price is None
        rows.append(
            (
                worth.name,
                worth.noise.describe(),
                f"{worth.rows:,}" if not owned else f"{worth.rows:,} owned",
                "" if worth.price is None else format_money(worth.price),
                "" if owned else f"{count:,}",
                "" if worth.price is None else format_money(count * worth.price),
                f"{worth.exchange:.3g}",
                "" if worth.money is None else format_money(worth.money),
            )
        )
    return format_table(rows, right=(2, 3, 4, 5, 6, 7))


def _describe_purchases(found: Valuation) -> list[str]:
    by_name = {worth.name: worth for worth in found.worths}
    cleanest = max(found.worths, key=lambda worth: worth.precision)
    lines = []
    for purchase in found.purchases:
        equal = purchase.price / by_name[purchase.source].exchange
        lines.append(
            f"Buy {format_count(purchase.rows)} of {purchase.source!r} for {format_money(purchase.cost)}: there, "
            f"{format_money(equal)} buys as much as one row of {cleanest.name!r}."
        )
    bought = {purchase.source for purchase in found.purchases}
    unbought = [worth for worth in found.worths if worth.price is not None and worth.name not in bought]
    lines += [_explain_unbought(found, worth, cleanest) for worth in unbought]
    if all(worth.price is None for worth in found.worths):
        lines.append("Nothing is for sale: no source has a price.")
    return [*lines, *describe_exchange(found.exchange), _describe_bound(found)]


def _explain_unbought(found: Valuation, worth: Worth, cleanest: Worth) -> str:
    assert worth.price is not None
    if worth.name in found.declined:
        harm = "is not expected to lower the excess" if found.anchored else "would raise the bound"
        return f"Buy none of {worth.name!r}: buying it with this money {harm}."
    equal = worth.price / worth.exchange
    costs = f"there, {format_money(equal)} buys as much as one row of {cleanest.name!r}"
    enough = worth.money or 0.0
    if worth.price > enough * (1.0 + 1e-9):
        return (
            f"Buy none of {worth.name!r}: {costs}. At {format_money(enough)} per row or less it would be worth buying."
        )
    if found.budget is None:
        return f"Without a budget nothing is bought. {worth.name!r} would be first: {costs}."
    left = max(0.0, found.budget - found.spent)
    if worth.price > left:
        price, rest = format_money(worth.price), format_money(left)
        return f"Buy none of {worth.name!r}: one row costs {price}, more than the {rest} left."
    return f"Buy none of {worth.name!r}: it is as good a deal as where the money ends, but no better."


def _describe_bound(found: Valuation) -> str:
    if found.anchored:
        bought = f"; without buying, {format_number(found.bound_before)}" if found.purchases else " with what is owned"
        return f"Expected excess objective of a fit: {format_number(found.bound)}{bought} ({found.theorem})."
    what = f"{found.theorem}, {name_moments(found.moments)}"
    least = f"the mean of ‖w - w*‖² is at most {format_number(found.bound)}"
    if not found.purchases:
        return f"Bound with what is owned: {least} ({what}).{_explain_bound(found)}"
    before = f"without buying, at most {format_number(found.bound_before)}"
    return f"Bound: {least}; {before} ({what}).{_explain_bound(found)}"


def _explain_bound(found: Valuation) -> str:
    """That the bound guarantees no useful model, where that is so: what it is good for."""
    if (found.owned or found.purchases) and can_promise(found.plan()):
        return ""
    return " It guarantees no useful model, since all-zero weights meet it too: it only ranks what to buy."


def _tabulate_next(found: Valuation) -> str:
    rows = [("source", "price", "excess" if found.anchored else "bound", "change", "more precision")]
    for worth in found.worths:
        price = "" if worth.price is None else format_money(found.more * worth.price)
        share = f"{100 * worth.next_precision:+.3g}%" if worth.next_precision < float("inf") else "all of it"
        rows.append(
            (worth.name, price, format_number(worth.next_bound), f"{100 * worth.next_change + 0.0:+.2f}%", share)
        )
    return f"The next {format_count(found.more)} of each source, on top of all that:\n" + format_table(
        rows, right=(1, 2, 3, 4)
    )

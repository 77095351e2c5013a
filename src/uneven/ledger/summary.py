"""What a ledger holds, source by source."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SourceSummary:
    """Where one source stands.

    Attributes
    ----------
    name : str
    rows : int
        Rows that were charged under this name.
    least, most : float
        The least and the most ε that one of them has spent, under whatever name.
    left : float
        What the row that has spent the most may still spend; infinite without a budget.
    charges : int
        How often rows were charged under this name.
    last : str
        Time of the last charge, UTC.
    """

    name: str
    rows: int
    least: float
    most: float
    left: float
    charges: int
    last: str

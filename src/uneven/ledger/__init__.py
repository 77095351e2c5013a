"""What each row has spent: in memory, or in an SQLite file for a site.

The charge is the claim. A row's ε is written down, durably, before anything computed from the row is released. So a
row that was charged when its process died is spent, which is safe; and a row whose charge was not written down was
not released.
"""

from uneven.ledger.database import BudgetExceeded
from uneven.ledger.fingerprints import Fingerprints, count_copies, hash_digests, hash_rows, list_columns
from uneven.ledger.ledger import Ledger, dump_memory, load_memory, open_own_ledger
from uneven.ledger.summary import SourceSummary

__all__ = [
    "BudgetExceeded",
    "Fingerprints",
    "Ledger",
    "SourceSummary",
    "count_copies",
    "dump_memory",
    "hash_digests",
    "hash_rows",
    "list_columns",
    "load_memory",
    "open_own_ledger",
]

"""Warnings about privacy, each a category of its own so that it can be filtered by name."""

import warnings


class PrivacyWarning(UserWarning):
    """Something promises less privacy than it may seem to."""


class SimulationWarning(PrivacyWarning):
    """A seed was given for private rows: the noise can be repeated, so it protects nobody."""


class CopiesWarning(PrivacyWarning):
    """Private rows agree in everything: copies of one person's row, each charged as a row of its own?"""


class NoBudgetWarning(PrivacyWarning):
    """Rows were charged to a ledger that has no budget: it counts, but refuses nothing."""


# Python shows a warning once for each line of code; this one is said at every charge. A user's filter counts more.
warnings.filterwarnings("always", category=NoBudgetWarning, append=True)

"""Warnings about privacy, each a category of its own so that it can be filtered by name."""


class PrivacyWarning(UserWarning):
    """Something promises less privacy than it may seem to."""


class SimulationWarning(PrivacyWarning):
    """A seed was given for private rows: the noise can be repeated, so it protects nobody."""


class NoBudgetWarning(PrivacyWarning):
    """Rows were charged to a ledger that has no budget: it counts, but refuses nothing."""

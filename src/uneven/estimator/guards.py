"""What surrounds a call of the classifier: nothing half-done where it is refused, and warnings for the rows' owner."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from uneven.redaction import owner_only, redacted
from uneven.training import Grouped

UNWEIGHED = (
    "{} takes no sample_weight: class_weight gives classes a weight, and noise, with the source of each row, says how "
    "good rows are"
)


def _redacts(model: Any) -> bool:
    """Whether messages have no details: unless the model says plainly that they may have them."""
    return not (isinstance(model.redact, bool | np.bool_) and not model.redact)


def validate(model: Any, *rows: Any, **options: Any) -> Any:
    """X, or X and y, as scikit-learn checks them; its messages show values, so it has none where they are redacted."""
    try:
        return validate_data(model, *rows, accept_sparse="csr", dtype=[np.float64, np.float32], **options)
    except (TypeError, ValueError):
        if not _redacts(model):
            raise
    raise ValueError("X must be finite numbers, a column each as in the fit, and y a label of each row; got others")


def all_or_nothing(method: Callable[..., Any]) -> Callable[..., Any]:
    """A call that is refused leaves the model as it was; what it has charged stays charged."""

    @wraps(method)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        if "sample_weight" in kwargs:
            raise TypeError(UNWEIGHED.format(method.__name__))
        before = dict(self.__dict__)
        try:
            with redacted(_redacts(self)):
                return method(self, *args, **kwargs)
        except BaseException:
            account = self.__dict__.get("_account")
            self.__dict__ = before
            if account is not None and account.spent:
                self._account, self.privacy_spent_ = account, account.spent
            raise

    return guarded


def warn_long(too_long: Mapping[str, int], groups: Grouped, bound: float) -> None:
    """Tell the rows' owner that some were shrunk."""
    if too_long:
        whose = " (private rows among them)" if any(groups.noises[name].private for name in too_long) else ""
        many = owner_only(f"{sum(too_long.values()):,} of {groups.rows:,}", "some")
        warnings.warn(
            f"{many} rows{whose} are longer than row_norm = {bound:.6g} and were shrunk to it",
            UserWarning,
            stacklevel=4,
        )

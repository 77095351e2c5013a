"""`PublicColumns`: raw tables as bounded features, by what is publicly known of their columns."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from uneven import checks
from uneven.columns import (
    Column,
    EncodedRows,
    Encoder,
    attach_cells,
    columns_to_dict,
    complete_columns,
    describe_columns,
)
from uneven.training import load_model


class PublicColumns(TransformerMixin, BaseEstimator):
    """Make features of norm at most 1 from columns that are described publicly, and from nothing else.

    A number becomes one feature in [-1, 1] by its range; a category one feature per value; a column with ``missing``
    has one more that says so. A value that is not described is a category of its own. All are divided by the root of
    the number of columns, so that a row's norm is at most 1, whatever the row: ``row_norm`` need not be stated.

    Parameters
    ----------
    columns : dict of str to dict
        For each column to learn from ``{"range": [low, high]}``, ``{"mean": m, "sd": s}`` or ``{"values": [...]}``,
        with ``"missing": [...]`` where values can be missing: a list of what stands for that, beside an empty cell.
        ``{"kind": "number"}`` and
        ``{"kind": "category"}`` take the rest from rows without privacy. The same as ``[columns]`` in ``sources.toml``.

    Attributes
    ----------
    columns_ : dict of str to dict
        The description with nothing left to find.
    row_norm_ : float
        Public bound on the norm of the features: 1.

    Notes
    -----
    Formal guarantee: where every range and all values are stated, the features of a row depend on that row and the
    description alone. Otherwise they also depend on the rows that ``public`` marks, and on no other.

    Examples
    --------
    >>> import numpy as np, uneven
    >>> columns = uneven.PublicColumns({"x0": {"range": [20, 80]}, "x1": {"values": ["clerk", "cook"]}})
    >>> columns.fit_transform(np.array([[50, "cook"], [90, "king"]], dtype=object)).round(3).tolist()
    [[0.0, 0.0, 0.7070000171661377], [0.7070000171661377, 0.0, 0.0]]
    >>> columns.get_feature_names_out().tolist()
    ['x0', 'x1 = clerk', 'x1 = cook']
    """

    row_norm_ = 1.0

    def __init__(self, columns: Any) -> None:
        self.columns = columns

    def fit(self, X: Any, y: Any = None, public: Any = None) -> PublicColumns:
        """Check the description; take what it does not state from rows without privacy.

        Parameters
        ----------
        X : DataFrame or array of shape (n, d)
            Columns of an array are called x0, x1 and so on.
        y : None
            Ignored.
        public : array of bool, shape (n,), True, or None
            Rows that may be looked at, because they are not private; None for no rows.

        Returns
        -------
        PublicColumns
        """
        described = describe_columns(self.columns)
        validate_data(self, X, skip_check_array=True)
        cells, rows = _cells(X, described)
        if not all(column.complete for column in described):
            mask = _checked_public(public, rows, described)
            described = complete_columns(described, [({name: one[mask] for name, one in cells.items()}, "X")])
        self.columns_ = columns_to_dict(described)
        return self

    def transform(self, X: Any) -> EncodedRows:
        """Features of rows.

        Parameters
        ----------
        X : DataFrame or array of shape (n, d)
            Described columns are found by their names; others are ignored.

        Returns
        -------
        array of shape (n, n_features), float32
            With the cells that it was made of, by which a ledger knows rows without an id: described in another way
            they are the same rows. They stay with rows chosen from it, and are lost when arrays are joined or made
            into a frame; give ``row_id`` then.
        """
        check_is_fitted(self, "columns_")
        encoder = self._encoder()
        cells, rows = _cells(X, encoder.columns)
        return attach_cells(encoder.features(cells, rows, "X"), cells)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the features.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        array of str
        """
        check_is_fitted(self, "columns_")
        return np.array(self._encoder().names, dtype=object)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PublicColumns:
        """Columns that a model file has, ready to transform: ``make_pipeline(columns, classifier)`` takes raw rows.

        Parameters
        ----------
        path : path
            A model that ``uneven fit`` wrote from a ``sources.toml`` with ``[columns]``, or `UnevenClassifier.save`
            with its columns.

        Returns
        -------
        PublicColumns
        """
        model = load_model(path)
        if model.columns is None:
            raise ValueError(f"{os.fspath(path)} must be a model with described columns, got one without")
        made = cls(columns_to_dict(model.columns))
        made.columns_ = made.columns
        return made

    def _encoder(self) -> Encoder:
        return Encoder(describe_columns(self.columns_))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags


def _cells(X: Any, columns: tuple[Column, ...]) -> tuple[dict[str, NDArray[Any]], int]:
    """Values of the described columns, and the number of rows."""
    if hasattr(X, "columns"):
        known = {str(name): np.asarray(X[name]) for name in X.columns}
    else:
        table = np.asarray(X)
        if table.ndim != 2:
            raise ValueError(f"X must be a table of rows and columns, got shape {table.shape}")
        known = {f"x{j}": table[:, j] for j in range(table.shape[1])}
    for column in columns:
        if column.name not in known:
            raise ValueError(f"X must have the column {column.name!r} that is described; there are {', '.join(known)}")
    return {column.name: known[column.name] for column in columns}, len(X)


def _checked_public(public: Any, rows: int, columns: tuple[Column, ...]) -> NDArray[np.bool_]:
    """Which rows may be looked at."""
    name = next(column.name for column in columns if not column.complete)
    if public is None:
        raise ValueError(
            f"public must say which rows are not private, to take the range or values of {name!r} from them, or the "
            "description must state them; got None"
        )
    mask = np.full(rows, public) if isinstance(public, bool | np.bool_) else np.asarray(public)
    if mask.dtype != bool or mask.shape != (rows,) or not mask.any():
        raise ValueError(f"public must be one boolean per row, true for some rows, got {checks.shown(public)}")
    return mask

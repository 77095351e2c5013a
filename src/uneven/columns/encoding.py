"""Rows as features of norm at most 1, by a public description alone: scikit-learn's encoders, fitted to that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.columns.cells import SAME, as_numbers, as_text
from uneven.columns.description import DEVIATIONS, Column
from uneven.redaction import owner_only

MISSING, OTHER = "\0missing", "\0other"
"""Stand for a missing value and for one that is not described: no cell is written like this."""

UNSAID = (
    "add missing = [] to its description, or missing = [...] with what stands for a missing value besides empty cells"
)
FIXED = "the model was learned from rows that always have one: fill it in, or leave such rows out"


@dataclass(frozen=True)
class Encoder:
    r"""Features of described columns.

    A number becomes 2·(x - low)/(high - low) - 1, moved to [-1, 1] where it is beyond, and 0 where it is missing; a
    column with ``missing`` has one more feature that says so. A category becomes one feature per value, 1 where the row
    has it and 0 elsewhere; a value that is not described has none of them, which makes it a category of its own. All
    are divided by √p for p columns.

    Every column adds at most 1 to the squared norm before that, so a row's norm is at most 1, whatever the row.

    A number with a mean and a standard deviation becomes (x - mean)/sd, moved to [-3, 3]: it adds 1 on average, and up
    to 9. With such a column, rows longer than 1 are divided by their norm.

    Parameters
    ----------
    columns : tuple of Column
        All of them complete.
    learned : bool
        Whether a model was learned with it, so that it cannot change.
    """

    columns: tuple[Column, ...]
    learned: bool = False

    @property
    def _numbers(self) -> list[Column]:
        return [column for column in self.columns if column.kind == "number"]

    @property
    def _gaps(self) -> list[int]:
        """Which of the numbers may be missing."""
        return [place for place, column in enumerate(self._numbers) if column.missing is not None]

    @property
    def _categories(self) -> list[Column]:
        return [column for column in self.columns if column.kind == "category"]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features: numbers, which of them are missing, categories."""
        numbers = [column.name for column in self._numbers]
        gaps = [f"{numbers[place]} is missing" for place in self._gaps]
        words = []
        for column in self._categories:
            words += [f"{column.name} = {value}" for value in column.values or ()]
            words += [f"{column.name} is missing"] if column.missing is not None else []
        return (*numbers, *gaps, *words)

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.names)

    @cached_property
    def _scaler(self) -> Any:
        from sklearn.preprocessing import MinMaxScaler

        return MinMaxScaler((-1.0, 1.0), clip=True).fit(np.array([column.range for column in self._numbers]).T)

    @cached_property
    def _one_hot(self) -> Any:
        from sklearn.preprocessing import OneHotEncoder

        known = [
            np.array([*(column.values or ()), *([MISSING] if column.missing is not None else [])], dtype=object)
            for column in self._categories
        ]
        encoder = OneHotEncoder(categories=known, handle_unknown="ignore", sparse_output=False, dtype=np.float32)
        return encoder.fit(np.array([[values[0] for values in known]], dtype=object))

    def features(self, said: Mapping[str, Any], rows: int, where: str = "", first: int = 0) -> NDArray[np.float32]:
        """Features of rows.

        Parameters
        ----------
        said : dict of str to array of shape (rows,)
            Values of each described column, of any type.
        rows : int
        where : str
            Whose rows they are, for refusals.
        first : int
            Number of the first row, for refusals.
        """
        parts = []
        if self._numbers:
            parts += self._number_features(said, where, first)
        if self._categories:
            cells = [_known_cells(said[column.name], column) for column in self._categories]
            parts.append(self._one_hot.transform(np.array(cells, dtype=object).T.reshape(rows, len(cells))))
        X = np.concatenate(parts, axis=1, dtype=np.float32) / np.float32(len(self.columns) ** 0.5)
        if not any(column.spread for column in self.columns):
            return X
        norms = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))[:, None]
        return np.asarray(X / np.maximum(1.0, norms), dtype=np.float32)

    def find_unknown(self, said: Mapping[str, Any]) -> dict[str, list[str]]:
        """Values of each category that are not described, one for each row that has such a value."""
        found = {}
        for column in self._categories:
            known = _known(column)
            found[column.name] = [text for text in as_text(said[column.name]) if text not in known and text is not None]
        return found

    def _number_features(self, said: Mapping[str, Any], where: str, first: int) -> list[NDArray[Any]]:
        prefix = f"{where}: " if where else ""
        values = [
            as_numbers(said[column.name], column.missing or (), f"{prefix}column {column.name!r}", first)
            for column in self._numbers
        ]
        table = np.column_stack(values)
        missing = np.isnan(table)
        for place, column in enumerate(self._numbers):
            if column.missing is None and missing[:, place].any():
                which = owner_only(f" in row {first + int(np.argmax(missing[:, place]))}", " in some row")
                raise ValueError(
                    f"{prefix}column {column.name!r} has no value{which}; {FIXED if self.learned else UNSAID}"
                )
        factors = [DEVIATIONS if column.spread else 1.0 for column in self._numbers]
        scaled = np.where(missing, 0.0, self._scaler.transform(table) * factors)
        return [scaled, missing[:, self._gaps]]


def _known_cells(values: Any, column: Column) -> list[str]:
    """Each row's value of a category, or what stands for a missing one."""
    known = _known(column)
    return [known.get(text, OTHER) for text in as_text(values)]


def _known(column: Column) -> dict[str | None, str]:
    """What each described text of a category counts as; 1 is true where true is described."""
    absent = OTHER if column.missing is None else MISSING
    known: dict[str | None, str] = {None: absent, **dict.fromkeys(column.missing or (), absent)}
    known |= {text: same for text, same in SAME.items() if same in (column.values or ()) and text not in known}
    return known | {value: value for value in column.values or ()}

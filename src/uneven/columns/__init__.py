"""Columns described publicly: a number by its range, a category by its values, each by what stands for missing.

From such a description alone a row becomes bounded features, so that nothing is scaled or encoded by private rows.

- `description` what is said of each column, checked
- `cells` values of any file as text or as numbers
- `content` what described rows are known by
- `encoding` rows as features of norm at most 1, by scikit-learn's encoders
- `discovery` ranges and values of rows without privacy
"""

from uneven.columns.cells import as_text
from uneven.columns.content import EncodedRows, attach_cells, digest_cells
from uneven.columns.description import Column, columns_to_dict, describe_columns
from uneven.columns.discovery import complete_columns, guess_columns
from uneven.columns.encoding import Encoder

__all__ = [
    "Column",
    "EncodedRows",
    "Encoder",
    "as_text",
    "attach_cells",
    "columns_to_dict",
    "complete_columns",
    "describe_columns",
    "digest_cells",
    "guess_columns",
]

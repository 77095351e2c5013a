"""Squared norms of rows, each computed alone: how rows are cut into pieces does not change them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.engine import kernels, sparse
from uneven.matrices import is_sparse


def squared_norms(X: Any) -> NDArray[np.float64]:
    """Squared norm of each row, dense or CSR; not finite if an entry is not."""
    return np.asarray(sparse.squares_of(X.data, X.indptr) if is_sparse(X) else kernels.squares_of(X))

"""The data sets of the paper, as the paper uses them, and the sample that comes with the package.

mnist       1 against the rest, projected to 25 dimensions
covertype   type 2 against the rest, 500,000 rows to learn from; and 60,000 rows that come with the package
folder      where files are: ``UNEVEN_DATA``, or scikit-learn's cache
"""

from collections.abc import Callable

from uneven.datasets.covertype import AREAS, RANGES, SOILS, load_covertype, load_covertype_sample
from uneven.datasets.dataset import Dataset, count_rows
from uneven.datasets.mnist import load_mnist

LOADERS: dict[str, Callable[..., Dataset]] = {"mnist": load_mnist, "covertype": load_covertype}

__all__ = [
    "AREAS",
    "LOADERS",
    "RANGES",
    "SOILS",
    "Dataset",
    "count_rows",
    "load_covertype",
    "load_covertype_sample",
    "load_mnist",
]

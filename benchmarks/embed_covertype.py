"""Make the sample of Covertype that comes with the package, from the files in UNEVEN_DATA."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

import uneven.datasets
from uneven.datasets.covertype import AREAS, RANGES, SAMPLE, load_raw_cells
from uneven.datasets.folder import find_data_folder

ROWS, SEED = 60_000, 2015


def main() -> None:
    cells = load_raw_cells(find_data_folder(None))
    kept = cells[np.random.default_rng(SEED).permutation(len(cells))[:ROWS]]
    columns = {name: kept[:, i] for i, name in enumerate(RANGES)}
    first = len(RANGES)
    columns["wilderness_area"] = kept[:, first : first + AREAS].argmax(axis=1).astype(np.uint8)
    columns["soil"] = kept[:, first + AREAS : -1].argmax(axis=1).astype(np.uint8)
    columns["cover_type"] = kept[:, -1].astype(np.uint8)
    path = Path(uneven.datasets.__file__).with_name(SAMPLE)
    options = {"compression": "zstd", "compression_level": 19, "use_dictionary": True, "store_schema": False}
    pyarrow.parquet.write_table(pa.table(columns), path, **options)
    print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()

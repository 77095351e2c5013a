"""Files are matched by the names of their columns, in every reading of them, not by the columns' places."""

import json

import pandas as pd
import pytest

ORDERS = (["pulse", "outcome", "age", "dose"], ["outcome", "dose", "pulse", "age"])
SETTINGS = {
    "one after the other": "",
    "shuffled together": 'strategy = "arbitrary"',
    "named features": 'features = ["dose", "age", "pulse"]',
    "private": "row_norm = 3.0",
}


@pytest.mark.parametrize("order", ORDERS, ids=",".join)
@pytest.mark.parametrize("head", SETTINGS.values(), ids=SETTINGS)
def test_a_file_with_its_columns_in_another_order_gives_the_same_model(folder, described, private, good, head, order):
    """To the last bit, for the same seed: the same rows reach the same steps. So do the measured accuracies."""
    (private if "row_norm" in head else described)(head)
    models, said = [], []
    for columns in (None, order):
        if columns is not None:
            for name in ("crowd.csv", "rows.csv"):
                pd.read_csv(folder / name, dtype=str)[columns].to_csv(folder / name, index=False)
        else:
            pd.read_parquet(folder / "rows.parquet").to_csv(folder / "rows.csv", index=False)
        facts = json.loads(good("fit", "sources.toml", "--seed", 3, "--test", "rows.csv", "--json"))
        said.append(facts["measures"])
        models.append((folder / "model.json").read_text())
    assert models[0] == models[1]
    assert said[0] == said[1]

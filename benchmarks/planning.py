"""How long planning takes: ``make bench`` prints it."""

import numpy as np
from timing import row, seconds

import uneven


def sources(count: int) -> list[uneven.Source]:
    rng = np.random.default_rng(0)
    return [
        uneven.Source(f"s{i}", int(rng.integers(500, 100_000)), uneven.LocalPrivacy(float(rng.uniform(0.1, 10))))
        for i in range(count)
    ]


def main() -> None:
    print("Planning by Algorithm 2 (the order is exact up to 12 sources)")
    targets = {2: "under 50 ms", 12: "under 5 s"}
    for count in (2, 4, 8, 12, 30, 200):
        described = sources(count)
        taken = seconds(lambda s=described: uneven.plan(s, 25, strategy="two-rates"))
        row(f"{count} sources", f"{1e3 * taken:.0f} ms", targets.get(count, ""))
    described = sources(2)
    row(
        "summary of a plan of 2 sources, every strategy beside it",
        f"{1e3 * seconds(lambda: uneven.plan(described, 25).summary()):.0f} ms",
    )


if __name__ == "__main__":
    main()

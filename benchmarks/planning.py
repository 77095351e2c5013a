"""How long planning takes: ``make bench`` prints it."""

import time

import numpy as np

import uneven


def sources(count: int) -> list[uneven.Source]:
    rng = np.random.default_rng(0)
    return [
        uneven.Source(f"s{i}", int(rng.integers(500, 100_000)), uneven.LocalPrivacy(float(rng.uniform(0.1, 10))))
        for i in range(count)
    ]


def best_of(repeats: int, call) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    print("Planning, best of 5 (K sources, Algorithm 2's order is exact up to K = 12)")
    print(f"{'K':>4}  {'precision':>10}  {'two-rates':>10}  {'summary of all':>14}")
    for count in (2, 4, 8, 12, 30, 200):
        described = sources(count)
        precision = best_of(5, lambda s=described: uneven.plan(s, 25))
        two_rates = best_of(5, lambda s=described: uneven.plan(s, 25, strategy="two-rates"))
        summary = best_of(1, lambda s=described: uneven.plan(s, 25).summary())
        print(f"{count:>4}  {1e3 * precision:>7.1f} ms  {1e3 * two_rates:>7.1f} ms  {1e3 * summary:>11.1f} ms")


if __name__ == "__main__":
    main()

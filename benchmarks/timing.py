"""Timing for the benchmarks."""

import time
from collections.abc import Callable

Clock = Callable[[], float]


def in_turn(*calls: Callable[[], object], rounds: int = 7, clock: Clock = time.perf_counter) -> list[float]:
    """Best time of each of several calls, made in turn: a slow spell of the machine meets all of them."""
    best = [float("inf")] * len(calls)
    for _ in range(rounds):
        best = [min(known, seconds(call, 1, clock)) for known, call in zip(best, calls, strict=True)]
    return best


def seconds(call: Callable[[], object], repeats: int = 5, clock: Clock = time.perf_counter) -> float:
    """Best of several times: the least disturbed by whatever else the machine does."""
    times = []
    for _ in range(repeats):
        start = clock()
        call()
        times.append(clock() - start)
    return min(times)


def row(what: str, value: str, target: str = "") -> None:
    """One line of a table."""
    print(f"  {what:<66} {value:>12}  {target}", flush=True)

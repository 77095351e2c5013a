"""Two hospitals, two privacy rules: which rows first, how far to step, and what a row of each is worth?

Run it with ``python examples/two_hospitals.py``. It only plans; ``make demo`` also learns.
"""

import uneven


def main() -> None:
    clinic = uneven.Source("clinic", rows=50_000, noise=uneven.LocalPrivacy(epsilon=10))
    region = uneven.Source("region", rows=450_000, noise=uneven.LocalPrivacy(epsilon=1))
    plan = uneven.plan([clinic, region], n_features=54, alpha=1e-3, batch_size=50, clip=0.5)
    print(plan.summary())
    plan.plot().savefig("plan.png", dpi=150)
    print("\nThe picture is in plan.png. Next: change epsilon or rows in examples/two_hospitals.py and run it again.")


if __name__ == "__main__":
    main()

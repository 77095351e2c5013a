"""What data is worth: the knapsack against brute force, the bound against the plan's, rates against simulation."""

import importlib.util
import itertools
import json
import math
import pickle
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize_scalar

import uneven
from uneven import AdditiveNoise, Exact, FlippedLabels, LocalPrivacy, Problem, Source
from uneven.planner import can_promise, make_plan
from uneven.valuation.buying import buy, rank_steps
from uneven.valuation.offers import Offer, keep_efficient
from uneven.valuation.valuing import value_sources

CLINIC = Source("clinic", 6_000, LocalPrivacy(10), price=0.5)
CROWD = Source("crowd", 20_000, FlippedLabels(0.2), price=0.05)
SURVEY = Source("survey", 10**9, LocalPrivacy(3), price=0.1)
ARCHIVE = Source("archive", 2_000, FlippedLabels(0.3))
ALL = [ARCHIVE, CLINIC, CROWD, SURVEY]
OPTIONS = {"n_features": 25, "alpha": 1e-2}


def offer(name, rows, price, precision):
    return Offer(Source(name, rows, price=price), precision, name)


prices, precisions = st.integers(0, 12), st.integers(1, 12)
menus = st.lists(
    st.tuples(st.integers(1, 3), st.lists(st.tuples(prices, precisions), min_size=1, max_size=2)),
    min_size=1, max_size=3,
)  # fmt: skip


def as_offers(described):
    return [
        [offer(f"{k}.{i}", rows, float(price), float(precision)) for i, (price, precision) in enumerate(options)]
        for k, (rows, options) in enumerate(described)
    ]


def brute_force(described, money):
    """Most precision that whole rows within the budget can have: every way to divide every source's rows."""
    ways = []
    for rows, options in described:
        counts = itertools.product(range(rows + 1), repeat=len(options))
        ways.append([
            (sum(c * o[0] for c, o in zip(count, options, strict=True)),
             sum(c * o[1] for c, o in zip(count, options, strict=True)))
            for count in counts if sum(count) <= rows
        ])  # fmt: skip
    return max(sum(p for _, p in way) for way in itertools.product(*ways) if sum(c for c, _ in way) <= money)


@settings(max_examples=200)
@given(described=menus, money=st.integers(0, 60))
def test_buying_is_within_a_row_of_the_best(described, money):
    steps = rank_steps(as_offers(described))
    basket, best = buy(steps, float(money)), brute_force(described, money)
    assert basket.spent <= money
    assert basket.precision <= best
    one_row = 0.0
    if basket.margin is not None:
        before = basket.margin.before
        one_row = basket.margin.offer.precision - (before.precision if before else 0.0)
    assert best - basket.precision <= one_row * (1 - 1e-9) or best == basket.precision


@settings(max_examples=100)
@given(described=st.lists(st.tuples(st.integers(1, 4), precisions), min_size=1, max_size=3), money=st.integers(0, 40))
def test_at_one_price_buying_is_the_best(described, money):
    menus = [(rows, [(3, precision)]) for rows, precision in described]
    assert buy(rank_steps(as_offers(menus)), float(money)).precision == brute_force(menus, money)


def test_what_cannot_be_paid_is_passed_over_and_small_change_is_kept():
    steps = rank_steps([[offer("dear", 5, 10.0, 100.0)], [offer("cheap", 50, 1.0, 1.0)]])
    for money, bought in ((9.5, {"cheap": 9}), (24.5, {"dear": 2}), (52.5, {"dear": 5, "cheap": 2})):
        assert {o.name: count for o, count in buy(steps, money).rows} == bought


@settings(max_examples=60)
@given(described=menus, money=st.floats(0.5, 60))
def test_with_many_rows_buying_is_the_linear_program(described, money):
    """Rows a million times smaller: whole ones are as good as fractions, within a row in a million."""
    scale = 10**6
    fine = [
        [
            Offer(Source(o.name, scale * o.source.rows, price=o.price / scale), o.precision / scale, o.origin)
            for o in menu
        ]
        for menu in as_offers(described)
    ]
    flat = [(k, price, precision) for k, (_, options) in enumerate(described) for price, precision in options]
    limits = [[float(k == source) for source, _, _ in flat] for k in range(len(described))]
    best = linprog(
        [-precision for _, _, precision in flat],
        A_ub=[[price for _, price, _ in flat], *limits],
        b_ub=[money, *(rows for rows, _ in described)],
    )
    assert buy(rank_steps(fine), money).precision == pytest.approx(-best.fun, abs=1e-4)


def test_efficient_offers_are_the_corners_of_the_hull():
    points = {"dear": (4, 4), "best": (1, 3), "worse": (2, 2), "under": (2, 3.2), "top": (5, 5), "past": (6, 5)}
    kept = keep_efficient([offer(name, 1, float(price), precision) for name, (price, precision) in points.items()])
    assert [o.name for o in kept] == ["best", "top"]
    assert [o.name for o in keep_efficient([offer("free", 1, 0.0, 1.0), offer("paid", 1, 1.0, 2.0)])] == [
        "free",
        "paid",
    ]


noises = st.one_of(
    st.just(Exact()),
    st.builds(LocalPrivacy, st.floats(0.5, 20)),
    st.builds(FlippedLabels, st.floats(0, 0.45)),
    st.builds(AdditiveNoise, st.floats(0, 100)),
)
described_sources = st.lists(
    st.tuples(st.integers(1, 5_000), noises, st.one_of(st.none(), st.floats(0.01, 2))), min_size=1, max_size=4
)


def sources_of(described):
    return [Source(f"s{i}", rows, noise, price) for i, (rows, noise, price) in enumerate(described)]


@settings(max_examples=40)
@given(described=described_sources, budget=st.floats(0, 5_000), alpha=st.floats(1e-3, 1))
def test_a_valuation_is_what_its_plan_says(described, budget, alpha):
    found = uneven.value(sources_of(described), 7, alpha, budget=budget)
    assert found.spent <= budget * (1 + 1e-9)
    json.dumps(found.to_dict(), allow_nan=False) if found.precision else None
    if found.purchases or found.owned:
        plan = found.plan()
        assert found.bound == min(plan.bound, plan.problem.ball**2)
        assert found.theorem == plan.theorem
        assert found.precision == pytest.approx(sum(segment.precision for segment in plan.segments), rel=1e-9)
        first = max(found.exchange.values())
        cleanest = max(found.exchange[name] for name in plan.exchange)
        assert first == 1
        for name, worth in plan.exchange.items():
            assert found.exchange[name] / cleanest == pytest.approx(worth, rel=1e-9)
    spends, bounds = found.curve
    at = int(np.argmin(abs(spends - budget)))
    assert bounds[at] == found.bound
    assert bounds[0] <= found.bound_before or min(s[2] or 1 for s in described) == 0


@settings(max_examples=40)
@given(described=described_sources, budget=st.floats(1, 5_000), alpha=st.floats(1e-3, 1))
def test_with_second_moments_the_bound_never_rises_with_spend(described, budget, alpha):
    """Theorem A's bound is 1/(λ²P). At one row per step, precision is the sum of the rows'."""
    found = uneven.value(sources_of(described), 7, alpha, batch_size=1, moments="upper", budget=budget)
    assert (np.diff(found.bounds) <= 1e-9 * np.array(found.bounds[:-1])).all()
    assert not any("rises" in caveat for caveat in found.caveats)
    assert all(worth.next_change <= 1e-9 for worth in found.worths)


@settings(max_examples=40)
@given(described=described_sources, budget=st.floats(1, 5_000), alpha=st.floats(1e-3, 1))
def test_with_the_cleanest_owned_the_bound_never_rises(described, budget, alpha):
    """Theorem C's offset is then the same at every spend; else a caveat says that the bound rises, and why."""
    sources = [Source("clean", 50), *sources_of(described)]
    found = uneven.value(sources, 7, alpha, budget=budget)
    assert (np.diff(found.bounds) <= 1e-9 * np.array(found.bounds[:-1])).all()
    other = uneven.value(sources[1:], 7, alpha, budget=budget)
    rises = (np.diff(other.bounds) > 1e-9 * np.array(other.bounds[:-1])).any()
    told = any("The bound rises" in caveat or "would raise the bound" in caveat for caveat in other.caveats)
    assert told or not rises


@settings(max_examples=40)
@given(described=described_sources, budget=st.floats(0, 5_000), alpha=st.floats(1e-3, 1))
def test_no_purchase_leaves_a_higher_bound(described, budget, alpha):
    found = uneven.value(sources_of(described), 7, alpha, budget=budget)
    assert found.bound <= found.bound_before * (1 + 1e-12)
    assert max(found.bounds) <= found.bound_before * (1 + 1e-12)
    assert not set(found.declined) & {purchase.source for purchase in found.purchases}


def test_a_private_row_is_never_worth_more_than_an_exact_one():
    """Both have gradients of norm up to C, and privacy only adds noise."""
    for epsilon in (3.0, 15.0, 40.0):
        found = uneven.value([Source("open", 100), Source("private", 100, LocalPrivacy(epsilon))], 7)
        assert found.exchange["private"] <= found.exchange["open"] == 1.0


def test_what_would_raise_the_bound_is_not_bought():
    """Few rows, much cleaner than the 54,000 owned, would set the pace for all."""
    owned, clean = Source("survey", 54_000, LocalPrivacy(1)), Source("clinic", 5_000, LocalPrivacy(10), price=1.0)
    found = uneven.value([owned, clean], 25, budget=300)
    worse = uneven.plan([owned, replace(clean, rows=300)], 25)
    assert worse.bound > found.bound == found.bound_before
    assert (found.purchases, found.declined) == ((), ("clinic",))
    (note,) = (caveat for caveat in found.caveats if "would raise the bound" in caveat)
    words = " ".join(found.summary().split())
    assert note in words
    assert "Buy none of 'clinic': buying it with this money would raise the bound." in words
    enough = uneven.value([owned, clean], 25, budget=5_000)
    assert enough.bound < found.bound_before
    assert [purchase.source for purchase in enough.purchases] == ["clinic"]


def test_a_strategy_that_uses_the_cleanest_source_alone_is_given_nothing_else():
    """Noisy rows have the most precision for money, and a plan of "clean-only" would not use one of them."""
    mine, cheap = Source("mine", 1_000, FlippedLabels(0.3)), Source("cheap", 10_000, FlippedLabels(0.3), price=0.01)
    clean, options = Source("clean", 10_000, Exact(), price=1.0), {"n_features": 25, "alpha": 0.1, "batch_size": 1}
    found = uneven.value([mine, cheap, clean], **options, budget=5_000, strategy="clean-only")
    assert [(one.source, one.rows) for one in found.purchases] == [("clean", 5_000)]
    expected = uneven.plan([mine, Source("clean", 5_000)], **options, strategy="clean-only").bound
    assert found.bound == expected < found.bound_before
    assert found.plan().order == ["clean"]
    usual = uneven.value([mine, cheap, clean], **options, budget=5_000)
    assert [(one.source, one.rows) for one in usual.purchases] == [("cheap", 10_000), ("clean", 4_900)]


def test_the_money_goes_to_rows_that_do_help():
    """Where a few clean rows would raise the bound, the same money buys more of what is owned."""
    owned, clean = Source("survey", 54_000, LocalPrivacy(1)), Source("clinic", 5_000, LocalPrivacy(10), price=1.0)
    found = uneven.value([owned, clean, replace(owned, name="more", price=0.1)], 25, budget=300)
    assert [(purchase.source, purchase.rows) for purchase in found.purchases] == [("more", 3_000)]
    assert found.declined == ("clinic",)
    assert found.bound < found.bound_before


@settings(max_examples=20)
@given(factor=st.floats(1e-3, 1e3))
def test_the_unit_of_money_does_not_matter(factor):
    one = uneven.value(ALL, **OPTIONS, budget=2_000)
    other = uneven.value(
        [replace(s, price=None if s.price is None else factor * s.price) for s in ALL], **OPTIONS, budget=2_000 * factor
    )
    assert other.exchange == one.exchange
    for a, b in zip(one.purchases, other.purchases, strict=True):
        assert (a.source, a.rows) == (b.source, pytest.approx(b.rows, abs=1))
    for a, b in zip(one.worths, other.worths, strict=True):
        assert b.money == pytest.approx(factor * a.money, rel=1e-9)


@pytest.mark.parametrize("name", ["survey", "archive"])
def test_worth_in_money_is_the_price_to_buy_at(name):
    """Where the money ends, a source is bought from if it costs less than `money`, and not if it costs more."""
    worth = {w.name: w.money for w in uneven.value(ALL, **OPTIONS, budget=2_000).worths}[name]
    for factor, bought in ((0.99, True), (1.01, False)):
        sources = [replace(s, price=factor * worth) if s.name == name else s for s in ALL]
        found = uneven.value(sources, **OPTIONS, budget=2_000)
        assert (name in [purchase.source for purchase in found.purchases]) is bought


def test_marginal_worth_is_the_change_of_the_plans_bound():
    found = uneven.value(ALL, **OPTIONS, budget=2_000, more=700)
    held = [ARCHIVE, replace(CROWD, rows=20_000), replace(CLINIC, rows=2_000)]
    base = uneven.plan(held, **OPTIONS).bound
    for worth in found.worths:
        more = uneven.plan([*held, Source("next", 700, worth.noise)], **OPTIONS).bound
        assert worth.next_bound == pytest.approx(more, rel=1e-12)
        assert worth.next_change == pytest.approx(more / base - 1, rel=1e-9)


def test_one_row_of_variance_v_carries_one_over_v():
    found = uneven.value(ALL, **OPTIONS)
    problem = Problem(**OPTIONS, batch_size=1)
    for worth in found.worths:
        assert worth.precision == pytest.approx(1 / worth.noise.variance_bound(problem), rel=1e-12)


@pytest.mark.parametrize("power", [0.7, 1.0, 1.6])
def test_epsilon_is_bought_where_precision_for_money_is_largest(power):
    """1/(v(ε)·price(ε)), and within 0.1% of the best on a grid of 200 values."""
    problem = Problem(**OPTIONS, batch_size=1)

    def price(epsilon):
        return 0.01 + 0.02 * epsilon**power

    def deal(log_epsilon):
        epsilon = math.exp(log_epsilon)
        return -1 / (LocalPrivacy(epsilon).variance_bound(problem) * price(epsilon))

    best = minimize_scalar(deal, bounds=(math.log(0.1), math.log(10)), method="bounded").fun
    found = uneven.value([SURVEY], **OPTIONS, budget=100, prices={"survey": price})
    (purchase,) = found.purchases
    assert 1 / (purchase.noise.variance_bound(problem) * purchase.price) == pytest.approx(-best, rel=1e-3)
    assert purchase.price == pytest.approx(price(purchase.noise.epsilon))


def test_among_prices_the_best_deal_first_then_upgrades():
    sold = replace(SURVEY, rows=1_000)
    table = {1: 0.02, 3: 0.05, 10: 1.0}
    energy = {e: LocalPrivacy(e).variance_bound(Problem(**OPTIONS, batch_size=1)) for e in table}
    assert max(table, key=lambda e: 1 / (energy[e] * table[e])) == 3

    def bought(budget):
        found = uneven.value([sold], **OPTIONS, budget=budget, prices={"survey": table})
        return {purchase.noise.epsilon: purchase.rows for purchase in found.purchases}

    assert bought(25) == {3.0: 500}
    assert bought(50) == {3.0: 1_000}
    assert bought(50 + 95) == {3.0: 900, 10.0: 100}
    assert bought(5_000) == {10.0: 1_000}


def test_what_costs_nothing_is_taken():
    found = uneven.value([CLINIC, replace(CROWD, price=0.0)], **OPTIONS, budget=0)
    assert [(p.source, p.rows, p.cost) for p in found.purchases] == [("crowd", 20_000, 0.0)]


def test_without_a_budget_nothing_is_bought():
    found = uneven.value(ALL, **OPTIONS)
    assert (found.purchases, found.spent, found.bound) == ((), 0, found.bound_before)
    assert found.plan().order == ["archive"]
    nothing = uneven.value([CLINIC], **OPTIONS)
    assert nothing.bound == nothing.problem.ball**2
    with pytest.raises(ValueError, match="nothing is owned, and nothing is bought"):
        nothing.plan()


def test_summary_says_what_matters():
    found = uneven.value(ALL, **OPTIONS, budget=2_000)
    words = " ".join(found.summary().split())
    assert str(found) == found.summary()
    for text in (
        "What to buy with 2,000.00",
        "Buy 20,000 rows of 'crowd' for 1,000.00",
        "Buy 2,000 rows of 'clinic' for 1,000.00",
        "Buy none of 'survey'",
        "One row of 'clinic' is worth 8.25 rows of 'survey'.",
        "2,000 owned",
        "The next 1,000 rows",
        "Theorem C",
    ):
        assert text in words
    assert max(map(len, found.summary().splitlines())) <= 110
    assert "Nothing is for sale" in uneven.value([ARCHIVE], **OPTIONS).summary()
    assert "Theorem A" in uneven.value(ALL, **OPTIONS, loss="hinge", budget=10).summary()


def test_summary_says_why_none_is_bought():
    def words(sources, budget):
        return " ".join(uneven.value(sources, **OPTIONS, budget=budget).summary().split())

    dear = Source("dear", 100, LocalPrivacy(10), price=10.0)
    too_dear = "Buy none of 'dear': one row costs 10.00, more than the 5.00 left."
    assert too_dear in words([dear], 5)
    # What is left is what others did not take: 20 rows at 9 each, and 5 of 185.
    cheap = Source("cheap", 20, LocalPrivacy(10), price=9.0)
    assert too_dear in words([dear, cheap], 185)
    assert "Buy none of 'dear': there, " in words([dear, replace(cheap, rows=10**6)], 185)
    # Of two equal ones the first gets the money.
    twins = [cheap, replace(cheap, name="twin")]
    assert "Buy none of 'twin': one row costs 9.00, more than the 1.00 left." in words(twins, 10)
    more = replace(uneven.value(twins, **OPTIONS, budget=10), budget=25.0)
    assert "Buy none of 'twin': it is as good a deal as where the money ends" in more.summary()
    without = words([dear, cheap], None)
    assert "Without a budget nothing is bought. 'cheap' would be first" in without
    assert "At 9.00 per row or less it would be worth buying" in without


@pytest.mark.parametrize(
    "options",
    [{"budget": 2_000}, {}, {"budget": 0}, {"budget": 500, "prices": {"survey": {1: 0.01, 3: 0.02}}}],
    ids=str,
)
@pytest.mark.parametrize("sources", [ALL, [CLINIC, SURVEY], [replace(SURVEY, name="$a$ and $b$")]], ids=len)
def test_plot_draws(sources, options, tmp_path):
    if "prices" in options and SURVEY not in sources:
        return
    uneven.value(sources, **OPTIONS, **options).plot().savefig(tmp_path / "value.png")
    assert (tmp_path / "value.png").stat().st_size > 10_000


def test_frozen_and_plain():
    found = uneven.value(ALL, **OPTIONS, budget=2_000)
    with pytest.raises(FrozenInstanceError):
        found.budget = 3
    assert pickle.loads(pickle.dumps(found)) == found
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["purchases"][0] | {"noise": 0} == {
        "source": "crowd", "noise": 0, "rows": 20_000, "price": 0.05, "cost": 1_000.0
    }  # fmt: skip
    assert len(plain["curve"]["spend"]) == len(plain["curve"]["bound"]) == len(plain["curve"]["going_to"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"budget": -1}, "budget must be zero or a positive finite number, got -1"),
        ({"budget": math.nan}, "budget must be"),
        ({"budget": "much"}, "budget must be"),
        ({"more": 0}, "more must be a whole number of at least 1, got 0"),
        ({"moments": "lower"}, "lower moments need noise that is certain to be present; source 'archive'"),
        ({"strategy": "anchored"}, "strategy must be one of 'precision', "),
        ({"prices": [1]}, "prices must be a dict of source names"),
        ({"prices": {"nobody": {1: 1}}}, "prices has no key 'nobody'"),
        ({"prices": {"crowd": {1: 1}}}, "needs a noise of local privacy"),
        ({"prices": {"survey": {}}}, "at least one epsilon, got none"),
        ({"prices": {"survey": 3}}, "must be a dict of epsilon and price, or a function"),
        ({"prices": {"survey": {-1: 1}}}, "epsilon in the prices of source 'survey' must be a positive"),
        ({"prices": {"survey": {1: -1}}}, "price of source 'survey' at epsilon = 1 must be zero or"),
        ({"prices": {"survey": lambda e: math.log(e)}}, "must be zero or a positive finite number"),
        ({"epsilons": (3, 1)}, "epsilons must be two numbers, the least and the largest"),
        ({"epsilons": 3}, "epsilons must be two numbers"),
    ],
)
def test_bad_input(options, words):
    with pytest.raises(ValueError, match=words) as refused:
        uneven.value(ALL, **OPTIONS, **options)
    assert "\n" not in str(refused.value)


spec = importlib.util.spec_from_file_location("exchange", Path(__file__).parents[2] / "benchmarks" / "exchange.py")
exchange = importlib.util.module_from_spec(spec)
spec.loader.exec_module(exchange)


@pytest.mark.parametrize(
    ("one", "other"),
    [(LocalPrivacy(10), LocalPrivacy(5)), (AdditiveNoise(10), AdditiveNoise(40))],
    ids=["privacy", "additive"],
)
def test_the_predicted_rate_is_the_measured_one_where_noise_prevails(one, other):
    """Within a factor of 1.5, on Covertype; and a rate of 1, rows being rows, would not be."""
    measured = exchange.measured(one, other, alpha=0.1, repeats=24, rows=12_800)
    predicted = exchange.predicted(one, other, alpha=0.1)
    assert predicted / 1.5 < measured < predicted * 1.5
    assert measured > 1.5


@pytest.fixture(scope="module")
def public():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (300, 4))
    return X, np.where(rng.random(300) < 1 / (1 + np.exp(-X @ [3.0, -2.0, 1.0, 0.0])), 1.0, -1.0)


def offered(*sold):
    return [Source("mine", 300, Exact()), *sold]


def test_with_public_rows_exact_ones_are_worth_more_than_by_the_bound(public):
    sources = offered(Source("private", 10_000, LocalPrivacy(3.0)))
    by_bound, by_excess = (uneven.value(sources, 4, 0.01, public=rows).exchange for rows in (None, public))
    assert by_excess["mine"] / by_excess["private"] > 3 * by_bound["mine"] / by_bound["private"]


def test_with_public_rows_the_excess_halves_as_they_double(public):
    found = uneven.value(offered(), 4, 0.01, public=public, more=300)
    assert found.worths[0].next_bound == pytest.approx(found.bound / 2, rel=1e-9)
    assert found.theorem == "Theorem D"
    assert "Expected excess objective" in found.summary()
    assert "expected excess" in found.plot().axes[0].get_ylabel()


def test_nothing_is_bought_that_is_not_expected_to_help(public):
    noisy = Source("noisy", 1_000, LocalPrivacy(0.05), price=0.01)
    found = uneven.value(offered(noisy), 4, 0.01, public=public, budget=10.0)
    assert found.purchases == ()
    assert found.declined == ("noisy",)
    assert "not expected to lower the excess" in " ".join(found.summary().split())


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([Exact(), LocalPrivacy(0.3), LocalPrivacy(4.0)]),
                  st.integers(1, 100_000), st.floats(0.001, 10)), min_size=1, max_size=3,
    ),
    st.floats(0, 5000),
)  # fmt: skip
def test_no_purchase_is_expected_to_do_harm(public, sold, budget):
    sources = offered(*(Source(f"s{k}", n, noise, price=price) for k, (noise, n, price) in enumerate(sold)))
    found = uneven.value(sources, 4, 0.01, public=public, budget=budget)
    assert found.bound <= found.bound_before
    assert found.bound < found.bound_before or not found.purchases
    assert found.spent <= budget * (1 + 1e-9)


def test_rows_that_a_fit_would_leave_out_are_not_bought_beside_others(public):
    """With money for all three: the least useful of them would be left out, so it is not paid for."""
    useful = [Source(name, 5_000, LocalPrivacy(6.0), price=0.1) for name in ("a", "b")]
    useless = Source("c", 5_000, LocalPrivacy(0.1), price=1e-4)
    found = uneven.value(offered(*useful, useless), 4, 0.01, public=public, budget=2_000.0)
    assert {one.source for one in found.purchases} == {"a", "b"}
    assert found.declined == ("c",)
    all_of_it = uneven.value(
        [*offered(), *(replace(one, price=None) for one in (*useful, useless))], 4, 0.01, public=public
    )
    assert found.bound == pytest.approx(all_of_it.bound, rel=1e-9)


def test_money_is_split_where_both_kinds_of_rows_help(public):
    """At least as good as all of it on either kind."""
    kinds = [Source("exact", 10**6, Exact(), price=1.0), Source("private", 10**6, LocalPrivacy(6.0), price=0.05)]
    one, other, both = (
        uneven.value(offered(*sold), 4, 0.01, public=public, budget=300.0).bound
        for sold in (kinds[:1], kinds[1:], kinds)
    )
    assert both <= min(one, other) * (1 + 1e-12)


def test_public_rows_that_do_not_fit_are_refused(public):
    with pytest.raises(ValueError, match="public must be rows of 5 columns"):
        uneven.value(offered(), 5, public=public)
    with pytest.raises(ValueError, match="labels -1 and 1"):
        uneven.value(offered(), 4, public=(public[0], np.zeros(300)))
    with pytest.raises(ValueError, match="sources must own rows without privacy"):
        uneven.value([Source("a", 9, LocalPrivacy(1.0))], 4, public=public)


def test_sites_are_valued_by_what_their_plan_predicts():
    """More rows of a site lower the predicted excess, which is below that with local privacy, as the plan has it."""
    problem = uneven.Problem(25, 1e-3, 50, clip=0.5, own_batches=True)
    found = {}
    for noise in (uneven.SitePrivacy(1.0), uneven.LocalPrivacy(1.0)):
        sources = [uneven.Source("a", 3_000, noise), uneven.Source("b", 9_000, uneven.SitePrivacy(1.0))]
        valued, plan = value_sources(sources, problem), make_plan(sources, problem)
        assert valued.bound == pytest.approx(plan.predicted_excess)
        assert valued.exchange == pytest.approx(plan.exchange)
        assert all(worth.next_change < 0 for worth in valued.worths)
        assert "Expected excess objective of a fit" in valued.summary()
        assert "a prediction, not a promise" in " ".join(valued.summary().split())
        found[noise.kind] = valued.bound
    assert found["site-privacy"] < found["local-privacy"]


def test_next_precision_is_of_all_the_rows():
    """What more rows of a source add to the precision, as a share of that of all rows."""
    found = uneven.value([Source("a", rows=1000), Source("b", rows=1000, noise=FlippedLabels(0.2))], 3, more=500)
    total = sum(one.precision * one.rows for one in found.worths)
    for one in found.worths:
        assert one.next_precision == pytest.approx(500 * one.precision / total)


SOLD = {
    "clinic declined": [
        Source("archive", 2_000, FlippedLabels(0.3)),
        Source("clinic", 6_000, LocalPrivacy(10), price=0.5),
        Source("survey", 10**9, LocalPrivacy(3), price=0.1),
    ],
    "sold out": [Source("a", 300, price=0.5), Source("b", 10**6, FlippedLabels(0.2), price=0.3)],
    "dear": [Source("a", 300, price=40.0), Source("b", 200, FlippedLabels(0.45), price=39.0)],
}


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["precision", "two-rates"])
@pytest.mark.parametrize("sources", SOLD.values(), ids=SOLD)
def test_the_curve_says_where_the_money_goes(sources, strategy):
    """At each spend to a source that is bought from, and of the others no more is bought than with a little less."""
    found = uneven.value(sources, **OPTIONS, budget=1_000, strategy=strategy)
    few = 1 if strategy == "precision" else 20  # rates are searched for at each spend
    for spend, name in list(zip(found.spends, found.going_to, strict=True))[::few]:
        both = (
            uneven.value(sources, **OPTIONS, budget=money, strategy=strategy) for money in (spend, max(spend - 0.5, 0))
        )
        bought, less = ({one.source: one.rows for one in one_of.purchases} for one_of in both)
        assert (name in bought) if bought else name == ""
        if less and set(less) == set(bought):
            assert {one for one, rows in bought.items() if rows > less[one]} <= {name}


@pytest.mark.parametrize(("rows", "useful"), [(100, False), (10**9, True)])
def test_a_bound_is_no_promise_and_says_where_it_guarantees_nothing(rows, useful):
    found = uneven.value([uneven.Source("mine", rows), uneven.Source("more", 900, price=1.0)], 5, 0.01, budget=10)
    words = " ".join(found.summary().split())
    assert "Bound: the mean of ‖w - w*‖² is at most" in words
    assert "Promise" not in words
    assert ("It guarantees no useful model" not in words) == useful == can_promise(found.plan())

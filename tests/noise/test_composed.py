"""Flipped labels with another noise on the same rows; `test_contract` has the moments and the law of the releases."""

import math

import numpy as np
import pytest

import uneven
from uneven import AdditiveNoise, Exact, FlippedLabels, LabelPrivacy, LocalPrivacy, Problem, SitePrivacy
from uneven.audit import audit
from uneven.io import read_sources, write_sources
from uneven.noise import compose, noise_from_dict

SECOND = [LocalPrivacy(2.0), LocalPrivacy(2.0, "privunit"), LocalPrivacy(2.0, "l2-laplace"), SitePrivacy(2.0)]


def rates_of(noise):
    """Probability that a positive, and that a negative label is flipped."""
    return noise.known_rate + noise.skew, noise.known_rate - noise.skew


@pytest.mark.parametrize("rate", [0.2, (0.1, 0.35), (0.4, 0.05)])
@pytest.mark.parametrize("second", [*SECOND, AdditiveNoise(2.0), LabelPrivacy(2.0)], ids=repr)
@pytest.mark.parametrize("clip", [None, 0.3])
def test_unbiased_exactly_before_the_release(second, rate, clip):
    """The mean over flips, a sum of two terms, is the clipped gradient of the true label; no gradient is too long."""
    noise, rng = second & FlippedLabels(rate), np.random.default_rng(0)
    problem = Problem(3, 0.1, 5, clip=clip)
    X = rng.normal(size=(20, 3))
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    y, w = rng.choice([-1.0, 1.0], size=20), 3.0 * rng.normal(size=3)
    flipped = np.where(y > 0, *rates_of(noise))[:, None]
    mean = (1 - flipped) * noise.row_gradients(problem, w, X, y) + flipped * noise.row_gradients(problem, w, X, -y)
    np.testing.assert_allclose(mean, Exact().row_gradients(problem, w, X, y), atol=1e-14)
    longest = max(np.linalg.norm(noise.row_gradients(problem, w, X, sign * y), axis=1).max() for sign in (-1, 1))
    assert problem.gradient_norm < longest <= noise.bound(problem) * (1 + 1e-12)


def test_flips_of_label_privacy_add_up():
    """P(flipped) = r(1-s) + (1-r)s, for positives and negatives."""
    private = LabelPrivacy(1.0)
    noise, s = private & FlippedLabels((0.1, 0.3)), private.rate
    assert rates_of(noise) == pytest.approx([r * (1 - s) + (1 - r) * s for r in (0.1, 0.3)])
    assert noise.observed.rate == pytest.approx(rates_of(noise))
    labels = noise.corrupt(np.repeat([1.0, -1.0], 40_000), np.random.default_rng(0)).reshape(2, -1)
    found = (labels[0] < 0).mean(), (labels[1] > 0).mean()
    assert found == pytest.approx(rates_of(noise), abs=4 * 0.5 / 200)
    assert noise.epsilon_per_row == 1.0
    assert not noise.protects_features


def test_order_does_not_matter_and_exact_changes_nothing():
    both = LocalPrivacy(2.0) & FlippedLabels(0.1)
    assert both == FlippedLabels(0.1) & LocalPrivacy(2.0) == compose([Exact(), FlippedLabels(0.1), LocalPrivacy(2.0)])
    assert Exact() & LocalPrivacy(2.0) == LocalPrivacy(2.0)
    assert Exact() & Exact() == Exact()
    assert noise_from_dict([both.then.to_dict(), both.labels.to_dict()]) == both


@pytest.mark.parametrize(
    "parts",
    [
        (LocalPrivacy(1.0), LocalPrivacy(1.0)),
        (LocalPrivacy(1.0), SitePrivacy(1.0)),
        (LabelPrivacy(1.0), LabelPrivacy(1.0)),
        (LabelPrivacy(1.0), LocalPrivacy(1.0)),
        (FlippedLabels(0.1), FlippedLabels(0.2)),
        (AdditiveNoise(1.0), LocalPrivacy(1.0)),
        (LocalPrivacy(1.0) & FlippedLabels(0.1), FlippedLabels(0.1)),
        (LocalPrivacy(1.0) & FlippedLabels(0.1), SitePrivacy(1.0)),
    ],
    ids=repr,
)
def test_what_makes_no_sense_is_refused(parts):
    with pytest.raises(ValueError, match=r"^noise must combine FlippedLabels with one other, .*; got \w+( & \w+)+$"):
        parts[0] & parts[1]


def test_other_refusals():
    with pytest.raises(ValueError, match="rate must be known to combine it with another noise, got 'estimate'"):
        LocalPrivacy(1.0) & FlippedLabels("estimate")
    with pytest.raises(ValueError, match=r"noise must combine .*; got none"):
        noise_from_dict([])
    with pytest.raises(ValueError, match="noise must be a mapping with a kind, or a list of such, got 3"):
        noise_from_dict([{"kind": "exact"}, 3])
    with pytest.raises(ValueError, match="noise of kind 'composed' needs 'noises'"):
        noise_from_dict({"kind": "composed"})
    with pytest.raises(TypeError, match="unsupported operand"):
        LocalPrivacy(1.0) & 0.1


@pytest.mark.parametrize("drawn_by", ["release", "engine"])
def test_an_audit_finds_no_flaw_and_the_missing_stretch(drawn_by):
    """Corrected gradients are 5 times as long as the clip here: noise for the clip alone is a violation."""
    noise = LocalPrivacy(1.0, "l2-laplace") & FlippedLabels(0.4)
    found = audit(noise, 1, draws=100_000, seed=0, drawn_by=drawn_by)
    assert found.verdict == "no flaw found"
    assert found.share > 0.9
    if drawn_by == "engine":

        class Short(type(noise)):
            def coefficients(self, problem):
                found, plain = super().coefficients(problem), self.then.coefficients(problem)
                return found._replace(gamma=plain.gamma, grid=plain.grid)

        assert audit(Short(noise.labels, noise.then), 1, draws=100_000, seed=0, drawn_by=drawn_by).violated


def test_a_list_in_sources_toml_is_read_and_written(tmp_path):
    head = 'label = "y"\nn_features = 3\n[[source]]\nname = "a"\nrows = 100\nnoise = '
    noises = '[{ kind = "local-privacy", epsilon = 2.0 }, { kind = "flipped-labels", rate = [0.1, 0.2] }]'
    (tmp_path / "sources.toml").write_text(head + noises + "\n")
    file = read_sources(tmp_path / "sources.toml")
    assert file.sources[0].noise == LocalPrivacy(2.0) & FlippedLabels((0.1, 0.2))
    write_sources(tmp_path / "again.toml", file.sources, n_features=3, label="y")
    assert 'noise = [{ kind = "local-privacy"' in (tmp_path / "again.toml").read_text()
    assert read_sources(tmp_path / "again.toml").sources == file.sources
    (tmp_path / "bad.toml").write_text(
        head + '[{ kind = "site-privacy", epsilon = 1 }, { kind = "label-privacy", epsilon = 1 }]\n'
    )
    with pytest.raises(ValueError, match=r"source 'a', noise: noise must combine .* got SitePrivacy & LabelPrivacy$"):
        read_sources(tmp_path / "bad.toml")


def test_plan_describes_both_and_compares_the_other_promise(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # so that no cell of the table is wrapped
    sources = [uneven.Source("a", 9_000, LocalPrivacy(2.0) & FlippedLabels(0.1)), uneven.Source("b", 900)]
    plan = uneven.plan(sources, 5)
    assert "private, ε = 2 (quiet), and 10% of labels flipped" in " ".join(plan.summary().split())
    assert plan.other_promises()["a"].kind == "site-privacy"
    assert uneven.Plan.from_dict(plan.to_dict()) == plan
    alone = uneven.plan([uneven.Source("a", 9_000, LocalPrivacy(2.0)), sources[1]], 5)
    assert plan.exchange["a"] == pytest.approx(alone.exchange["a"] * 0.8**2)  # 1/A² as many rows


@pytest.mark.parametrize(
    "second", [LocalPrivacy(20.0), SitePrivacy(2.0), LabelPrivacy(3.0), AdditiveNoise(2.0)], ids=repr
)
@pytest.mark.parametrize("anchored", [False, True])
def test_classifier_learns_is_charged_and_saved(tmp_path, second, anchored):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(6_000, 3)) / 3
    clean = np.where(X @ [3.0, -2.0, 1.0] + 0.3 * rng.normal(size=6_000) > 0, 1, 0)
    source, noise = np.full(6_000, "a"), {"a": second & FlippedLabels((0.3, 0.1))}
    flips = rng.random(6_000) < np.where(clean > 0, 0.3, 0.1)
    if anchored:
        source[:300], flips[:300], noise["b"] = "b", False, Exact()
    ledger = uneven.Ledger()
    clf = uneven.UnevenClassifier(noise, row_norm=3.0, ledger=ledger).fit(
        X, np.where(flips, 1 - clean, clean), source=source
    )
    assert clf.score(X, clean) > 0.85
    assert clf.privacy_spent_ == ({"a": second.epsilon} if second.private else {})
    assert clf.flip_rates_["a"] == clf.plan_.sources[0].noise.flips.rate
    clf.save(tmp_path / "model.json")
    again = uneven.UnevenClassifier.load(tmp_path / "model.json")
    assert again.noise == noise
    np.testing.assert_array_equal(again.coef_, clf.coef_)


def test_the_caveat_names_the_activity_of_every_source():
    noise = LocalPrivacy(3.0, activity=0.2) & FlippedLabels(0.1)
    sources = [uneven.Source("a", 5_000, noise), uneven.Source("b", 5_000, LocalPrivacy(3.0, activity=0.4))]
    (said,) = [one for one in uneven.plan(sources, 25, clip=0.5).caveats if "a mean gradient norm of at most" in one]
    assert "0.2 × clip for 'a' and 0.4 × clip for 'b'; set activity = 1" in said


@pytest.mark.parametrize(
    "then", [LocalPrivacy(2.0), LocalPrivacy(2.0, "l2-laplace"), SitePrivacy(2.0), AdditiveNoise(4.0)]
)
@pytest.mark.parametrize("rate", [0.1, (0.05, 0.15)])
def test_energies_are_those_of_the_second_noise_with_the_longer_bound(then, rate):
    """Corrected gradients are up to A·C long: what is stated of a release is what the second noise states at A·C."""
    labels = FlippedLabels(rate)
    both, plain = then & labels, Problem(6, 1e-3, 50, clip=0.25)
    longer = Problem(6, 1e-3, 50, clip=0.25 * labels.amplification())
    assert both.epsilon_per_row == then.epsilon_per_row
    assert labels.amplification() > 1.1
    for name in ("row_energy", "planned_energy", "added_energy", "batch_energy"):
        assert getattr(both, name)(plain) == pytest.approx(getattr(then, name)(longer), rel=1e-12), name


def test_labels_are_flipped_before_they_are_randomised():
    """P(seen j | true i) = Σ_k P(flipped to k | i)·P(randomised to j | k), for a matrix that is not symmetric."""
    T = np.array([[0.7, 0.2, 0.1], [0.0, 0.9, 0.1], [0.3, 0.3, 0.4]])
    private = LabelPrivacy(1.5)
    kept = math.exp(1.5) / (math.exp(1.5) + 2.0)
    seen = np.zeros((3, 3))
    for i in range(3):
        for k in range(3):
            for j in range(3):
                seen[i, j] += T[i, k] * (kept if j == k else (1.0 - kept) / 2.0)
    found = (private & FlippedLabels(T)).observed_among(3)
    np.testing.assert_allclose(found.confusion_of(3), seen, atol=1e-12)
    np.testing.assert_allclose(
        seen @ found.targets(3), np.eye(3), atol=1e-12
    )  # Σ_j P(j | i)·target_j is true class i's

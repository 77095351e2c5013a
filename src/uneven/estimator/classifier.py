"""`UnevenClassifier`: plan and engine behind scikit-learn's interface."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from uneven import checks
from uneven.engine import State, fit, initial_state, objective, tasks_of
from uneven.estimator import accounts, flips, going_on, line_search, model_file
from uneven.estimator.prepare import (
    LONG_ROWS,
    Grouped,
    Scale,
    checked_norms,
    clip_for,
    grouped,
    row_norms,
    scale_for,
)
from uneven.ledger import Ledger
from uneven.matrices import is_sparse
from uneven.noise import Noise
from uneven.planner import Plan, Source, plan
from uneven.problem import Problem

Array = NDArray[np.float64]
Data = dict[str, tuple[Any, Array]]


def _all_or_nothing(method: Callable[..., Any]) -> Callable[..., Any]:
    """A call that is refused leaves the model as it was; what it has charged stays charged."""

    @wraps(method)
    def guarded(self: UnevenClassifier, *args: Any, **kwargs: Any) -> Any:
        before = dict(self.__dict__)
        try:
            return method(self, *args, **kwargs)
        except BaseException:
            charged = {key: self.__dict__[key] for key in ("privacy_spent_", "_rows_seen") if self.__dict__.get(key)}
            self.__dict__ = before | charged
            raise

    return guarded


def _has_probabilities(self: UnevenClassifier) -> bool:
    if self.loss != "logistic":
        raise AttributeError(f"predict_proba needs loss='logistic', got {self.loss!r}")
    return True


class UnevenClassifier(ClassifierMixin, BaseEstimator):
    """Linear classifier learned by SGD from sources of uneven quality, each row once.

    Parameters
    ----------
    noise : Noise, dict of str to Noise, or None
        What stands between the rows and the learner: of each source by name, or of all rows. None is `Exact`.
    alpha : float
        L2 strength.
    batch_size : int
        Rows per step.
    loss : {"logistic", "hinge", "linear"}
    strategy : str
        How to plan: see `uneven.plan`.
    moments : {"auto", "upper", "lower", "variance", "estimated"}
        What stands for a step's noise; ``"estimated"`` learns it on the way.
    radius : {"tight", "paper"}
    fit_intercept : bool
        An intercept is one more feature with a constant value, `row_norm` (a quarter of it where rows are private),
        and is regularised like the others.
    clip : "auto", float or None
        Norm that rows' gradients are shrunk to, in units of the longest row's. ``"auto"`` is 0.5 where a source is
        private and the strategy is "precision", else None.
    average : {"auto", "last", "late", "growing", "steps"}
        Which iterates the answer is made of: by default the last half of the clock for "precision".
    row_norm : "auto" or float
        Public bound on the rows' norm. ``"auto"`` is 1 where a source is private, else the largest norm there is.
    long_rows : {"shrink", "refuse"}
        What to do with rows beyond `row_norm`.
    passes : int
        Times each row is used. Private rows pay for each.
    budget : float or None
        The most ε a row may have spent when this is done; more is refused before anything is released.
    ledger : Ledger or None
        Book that private rows are charged in, before they are used.
    line_search : int
        With strategy "two-rates": how many second rates to try; 0 for none.
    mechanism : str
        Private mechanism for ``fit(..., epsilon=...)``.
    random_state : int or None
        None draws noise from a cryptographic generator; a seed is for simulations and promises no privacy.

    Attributes
    ----------
    classes_ : array
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
    intercept_ : array of shape (1,) or (n_classes,)
    plan_ : Plan
        For the rows scaled into the unit ball, the intercept's feature included.
    privacy_spent_ : dict
        ε that each row of each private source has spent here.
    flip_rates_ : dict
        Flip rate of each source with flipped labels, estimated where asked for.

    Examples
    --------
    >>> import numpy as np, uneven
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3)); y = np.where(X[:, 0] > 0, "ill", "well")
    >>> expert = np.arange(2000) < 200
    >>> crowd_y = np.where(~expert & (rng.random(2000) < 0.3), np.where(y == "ill", "well", "ill"), y)
    >>> noise = {"expert": uneven.Exact(), "crowd": uneven.FlippedLabels(0.3)}
    >>> clf = uneven.UnevenClassifier(noise, random_state=0)
    >>> clf = clf.fit(X, crowd_y, source=np.where(expert, "expert", "crowd"))
    >>> bool(clf.score(X, y) > 0.9)
    True
    """

    _states: list[State]
    _rows_seen: dict[str, int]
    privacy_spent_: dict[str, float]

    def __init__(
        self,
        noise: Any = None,
        *,
        alpha: float = 1e-3,
        batch_size: int = 50,
        loss: str = "logistic",
        strategy: str = "precision",
        moments: str = "auto",
        radius: str = "tight",
        fit_intercept: bool = True,
        clip: Any = "auto",
        average: str = "auto",
        row_norm: Any = "auto",
        long_rows: str = "shrink",
        passes: int = 1,
        budget: float | None = None,
        ledger: Ledger | None = None,
        line_search: int = 0,
        mechanism: str = "privunit",
        random_state: int | None = None,
    ) -> None:
        self.noise = noise
        self.alpha = alpha
        self.batch_size = batch_size
        self.loss = loss
        self.strategy = strategy
        self.moments = moments
        self.radius = radius
        self.fit_intercept = fit_intercept
        self.clip = clip
        self.average = average
        self.row_norm = row_norm
        self.long_rows = long_rows
        self.passes = passes
        self.budget = budget
        self.ledger = ledger
        self.line_search = line_search
        self.mechanism = mechanism
        self.random_state = random_state

    @_all_or_nothing
    def fit(
        self,
        X: Any,
        y: Any,
        source: Any = None,
        epsilon: Any = None,
        flip_rate: Any = None,
        row_id: Any = None,
        validation: Any = None,
    ) -> UnevenClassifier:
        """Fit to rows whose quality is told by `source`, or by one `epsilon` or `flip_rate` a row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
        y : array-like of shape (n,)
        source : array-like of str, shape (n,)
            Name of each row's source, one of those in `noise`.
        epsilon, flip_rate : array-like of float, shape (n,)
            Each row's own noise, instead of `source`.
        row_id : array-like of int, shape (n,)
            How the ledger knows the rows; by default their place among their source's.
        validation : (X, y)
            Rows without privacy to compare the runs of a line search on.
        """
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32])
        for kept in ("_states", "loaded_from_"):
            self.__dict__.pop(kept, None)
        signs = self._learn_classes(y)
        groups = grouped(X.shape[0], self.noise, source, epsilon, flip_rate, self.mechanism)
        self._refuse_settings(groups, len(signs))
        scale = self._scale(X, bool(groups.private.any()))
        unit = scale.rows(checked_norms(X, scale.row_norm, self.long_rows, groups.private))
        noises = self._known_noises(unit, signs, groups, scale)
        self.plan_ = self._plan(noises, groups, unit.shape[1], scale)
        runs = checks.whole("line_search", self.line_search, least=0)
        data = [self._data(unit, sign, groups) for sign in signs]
        compared = self._comparison(data[0], groups, scale, validation) if runs else None
        self._refuse_run(unit, groups)
        self.privacy_spent_ = self._charged(noises, groups, row_id, {}, times=self.passes * max(runs, 1))
        weights = [self._searched(data[0], *compared)] if compared else [self._run(one) for one in data]
        self.coef_, self.intercept_ = self._unscaled(weights, scale)
        self.scale_ = scale
        return self

    @_all_or_nothing
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, source: Any = None, row_id: Any = None
    ) -> UnevenClassifier:
        """Go on learning from more rows, each used once: the step count and the precision clock continue.

        The first call learns the classes from `classes`, or from y. Where no source is private, ``row_norm="auto"`` is
        twice the largest norm in the first call's rows. Rows of each call are taken to be new ones: pass `row_id`,
        and a ledger, where they may not be. No rows is no step. It starts anew after `fit`. Only the precision
        strategy can go on without knowing how much is to come.
        """
        first = not hasattr(self, "_states")
        if first and hasattr(self, "loaded_from_"):
            raise ValueError(
                "a model that was loaded from a file can predict but not go on learning: the file has no state"
            )
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], reset=first, ensure_min_samples=0
        )
        if self.strategy != "precision":
            raise ValueError(f"strategy must be 'precision' for partial_fit, got {self.strategy!r}")
        if X.shape[0] == 0:
            return self
        if first:
            self._learn_classes(np.asarray(y if classes is None else classes))
        signs = self._signs(y)
        groups = grouped(X.shape[0], self.noise, source, None, None, self.mechanism)
        self._refuse_settings(groups, len(signs))
        if first:
            self._open(X, groups)
        unit = self.scale_.rows(checked_norms(X, self.scale_.row_norm, self.long_rows, groups.private))
        self._refuse_run(unit, groups)
        spent = self._charged(groups.noises, groups, row_id, self._rows_seen, times=1)
        self.privacy_spent_ = {**self.privacy_spent_, **spent}
        self._rows_seen = accounts.counted(groups, self._rows_seen)
        self._states = [
            going_on.continued(
                state, self._problem, self._schedule, groups, unit, sign, self.moments, self.random_state
            )
            for state, sign in zip(self._states, signs, strict=True)
        ]
        self.coef_, self.intercept_ = self._unscaled([state.answer for state in self._states], self.scale_)
        return self

    def decision_function(self, X: Any) -> Array:
        """Signed distance to the hyperplane, in units of the margin."""
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        scores = np.asarray(X @ self.coef_.T + self.intercept_)
        return scores.ravel() if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Most likely class of each row."""
        scores = self.decision_function(X)
        places = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[places])

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Array:
        """Probability of each class; for more than two, one-vs-rest ones made to add up."""
        positive = expit(self.decision_function(X))
        if positive.ndim == 1:
            return np.column_stack([1.0 - positive, positive])
        return np.asarray(positive / np.maximum(positive.sum(axis=1, keepdims=True), 1e-300))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a readable JSON file: whole or not at all."""
        check_is_fitted(self, "coef_")
        model_file.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> UnevenClassifier:
        """Model that `save` wrote, to predict with; refused if it is not one, is cut short or is of a newer kind."""
        return model_file.load(cls, path)  # type: ignore[no-any-return]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # Labels and rows.

    def _learn_classes(self, y: NDArray[Any]) -> list[Array]:
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(f"y must have at least two classes, got one class: {checks.shown(self.classes_[0])}")
        return self._signs(y)

    def _signs(self, y: NDArray[Any]) -> list[Array]:
        """Labels as -1 and 1: once for two classes, once a class for more."""
        if unknown := sorted(set(np.unique(y)) - set(self.classes_)):
            raise ValueError(
                f"y must hold the classes {checks.shown(list(self.classes_))}, got {checks.shown(unknown[0])}"
            )
        positive = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        return [np.where(y == one, 1.0, -1.0) for one in positive]

    def _refuse_settings(self, groups: Grouped, problems: int) -> None:
        checks.one_of("long_rows", self.long_rows, LONG_ROWS)
        checks.whole("passes", self.passes)
        if self.random_state is not None:
            checks.whole("random_state", self.random_state, least=0)
        if self.budget is not None:
            checks.positive("budget", self.budget, 1e-6, 1e6)
        if self.ledger is not None and not isinstance(self.ledger, Ledger):
            raise ValueError(f"ledger must be an uneven.Ledger, got {checks.shown(self.ledger)}")
        flips.refuse_unanchored(groups.noises, self.loss)
        if problems > 1 and groups.private.any():
            raise ValueError(
                f"y must have two classes where a source is private, got {problems}: one-vs-rest would release every "
                "row once a class, and no account for that is kept yet"
            )

    def _refuse_run(self, unit: Any, groups: Grouped) -> None:
        """What a run would refuse, before anything is charged for it."""
        if is_sparse(unit) and groups.private.any():
            raise ValueError("X must be dense where a source is private: its noise fills every coordinate")
        if hasattr(self, "plan_"):
            tasks_of(self.plan_, self.average, self.moments == "estimated")

    def _scale(self, X: Any, private: bool, headroom: float = 1.0) -> Scale:
        """Public constants for these rows; without privacy "auto" takes the norm from them, times `headroom`."""
        largest = lambda: headroom * float(row_norms(X).max(initial=0.0))  # noqa: E731
        return scale_for(self.row_norm, largest, private, self.fit_intercept)

    def _data(self, unit: Any, sign: Array, groups: Grouped) -> Data:
        return {name: (unit[i], sign[i]) for k, name in enumerate(groups.names) if len(i := groups.rows_of(k))}

    # Plans and runs.

    def _clip(self, private: bool) -> float | None:
        return clip_for(self.clip, self.strategy, private)

    def _plan(self, noises: Mapping[str, Noise], groups: Grouped, d: int, scale: Scale, passes: int = 0) -> Plan:
        counts = np.bincount(groups.index, minlength=len(noises)) * (passes or self.passes)
        sources = [Source(name, int(n), one) for (name, one), n in zip(noises.items(), counts, strict=True) if n]
        private = any(source.noise.epsilon_per_row is not None for source in sources)
        return plan(
            sources,
            d,
            scale.alpha(checks.positive("alpha", self.alpha)),
            self.batch_size,
            self.loss,
            self.strategy,
            "auto" if self.moments == "estimated" else self.moments,
            self.radius,
            self._clip(private),
        )

    def _run(self, data: Data, chosen: Plan | None = None, passes: int = 0) -> Array:
        return fit(
            self.plan_ if chosen is None else chosen,
            data,
            seed=self.random_state,
            average=self.average,
            estimate=self.moments == "estimated",
            passes=passes or self.passes,
        ).weights

    def _known_noises(self, unit: Any, signs: list[Array], groups: Grouped, scale: Scale) -> Mapping[str, Noise]:
        """Noises of the sources, with flip rates estimated where that was asked for."""
        noises = groups.noises
        if flips.unknown(noises):
            place = {name: k for k, name in enumerate(groups.names)}

            def fitted(chosen: Mapping[str, Noise]) -> Callable[[str], Array]:
                known = {name: chosen[name] for name in groups.names if name in chosen}
                rows = np.isin(groups.index, [place[name] for name in known])
                own = Grouped(known, np.searchsorted([place[n] for n in known], groups.index[rows]))
                passes = max(self.passes, -(-flips.ROW_VISITS // int(rows.sum())))
                self.plan_ = self._plan(known, own, unit.shape[1], scale, passes)
                w = self._run(self._data(unit[rows], signs[0][rows], own), passes=passes)

                def probability(name: str) -> Array:
                    i = groups.rows_of(place[name])
                    return np.asarray(expit(signs[0][i] * np.asarray(unit[i] @ w)))

                return probability

            if len(signs) > 1:
                raise ValueError(f"y must have two classes to estimate flip rates, got {len(signs)}")
            noises = flips.estimated(noises, fitted)
        self.flip_rates_ = {name: one.rate for name, one in noises.items() if hasattr(one, "rate")}
        return noises

    def _comparison(self, data: Data, groups: Grouped, scale: Scale, validation: Any) -> tuple[list[Plan], Any, Array]:
        """Plans of a line search and rows without privacy to compare them on; or a refusal, before any charge."""
        if len(self.classes_) > 2:
            raise ValueError(f"line_search needs two classes, got {len(self.classes_)}")
        names = [name for name, one in groups.noises.items() if one.epsilon_per_row is None and name in data]
        total = None if self.budget is None else self.budget / self.passes
        line_search.refuse_unfit(self.plan_, self.line_search, total, names if validation is None else ["validation"])
        plans = line_search.candidates(self.plan_, self.line_search)
        if validation is None:
            return plans, *data[names[0]]
        X, y = validate_data(self, *validation, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return plans, scale.rows(X), self._signs(y)[0]

    def _searched(self, data: Data, plans: list[Plan], X: Any, y: Array) -> Array:
        weights = [self._run(data, one) for one in plans]
        best = int(np.argmin(objective(self.plan_.problem, np.array(weights), X, y)))
        self.plan_ = plans[best]
        return weights[best]

    def _charged(
        self, noises: Mapping[str, Noise], groups: Grouped, row_id: Any, seen: Mapping[str, int], times: int
    ) -> dict[str, float]:
        ids = accounts.row_ids(groups, row_id, seen)
        return accounts.charge(self.ledger, self.budget, noises, groups, ids, times)

    def _unscaled(self, weights: list[Array], scale: Scale) -> tuple[Array, Array]:
        coefs, intercepts = zip(*(scale.coefficients(w) for w in weights), strict=True)
        return np.array(coefs), np.array(intercepts)

    # Going on.

    def _open(self, X: Any, groups: Grouped) -> None:
        noises = self.noise if isinstance(self.noise, Mapping) else groups.noises
        private = any(one.epsilon_per_row is not None for one in noises.values())
        self.scale_ = self._scale(X, private, headroom=2.0)
        d = X.shape[1] + bool(self.fit_intercept)
        self._problem = Problem(
            d,
            self.scale_.alpha(checks.positive("alpha", self.alpha)),
            self.batch_size,
            self.loss,
            self.radius,
            self._clip(private),
        )
        self._schedule = going_on.schedule(self._problem, noises.values(), self.moments)
        problems = 1 if len(self.classes_) == 2 else len(self.classes_)
        self._states = [initial_state(d) for _ in range(problems)]
        self._rows_seen = {}
        self.privacy_spent_ = {}
        self.coef_, self.intercept_ = self._unscaled([np.zeros(d)] * problems, self.scale_)

"""`UnevenClassifier`: plan and engine behind scikit-learn's interface."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from uneven import checks
from uneven.engine import Fit, State, fit, initial_state, tasks_of
from uneven.estimator.prediction import LinearPrediction
from uneven.ledger import Ledger
from uneven.matrices import is_sparse
from uneven.noise import Exact, FlippedLabels, Noise
from uneven.planner import Plan, Source, plan
from uneven.problem import Problem
from uneven.training import accounts, continuation, flips, labels, line_search, model_file, settings
from uneven.training.grouping import Grouped, grouped
from uneven.training.scaling import Scale, clip_of, fitting, scale_of

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
            self.__dict__ = before | accounts.after_a_break(before, self.__dict__)
            raise

    return guarded


class UnevenClassifier(LinearPrediction, ClassifierMixin, BaseEstimator):
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
        An intercept is one more feature with a constant value, half the rows' norm (a quarter where rows are
        private), and is regularised like the others.
    clip : "auto", float or None
        Norm that rows' gradients are shrunk to, in units of the rows' norm. ``"auto"`` is 0.5 where a source is
        private and the strategy is "precision", else None.
    average : {"auto", "last", "late", "growing", "steps"}
        Which iterates the answer is made of: by default the last quarter of the clock for "precision".
    row_norm : "auto" or float
        Public bound on the rows' norm. ``"auto"`` is 1 where a source is private. Where none is, it takes the rows as
        they are and scales by their root-mean-square norm (the largest of the sources'): nothing is shrunk.
    long_rows : {"shrink", "refuse"}
        What to do with rows beyond `row_norm`.
    passes : int
        Times each row is used. Private rows pay for each. Few rows need more than one: 500 are ten steps.
    budget : float or None
        The most ε a row may have spent when this is done, by this fit and the partial fits after it; more is refused
        before anything is released. A ledger remembers more: other fits, of this model and of others.
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
        For the rows scaled to norm 1, the intercept's feature included.
    privacy_spent_ : dict
        ε that each row of each private source has spent, by this fit and the partial fits after it; the most that one
        has spent, where rows come again under their `row_id`. With a ledger, by all that it knows.
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
    _course: continuation.Course
    _ended: str
    _rows_seen: dict[str, int]
    _book: Ledger | None
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
            How the rows are known to the ledger, or without one to the model itself, which then counts what a row
            spends over its calls; by default their place among their source's.
        validation : (X, y)
            Rows without privacy to compare the runs of a line search on.
        """
        labels.refuse_missing("y", y)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32])
        for kept in ("_states", "_course", "_ended", "_book"):
            self.__dict__.pop(kept, None)
        settings.refuse_bad(self.get_params(deep=False))
        self.classes_ = labels.classes_of(y)
        signs = labels.signs(y, self.classes_)
        groups = grouped(X.shape[0], self.noise, source, epsilon, flip_rate, self.mechanism)
        settings.refuse_unfit(self.loss, groups, len(signs))
        scale = scale_of(X, groups, self.row_norm, self.fit_intercept, bool(groups.private.any()), self.batch_size)
        unit = scale.rows(fitting(X, scale, self.long_rows, groups))
        groups = self._known(groups, unit, signs, scale)
        self.plan_ = self._plan(groups, unit.shape[1], scale)
        data = [self._data(unit, sign, groups) for sign in signs]
        compared = self._comparison(data[0], groups, scale, validation) if self.line_search else None
        tasks_of(self.plan_, self.average, self.moments == "estimated")  # refuses what no run could do
        self._refuse_run(unit, groups, scale)
        times = self.passes * max(self.line_search, 1)
        self.privacy_spent_ = self._charged(groups, row_id, {}, {}, times, self.plan_.order)
        fits = [self._searched(data[0], *compared)] if compared else [self._run(one) for one in data]
        self._keep([one.state for one in fits], scale)
        self._leave_open(groups)
        return self

    @_all_or_nothing
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, source: Any = None, row_id: Any = None
    ) -> UnevenClassifier:
        """Go on learning from more rows: the step count and the precision clock continue, after `fit` too.

        The first call, or `fit`, learns the classes (from `classes`, or from y) and the scale of the rows; where no
        source is private, rows of a later call whose root-mean-square norm is more than twice as large are shrunk to
        that, with a warning. Rows of each call are taken to be new ones: pass `row_id` where they may not be. Each is
        used `passes` times. No rows is no step. Only the precision strategy can go on without knowing how much is to
        come, and settings that a run rests on must stay as they were: to start anew, call `fit`.
        """
        if hasattr(self, "_ended"):
            raise ValueError(f"partial_fit cannot go on from {self._ended}")
        first = not hasattr(self, "_states")
        labels.refuse_missing("y", y)
        labels.refuse_missing("classes", classes)
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], reset=first, ensure_min_samples=0
        )
        settings.refuse_bad(self.get_params(deep=False))
        continuation.refuse_settings(self.get_params(deep=False))
        if not first:
            labels.refuse_others(classes, self.classes_)
        if X.shape[0] == 0:
            return self
        if first:
            self.classes_ = labels.classes_of(np.asarray(y if classes is None else classes))
        signs = labels.signs(y, self.classes_)
        groups = grouped(X.shape[0], self.noise, source, None, None, self.mechanism)
        rates = {} if first else getattr(self, "flip_rates_", {})
        groups = replace(groups, noises=continuation.with_known_rates(groups.noises, rates))
        settings.refuse_unfit(self.loss, groups, len(signs))
        if first:
            self._open(X, groups)
        self._course.refuse_changes(self.get_params(deep=False))
        unit = self.scale_.rows(fitting(X, self.scale_, self.long_rows, groups))
        self._refuse_run(unit, groups, self.scale_)
        spent = self._charged(groups, row_id, self._rows_seen, self.privacy_spent_, self.passes)
        self.privacy_spent_ = accounts.most(self.privacy_spent_, spent)
        self._rows_seen = accounts.counted(groups, self._rows_seen)
        states = [
            continuation.continued(state, self._course, groups, unit, sign, self.passes, self.random_state)
            for state, sign in zip(self._states, signs, strict=True)
        ]
        self._keep(states, self.scale_)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a readable JSON file: whole or not at all."""
        check_is_fitted(self, "coef_")
        model_file.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> UnevenClassifier:
        """Model that `save` wrote, to predict with; refused if it is not one, is cut short or is of a newer kind."""
        return model_file.load(cls, path)  # type: ignore[no-any-return]

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        book = state.get("_book")
        return state if book is None else {**state, "_book": accounts.written(book)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        entries = state.get("_book")
        super().__setstate__(state if entries is None else {**state, "_book": accounts.with_written(Ledger(), entries)})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # Plans and runs.

    def _refuse_run(self, unit: Any, groups: Grouped, scale: Scale) -> None:
        """What a run would refuse, before anything is charged for it."""
        if not groups.private.any():
            return
        if is_sparse(unit):
            raise ValueError("X must be dense where a source is private: its noise fills every coordinate")
        if scale.norms != "largest":
            raise ValueError(
                "row_norm must be a number where private rows come after others, got 'auto', which scaled by those"
            )

    def _data(self, unit: Any, sign: Array, groups: Grouped) -> Data:
        return {name: (unit[i], sign[i]) for k, name in enumerate(groups.names) if len(i := groups.rows_of(k))}

    def _problem(self, private: bool, d: int, scale: Scale) -> Problem:
        return Problem(
            d,
            scale.alpha(self.alpha),
            self.batch_size,
            self.loss,
            self.radius,
            clip_of(self.clip, self.strategy, private),
            scale.norms,
            scale.eigenvalue,
        )

    def _plan(self, groups: Grouped, d: int, scale: Scale) -> Plan:
        counts = np.bincount(groups.index, minlength=len(groups.names)) * self.passes
        pairs = zip(groups.noises.items(), counts, strict=True)
        sources = [Source(name, int(n), one) for (name, one), n in pairs if n]
        problem = self._problem(bool(groups.private.any()), d, scale)
        moments = "auto" if self.moments == "estimated" else self.moments
        return plan(sources, **problem.to_dict(), strategy=self.strategy, moments=moments)

    def _run(self, data: Data, chosen: Plan | None = None) -> Fit:
        return fit(
            self.plan_ if chosen is None else chosen,
            data,
            seed=self.random_state,
            average=self.average,
            estimate=self.moments == "estimated",
            passes=self.passes,
        )

    def _known(self, groups: Grouped, unit: Any, signs: list[Array], scale: Scale) -> Grouped:
        """Sources of the rows, with flip rates estimated where that was asked for."""
        if flips.unknown(groups.noises):
            if len(signs) > 1:
                raise ValueError(f"y must have two classes to estimate flip rates, got {len(signs)}")
            like = self._problem(False, unit.shape[1], scale)
            fitted = flips.fitted_to(unit, signs[0], groups, like, self.random_state)
            groups = replace(groups, noises=flips.estimated(groups.noises, fitted))
        self.flip_rates_ = {name: one.rate for name, one in groups.noises.items() if isinstance(one, FlippedLabels)}
        return groups

    def _comparison(self, data: Data, groups: Grouped, scale: Scale, validation: Any) -> tuple[list[Plan], Any]:
        """Plans of a line search and rows without privacy to compare them on; or a refusal, before any charge."""
        if len(self.classes_) > 2:
            raise ValueError(f"line_search needs two classes, got {len(self.classes_)}")
        names = line_search.comparable(groups.noises)
        compared = names if validation is None else ["validation"]
        line_search.refuse_unfit(self.plan_, self.line_search, self.passes, self.budget, compared)
        plans = line_search.candidates(self.plan_, self.line_search)
        if validation is None:
            return plans, (*data[names[0]], groups.noises[names[0]])
        if not isinstance(validation, tuple | list) or len(validation) != 2:
            raise ValueError(f"validation must be (X, y), got {checks.shown(validation)}")
        X, y = validate_data(self, *validation, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return plans, (scale.rows(X), labels.signs(y, self.classes_)[0], Exact())

    def _searched(self, data: Data, plans: list[Plan], rows: Any) -> Fit:
        fits = [self._run(data, one) for one in plans]
        best = line_search.best(self.plan_, [one.weights for one in fits], *rows)
        self.plan_ = plans[best]
        return fits[best]

    def _charged(
        self,
        groups: Grouped,
        row_id: Any,
        seen: Mapping[str, int],
        spent: Mapping[str, float],
        times: int,
        names: list[str] | None = None,
    ) -> dict[str, float]:
        ids, book = accounts.row_ids(groups, row_id, seen), self.ledger
        if book is None and groups.private.any():
            book = self._book = accounts.own_book(getattr(self, "_book", None), row_id, spent, seen)
        return accounts.charge(book, self.budget, groups, ids, times, names)

    def _keep(self, states: list[State], scale: Scale) -> None:
        """States and scale of a run, and its answer for the rows as given."""
        self._states, self.scale_ = states, scale
        coefs, intercepts = zip(*(scale.coefficients(state.answer) for state in states), strict=True)
        self.coef_, self.intercept_ = np.array(coefs), np.array(intercepts)

    # Going on.

    def _open(self, X: Any, groups: Grouped) -> None:
        """Begin with `partial_fit`, for all sources that may come."""
        noises = continuation.with_known_rates(self._declared(groups), {})
        private = any(one.private for one in noises.values())
        scale = scale_of(X, groups, self.row_norm, self.fit_intercept, private, self.batch_size)
        problem = self._problem(private, X.shape[1] + bool(self.fit_intercept), scale)
        self._course = continuation.course(problem, noises, self.get_params(deep=False))
        count = 1 if len(self.classes_) == 2 else len(self.classes_)
        self._keep([initial_state(problem.n_features) for _ in range(count)], scale)
        self._rows_seen = {}
        self.privacy_spent_ = getattr(self, "privacy_spent_", {})

    def _leave_open(self, groups: Grouped) -> None:
        """End `fit` so that `partial_fit` can go on from it, or will say why not."""
        self._rows_seen = accounts.counted(groups, {})
        if self.strategy != "precision":
            self._ended = f"a fit with strategy {self.strategy!r}: its steps were for these rows alone; clone the model"
        elif groups.by_row:
            self._ended = "a fit to rows that told their own noise: it takes sources; clone the model"
        else:
            noises = continuation.usable(self._declared(groups), self.flip_rates_, self.plan_.problem)
            self._course = continuation.course(self.plan_.problem, noises, self.get_params(deep=False))
            kind = tasks_of(self.plan_, self.average, self._course.estimate)[-1].average.kind
            self._states = [continuation.grown(state, kind) for state in self._states]

    def _declared(self, groups: Grouped) -> dict[str, Noise]:
        """All sources that may come: those of `noise`, and of these rows."""
        named = self.noise if isinstance(self.noise, Mapping) else {}
        return {**{str(name): one for name, one in named.items()}, **groups.noises}

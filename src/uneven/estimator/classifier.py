"""`UnevenClassifier`: the trainer behind scikit-learn's interface, for arrays and frames."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from uneven import checks
from uneven.columns import Column
from uneven.estimator.guards import all_or_nothing, validate, warn_long
from uneven.estimator.prediction import LinearPrediction
from uneven.estimator.saved_model import SavedModel
from uneven.ledger import Ledger
from uneven.noise import Noise
from uneven.settings import NAMES, Settings
from uneven.training import (
    Account,
    ArrayRows,
    Piece,
    Progress,
    check_noises,
    continue_training,
    keep_progress,
    refuse_missing,
    refuse_others,
    refuse_settings,
    train,
)

Array = NDArray[np.float64]


class UnevenClassifier(SavedModel, LinearPrediction, ClassifierMixin, BaseEstimator):
    """Linear classifier for data sources of uneven quality: private rows are used once, public rows to convergence.

    Parameters
    ----------
    noise : Noise, dict of str to Noise, or None
        Noise or protection of each source by name, or of all rows. None means `Exact`.
        Ties between sources are broken by their place in the dict.
    alpha : "auto" or float
        L2 strength. ``"auto"`` is chosen by cross-validation on rows without privacy, never on private ones; where
        every row is private it is 1e-3 or a part of it, by what a run is predicted to reach.
    batch_size : int or "auto"
        Rows per step. ``"auto"`` is 50, and for each source with site privacy what is predicted to be best.
    loss : {"logistic", "hinge", "linear"}
        ``"logistic"`` has probabilities; ``"hinge"`` is that of a linear SVM; ``"linear"`` is minus the margin.
    strategy : str
        ``"auto"`` learns sources without privacy to convergence, and lets private ones add to that ("anchored"); where
        every source is private it is "precision". The others step through the rows: see `uneven.plan`.
    moments : {"auto", "upper", "lower", "variance", "estimated"}
        What stands for a step's noise; ``"estimated"`` learns it on the way.
    radius : {"tight", "paper"}
        Ball that the weights of a run by steps stay in: the smallest known to hold the optimum, or the paper's 1/alpha.
    fit_intercept : bool
        An intercept is one more feature with a constant value, half the rows' norm (a quarter where rows are
        private). Learned to convergence it has no L2 term, as in scikit-learn; beside private rows a hundredth of the
        others', and the same as the others where steps are asked for.
    clip : "auto", float or None
        Norm that rows' gradients are shrunk to, in units of the rows' norm. ``"auto"`` is 0.5 where a source is
        private and the strategy is "precision" or "anchored", or 1 where all are and noise is small; else None.
    average : {"auto", "last", "late", "growing", "steps"}
        Which iterates the answer is made of: by default the late average for "precision".
    row_norm : "auto" or float
        Public bound on the rows' norm. Where a source is private, ``"auto"`` is 1, or the least of 1, 1.1, 1.3, 1.4,
        1.6, … that 99% of the rows without privacy keep (all of them with ``long_rows="refuse"``). Where none is, it
        takes the rows as they are and scales by their root-mean-square norm (the largest of the sources'): nothing is
        shrunk.
    long_rows : {"shrink", "refuse"}
        What to do with rows beyond `row_norm`.
    passes : "auto" or int
        Times that steps go through each row; private rows pay for each. ``"auto"`` is to convergence without privacy,
        and once with it.
    use : {"auto", "all"}
        Whether a private source that is not expected to help is left out, uncharged.
    redact : bool
        Whether messages leave out what is for the rows' owner alone: counts, norms, values and numbers of rows.
    classes : list or None
        All labels there can be. Must be given where a source is private, unless every label is 0 or 1, -1 or 1, or a
        boolean: classes are public, so they must not be taken from private rows. Rows with another label are refused.
    class_weight : None, "balanced" or dict
        What rows of each class count, as in scikit-learn: each row's loss is multiplied by the weight of its
        class. A dict of classes and weights is public. ``"balanced"`` weighs by one over a class's number of rows,
        counted on rows without privacy only, and is refused where there are none. The clip stays what it is.
    threshold : None or float
        Probability of the second of two classes from which `predict` says it; None means one half. It must not be
        chosen on private rows.
    multi_class : {"softmax", "one-vs-rest"}
        How more than two classes are learned: as one problem, each row's gradient for all classes released at once; or
        each class against the rest, which is refused where a source is private and is how other losses than the
        logistic do it.
    sketch : None, "auto" or int
        Columns that private rows are projected to before anything is released: noise grows with the number of columns.
        The projection is a public random one where all rows are private, and onto the leading principal components of
        the rows without privacy where there are enough. ``"auto"`` is the number of least expected excess, or none.
        Sparse rows must be sketched to be private.
    budget : float or None
        The most ε a row may have spent when this is done, by this fit and the partial fits after it; more is refused
        before anything is released. A ledger remembers more: other fits, of this model and of others.
    ledger : Ledger or None
        Ledger that private rows are charged to before use.
    line_search : int
        With strategy "two-rates": how many second rates to try; 0 for none.
    mechanism : str
        Private mechanism for ``fit(..., epsilon=...)``.
    random_state : int or None
        None draws noise from a cryptographic generator. A seed is for simulations: with private rows it warns
        (`uneven.SimulationWarning`), `privacy_spent_` is infinite, and a ledger is charged all the same. `save` leaves
        it out; a pickle keeps it.

    Attributes
    ----------
    classes_ : array
        Different labels, in order.
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
        Weights for rows as given: one row of them for two classes.
    intercept_ : array of shape (1,) or (n_classes,)
        What is added to each score; zeros without an intercept.
    alpha_ : float
        L2 strength that was used.
    notes_ : tuple of str
        What the fit found on its way, such as whether private sources agree with the public ones.
    activity_ : dict
        For each private source that can be silent, the mean of ‖g‖/C over its rows: `planned`, as `found` from the
        share of silent rows, and a 95% interval for it, `low` to `high`. Rows of a source with an ε each are one
        entry, ``"data"`` if no source is named. It is computed from what was released, so it may be published, and be
        the `activity` of a later fit.
    plan_ : Plan
        For the rows scaled to norm 1, the intercept's feature included. ``plan_.verdicts`` says what each private
        source was expected to add.
    privacy_spent_ : dict
        ε that each row of each private source has spent, by this fit and the partial fits after it; the most that one
        has spent, where rows come again under their `row_id`. With a ledger, by all that it knows. Infinite where
        the noise came from a seed.
    flip_rates_ : dict
        Flip rate of each source with flipped labels, estimated where asked for.

    Notes
    -----
    `score` is exact: on private rows it is a release that nobody is charged for, and so are `GridSearchCV`,
    `cross_val_score` and `CalibratedClassifierCV`. Use rows without privacy, or `uneven.evaluate`.

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

    _account: Account
    _progress: Progress | str
    _columns: tuple[Column, ...] | None
    _made_with: tuple[Settings, Any]
    """Settings and noise of the last fit, whatever was set since: those of the model's file."""
    privacy_spent_: dict[str, float]

    def __init__(
        self,
        noise: Any = None,
        *,
        alpha: Any = "auto",
        batch_size: Any = "auto",
        loss: str = "logistic",
        strategy: str = "auto",
        moments: str = "auto",
        radius: str = "tight",
        fit_intercept: bool = True,
        clip: Any = "auto",
        average: str = "auto",
        row_norm: Any = "auto",
        long_rows: str = "shrink",
        passes: Any = "auto",
        use: str = "auto",
        redact: bool = False,
        classes: Any = None,
        class_weight: Any = None,
        threshold: float | None = None,
        multi_class: str = "softmax",
        sketch: Any = None,
        budget: float | None = None,
        ledger: Ledger | None = None,
        line_search: int = 0,
        mechanism: str = "quiet",
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
        self.use = use
        self.redact = redact
        self.classes = classes
        self.class_weight = class_weight
        self.threshold = threshold
        self.multi_class = multi_class
        self.sketch = sketch
        self.budget = budget
        self.ledger = ledger
        self.line_search = line_search
        self.mechanism = mechanism
        self.random_state = random_state

    @all_or_nothing
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
        """Fit to rows whose quality is told by `source`, or by one `epsilon` or `flip_rate` per row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Rows: numbers, or a frame where `columns` describes them.
        y : array-like of shape (n,)
            Labels, as given by their sources.
        source : array-like of str, shape (n,)
            Name of each row's source, one of those in `noise`.
        epsilon, flip_rate : array-like of float, shape (n,)
            Each row's own noise, instead of `source`.
        row_id : array-like of int, shape (n,)
            How the rows are known to the ledger, or without one to the model itself, which then counts what a row
            spends over its calls; -1 for none. Without them a ledger knows rows by their content.
        validation : (X, y)
            Rows without privacy to compare the runs of a line search on.
        """
        settings, self._columns, cells = self._settings(), None, getattr(X, "cells", None)
        X, y = self._checked(X, y, reset=True)
        check_classification_targets(y)
        account = self._opened_account()
        account.start(self.ledger)
        rows = ArrayRows(Piece(X, y, source, epsilon, flip_rate, row_id, cells))
        compared = self._checked_validation(validation)
        trained = train(
            rows,
            self.noise,
            settings,
            account=account,
            validation=None if compared is None else (compared.X, compared.y),
            feature_names=self._names(),
            compare=None if compared is None else lambda known: known.refuse("validation", "", [compared]),
            held_bytes=2**62,  # they are in memory already
        )
        warn_long(trained.too_long, trained.groups, trained.scale.row_norm)
        self._take(trained.model)
        self.activity_ = dict(trained.activity)
        self._progress = keep_progress(trained, self.noise)
        return self

    @all_or_nothing
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, source: Any = None, row_id: Any = None
    ) -> UnevenClassifier:
        """Go on learning from more rows: the step count and the precision clock continue, after `fit` too.

        The first call, or `fit`, learns the classes (from `classes`, or from y) and the scale of the rows; where no
        source is private, rows of a later call whose root-mean-square norm is more than twice as large are shrunk to
        that, with a warning. Rows of each call are taken to be new ones: pass `row_id` where they may not be. Each is
        used `passes` times. A call without rows takes no step. Only the precision strategy can go on without knowing
        how much is to come, and settings that a run rests on must stay as they were: to start anew, call `fit`.
        """
        before = getattr(self, "_progress", None)
        if isinstance(before, str):
            raise ValueError(f"partial_fit cannot continue from {before}")
        settings = self._settings()
        refuse_settings(settings)
        refuse_missing("classes", classes)
        cells = getattr(X, "cells", None)
        X, y = self._checked(X, y, reset=before is None, ensure_min_samples=0)
        if before is not None:
            refuse_others(classes, self.classes_)
        if X.shape[0] == 0:
            return self
        check_classification_targets(y)
        account = self._opened_account()
        account.start(self.ledger)
        rows = ArrayRows(Piece(X, y, source, row_id=row_id, cells=cells))
        progress, groups, too_long = continue_training(
            before, rows, self.noise, settings, account, classes, self._names()
        )
        warn_long(too_long, groups, progress.scale.row_norm)
        self._progress, self.classes_, self.scale_ = progress, progress.classes, progress.scale
        answers = [one.answer for one in progress.states]
        self.coef_, self.intercept_ = progress.scale.read_back(answers, progress.problem.outputs)
        self.privacy_spent_, self._made_with = account.spent, (settings, progress.noise)
        self.activity_ = {**getattr(self, "activity_", {}), **progress.states[0].find_activity(groups.noises)}
        self.notes_ = progress.describe(groups)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _settings(self) -> Settings:
        """The constructor's arguments, checked."""
        settings = Settings(**{name: getattr(self, name) for name in NAMES})
        if self.ledger is not None and not isinstance(self.ledger, Ledger):
            raise ValueError(f"ledger must be an uneven.Ledger, got {checks.shown(self.ledger)}")
        if self.noise is not None and not isinstance(self.noise, Noise):
            check_noises(self.noise)
        return settings

    def _checked(self, X: Any, y: Any, reset: bool, **options: Any) -> tuple[Any, Any]:
        refuse_missing("y", y)
        checked: tuple[Any, Any] = validate(self, X, y, order="C", reset=reset, **options)
        return checked

    def _checked_validation(self, validation: Any) -> Piece | None:
        if validation is None:
            return None
        if not isinstance(validation, tuple | list) or len(validation) != 2:
            raise ValueError(f"validation must be (X, y), got {checks.shown(validation)}")
        cells = getattr(validation[0], "cells", None)
        X, y = self._checked(validation[0], validation[1], reset=False)
        return Piece(X, y, cells=cells, where="validation")

    def _opened_account(self) -> Account:
        if not hasattr(self, "_account"):
            self._account = Account()
        return self._account

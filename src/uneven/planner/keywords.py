"""`uneven.plan`: `make_plan` with keywords."""

from __future__ import annotations

from collections.abc import Iterable

from uneven import checks
from uneven.planner.planning import Plan, make_plan
from uneven.planner.source import Source, check_sources
from uneven.problem import Problem, choose_batching


def plan(
    sources: Iterable[Source],
    n_features: int,
    alpha: float = 1e-3,
    batch_size: int | str = "auto",
    loss: str = "logistic",
    strategy: str = "precision",
    moments: str = "auto",
    radius: str = "tight",
    clip: float | None = None,
    norms: str = "largest",
    eigenvalue: float = 1.0,
    classes: int = 2,
) -> Plan:
    """Plan a run: in which order to use the sources, how far to step on each, and what that guarantees.

    Parameters
    ----------
    sources : list of Source
        Each with a name of its own.
    n_features : int
        Dimension of the rows. Rows are assumed to lie in the unit ball (but see `norms`).
    alpha : float
        L2 strength λ.
    batch_size : int or "auto"
        Rows per step. ``"auto"`` is 50, and for sources with site privacy what is predicted to be best for each; the
        paper's strategies have one size for all.
    loss : {"logistic", "hinge", "linear"}
        Function of the margin that is minimised; more can be added.
    strategy : str
        ``"precision"`` (one clock for all sources), ``"averaged"`` (Theorem B), ``"anytime"`` (the same
        without knowing how much is to come), or the paper's: ``"two-rates"``
        (Algorithm 2), ``"same-rate-clean-first"``, ``"same-rate-noisy-first"``, ``"clean-only"``, ``"arbitrary"``
        (all rows shuffled together).
    moments : {"auto", "upper", "lower", "variance"}
        Measure of a step's noise: a bound on E‖G‖² from above (the paper's Γ), from below, or on the variance.
        ``"auto"`` is the variance for ``"precision"`` with a smooth loss, else the upper moment.
    radius : {"tight", "paper"}
        The ball that the weights stay in.
    clip : float or None
        Norm that rows' gradients are clipped to; None disables clipping.
    norms : {"largest", "rms"}
        Which norm of each source's rows is at most 1. ``"rms"`` lets single rows be longer; no source may be private.
    eigenvalue : float
        Bound on the largest eigenvalue of the rows' mean outer product, if a better one than 1 is known.
    classes : int
        More than two are learned as one problem, by softmax: each row releases one gradient, of `n_features` times as
        many dimensions.

    Returns
    -------
    Plan

    Examples
    --------
    >>> import uneven
    >>> clinic = uneven.Source("clinic", rows=6000, noise=uneven.LocalPrivacy(epsilon=10))
    >>> survey = uneven.Source("survey", rows=54000, noise=uneven.LocalPrivacy(epsilon=1))
    >>> plan = uneven.plan([clinic, survey], n_features=25)
    >>> plan.order
    ['survey', 'clinic']
    >>> round(1 / plan.exchange["survey"], 1)  # rows of the survey that are worth one of the clinic
    104.0
    """
    how = {"loss": loss, "radius": radius, "clip": clip, "norms": norms, "eigenvalue": eigenvalue}
    described = check_sources(sources)
    own = any(source.noise.once_a_batch for source in described)
    outputs = 1 if classes == 2 else checks.whole("classes", classes, least=2)
    dimension = checks.whole("n_features", n_features) * outputs
    problem = Problem(dimension, alpha, **choose_batching(batch_size, own), **how, classes=classes)  # type: ignore[arg-type]
    return make_plan(described, problem, strategy, moments)

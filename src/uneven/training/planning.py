"""The plan that a fit runs, for rows as scaled; it needs no compiler, so that planning need not wait for one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from numpy.typing import NDArray

from uneven.io import SourcesFile
from uneven.losses import get_loss
from uneven.noise import Exact, LocalPrivacy, Noise
from uneven.planner import (
    ALL,
    MOST_KEPT,
    RARELY,
    RARELY_KEPT,
    SOONER,
    TRUSTED,
    Plan,
    Source,
    choose_kept,
    choose_tellers,
    count_kept,
    get_strategy,
    make_plan,
    mark_converged,
    void_bound,
)
from uneven.problem import Problem
from uneven.settings import Settings
from uneven.training.labels import expect_classes, read_weights
from uneven.training.refusals import find_unknown, lacks_surrogate, refuse_impossible
from uneven.training.scaling import Scale, read_scale
from uneven.training.sketch import choose_width, expect_width
from uneven.training.strength import choose_private_alpha, choose_private_clip

HALF = 2
"""One row in so many is kept at most."""

BETTER = 0.9
"""Part of the expected cost without a sketch below which that of one is told to who did not ask for it."""

UNKNOWN = (
    "planned for rows in the unit ball, without an intercept; 'uneven fit' takes its scale from the rows, adds the "
    "intercept's feature unless fit_intercept = false, and reports the plan that it ran"
)


def choose_clip(settings: Settings, private: bool) -> float | None:
    """Norm that rows' gradients are shrunk to; "auto" is what the strategy usually takes."""
    return get_strategy(settings.stepping).usual_clip(private) if settings.clip == "auto" else settings.clip


def scale_problem(
    settings: Settings,
    scale: Scale,
    n_features: int,
    private: bool,
    noises: Iterable[Noise | None] = (),
    classes: int | None = None,
    class_weights: tuple[float, ...] = (),
) -> Problem:
    """Problem of rows with `n_features` columns as the scale leaves them, the intercept's feature included.

    `classes` is how many there are; None means as many as are stated. Class weights are divided by the largest, and
    alpha with them: the same answer, and no row's gradient is longer.
    """
    joint = settings.joint_classes(settings.stated_classes if classes is None else classes)
    most = max(class_weights, default=1.0)
    own = any(noise is not None and noise.once_a_batch for noise in noises)
    return Problem(
        n_features=((scale.sketch or n_features) + scale.intercept) * (joint if joint > 2 else 1),
        alpha=scale.alpha(scale.usual_alpha(settings.alpha)) / most,
        class_weights=tuple(weight / most for weight in class_weights),
        loss_unit=most,
        alpha_unit=most * scale.factor**2,
        loss=settings.loss,
        radius=settings.radius,
        clip=choose_clip(settings, private),
        norms=scale.norms,
        eigenvalue=scale.eigenvalue,
        classes=joint,
        **settings.batching(own),
    )


def with_sketch(
    scale: Scale, settings: Settings, sources: Iterable[Source], n_features: int, sparse: bool = False
) -> Scale:
    """The scale with the sketch that is asked for, or that is expected to do best."""
    if settings.sketch is None:
        return scale
    described = list(sources)
    wide = _wide_problem(scale, settings, described, n_features)
    width = choose_width(settings.sketch, described, wide, n_features, sparse)
    return replace(scale, columns=n_features, sketch=width) if width else scale


def _wide_problem(scale: Scale, settings: Settings, sources: Iterable[Source], n_features: int) -> Problem:
    """Problem of private rows that are not sketched."""
    return scale_problem(settings, replace(scale, sketch=0), n_features, True, [source.noise for source in sources])


def describe_sketch(scale: Scale, settings: Settings, sources: Iterable[Source], n_features: int) -> tuple[str, ...]:
    """What the sketch is expected to bring; where none was asked for, what "auto" would, if that is better.

    Nothing is said beside rows without privacy: they are learned to convergence, which the expected excess leaves out.
    """
    described = [source for source in sources if source.rows]
    if not described or not all(source.noise.protects_features for source in described):
        return ()
    wide = _wide_problem(scale, settings, described, n_features)
    width = scale.sketch or choose_width("auto", described, wide, n_features, False)
    if not width:
        return ()
    expected = [expect_width(k, described, wide, n_features) for k in (width, 0)]
    cost, plain = (f"{one:.0%}" for one in expected)
    if not scale.sketch and not expected[0] < BETTER * expected[1]:
        return ()
    if scale.sketch:
        return (
            f"Rows are projected to {width} columns by a public matrix: noise and projection are expected to cost "
            f"{cost} of what there is to learn, and noise in all {n_features:,} columns {plain}.",
        )
    return (
        f"Noise in {n_features:,} columns is expected to cost {plain} of what there is to learn; sketch = 'auto' would "
        f"project rows to {width} columns by a public matrix first, with {cost}.",
    )


def describe_sources(noises: Mapping[str, Noise], counts: Iterable[int]) -> list[Source]:
    """Sources that have rows."""
    return [Source(name, int(n), noise) for (name, noise), n in zip(noises.items(), counts, strict=True) if n]


def plan_steps(sources: Iterable[Source], problem: Problem, settings: Settings) -> Plan:
    """Plan of a run by steps, which uses each row once per pass; without a bound where no theorem covers the run."""
    passes = settings.pass_count
    used = [replace(source, rows=source.rows * passes, passes=passes) for source in sources]
    plan = make_plan(used, problem, settings.stepping, settings.planned_moments)
    return void_bound(plan, why) if (why := find_void(plan, settings)) else plan


def plan_released(sources: Iterable[Source], problem: Problem, settings: Settings) -> Plan | None:
    """Plan of sources whose private labels are released first, to convergence; None where steps are asked for."""
    described = list(sources)
    if not settings.left_open or settings.steps_asked or lacks_surrogate(settings, (one.noise for one in described)):
        return None
    return mark_converged(plan_steps(described, problem, settings))


def find_void(plan: Plan, settings: Settings) -> str:
    """Why no theorem covers what these settings ask for; empty if one does."""
    if settings.pass_count > 1:
        return f"each row is used {settings.pass_count} times, and rows that were used before are not fresh."
    if settings.estimate:
        return "moments are estimated on the way, which no theorem here covers."
    if settings.average not in ("auto", plan.average, plan.guarantee.iterate):
        return f"the answer is the average {settings.average!r}, which no theorem here covers."
    return ""


def keep_rows(plan: Plan, settings: Settings) -> Plan:
    """The plan with rows kept to learn the length of the weights, where noise is so large that this is expected to pay.

    That is so where all sources are private and nothing asks for the steps themselves: `strategy="precision"` does. A
    source of very few rows keeps none. Of the hinge, which has a kink, it is what pays for the logistic loss. With an
    intercept half as many again are kept, so that some tell the shares of the classes; twice as many where few are; and
    half of all rows where fewer would know too little of the shares, and steps are not expected to say much more.
    """
    noises = [source.noise for source in plan.sources]
    asked = not settings.left_open or settings.steps_asked is not None
    private = all(noise.protects_features for noise in noises)
    if asked or not private or not math.isfinite(get_loss(settings.loss).infimum):
        return plan
    smooth = plan if plan.problem.loss_function.smooth else make_smooth(plan)
    kept = choose_kept(smooth.problem, smooth.sources, smooth.segments)
    if not kept:
        return _keep_tellers(plan) if settings.fit_intercept else plan
    if not any(count_kept(source.rows, kept) for source in plan.sources):
        return plan
    keeping = partial(make_plan, plan.sources, plan.problem, plan.strategy, settings.planned_moments)
    fewer = -(-kept // 2) if kept >= RARELY_KEPT else -(-2 * kept // 3)
    more = keeping(kept=max(MOST_KEPT, fewer)) if settings.fit_intercept else plan
    tellers = choose_tellers(more) if more.kept else 0
    if more.kept and more.expected_scale < TRUSTED:  # steps can hardly tell more than the shares do
        while more.kept > HALF and not choose_tellers(more, SOONER):
            more = keeping(kept=more.kept - 1)
        tellers = choose_tellers(more)
    return keeping(kept=more.kept, tellers=tellers) if tellers else keeping(kept=kept)


def _keep_tellers(plan: Plan) -> Plan:
    """The plan where noise is so small that steps need no length: some rows tell the shares of the classes.

    Steps begin there, and a rare class is not taken for a common one where they are few or the penalty holds them back.
    """
    told = make_plan(plan.sources, plan.problem, plan.strategy, plan.moments, kept=RARELY, tellers=ALL)
    return told if choose_tellers(told) else plan


def make_smooth(plan: Plan) -> Plan:
    """The plan of the same sources with the logistic loss, for which there is a prediction."""
    return make_plan(plan.sources, replace(plan.problem, loss="logistic"))


def name_trusted(plan: Plan) -> tuple[str, ...]:
    """What a fit on one machine says where a source has site privacy: all private rows that it read; else nothing."""
    if not any(s.name in plan.order and s.noise.once_a_batch for s in plan.sources):
        return ()
    return (name_machine([s.name for s in plan.sources if s.noise.private]),)


def name_machine(names: Iterable[str]) -> str:
    """Sentence that names this machine as the trusted one, of rows with local or site privacy.

    >>> name_machine(["a", "b"])
    "This machine read the rows of 'a', 'b' and is trusted with them: no privacy here protects a row from it."
    """
    rows = ", ".join(map(repr, names))
    return f"This machine read the rows of {rows} and is trusted with them: no privacy here protects a row from it."


def uses_scale_of_rows(file: SourcesFile) -> bool:
    """Whether a fit would take the scale from rows: where neither a stated norm nor privacy says what it is."""
    has_data = file.shared is not None or any(entry.data is not None for entry in file.sources)
    return isinstance(file.settings.row_norm, str) and not (_hides_features(file) and has_data)


def _hides_features(file: SourcesFile) -> bool:
    """Whether the features of some source are private."""
    return any(entry.private and entry.hidden for entry in file.sources)


def expect_problem(file: SourcesFile, sources: Sequence[Source]) -> tuple[Problem, str]:
    """The problem that a fit would solve, as far as it is known without reading rows; and the note of `plan_ahead`.

    `sources` are those that the file describes.
    """
    settings, n_features = file.settings, file.n_features
    private = _hides_features(file)
    noises, classes = [entry.noise for entry in file.sources], expect_classes(settings, private)
    refuse_file(file, _list_noises(file, sources), classes)
    sources = with_known_rates(sources)
    weights = read_weights(settings, classes)
    if uses_scale_of_rows(file):
        ball = with_sketch(Scale(1.0, 0.0), settings, sources, n_features)
        problem = scale_problem(settings, ball, n_features, private, noises, class_weights=weights)
        most = max(weights)  # these rows are not divided by anything else
        problem = replace(problem, alpha=ball.usual_alpha(settings.alpha) / most, alpha_unit=most)
        problem = _with_predicted(problem, settings, sources, ball)
        return problem, _join_notes(UNKNOWN, *describe_sketch(ball, settings, sources, n_features))
    scale = read_scale(settings.row_norm, settings.fit_intercept, private)
    assert scale is not None
    scale = with_sketch(scale, settings, sources, n_features)
    intercept = " and one more feature for the intercept" if scale.intercept else ""
    note = f"planned as 'uneven fit' runs it, with rows divided by {scale.factor:.6g}{intercept}"
    problem = scale_problem(settings, scale, n_features, private, noises, class_weights=weights)
    problem = _with_predicted(problem, settings, sources, scale)
    return problem, _join_notes(note, *describe_sketch(scale, settings, sources, n_features))


def refuse_file(file: SourcesFile, noises: Mapping[str, Noise], classes: NDArray[Any]) -> None:
    """Refuse what no fit of the file can do; rows to compare the runs of a line search on may come with the fit."""
    sparse = any(table.sparse for table in file.tables)
    refuse_impossible(noises, file.settings, classes, sparse, validation=True)


def with_known_rates(sources: Iterable[Source]) -> list[Source]:
    """The sources with true labels in place of those whose flip rate only a fit finds out."""
    listed = list(sources)
    missing = find_unknown({one.name: one.noise for one in listed})
    return [replace(one, noise=Exact()) if one.name in missing else one for one in listed]


def _with_predicted(problem: Problem, settings: Settings, sources: Iterable[Source], scale: Scale) -> Problem:
    """The problem with the alpha and the clip that are chosen where all rows are private."""
    seen = [replace(source, noise=source.noise.observed_among(problem.classes)) for source in sources]
    usual = scale.usual_alpha(settings.alpha)
    share = choose_private_alpha(settings, seen, problem, usual) / usual  # 1, or halved some times: exact
    problem = replace(problem, alpha=problem.alpha * share)
    return replace(problem, clip=choose_private_clip(settings, seen, problem))


def _list_noises(file: SourcesFile, sources: Sequence[Source]) -> dict[str, Noise]:
    """Noises of the sources as a fit has them; of rows that tell an ε which was not read, that they are private."""
    unread = [entry.name for entry in file.sources if entry.noise is None and entry.private]
    return {one.name: LocalPrivacy(1.0) if one.name in unread else one.noise for one in sources}


def _join_notes(*notes: str) -> str:
    """Notes as one, which its reader ends with a full stop."""
    return ". ".join(note.rstrip(".") for note in notes)

"""Wide private rows beside public ones: a projection onto the leading principal components of the public rows.

They lose less than random directions do, since directions in which no row is long say nothing. Only rows without
privacy are looked at, so this costs no privacy. With orthonormal components V no row becomes longer, and weights v of
the rows Vᵀx are weights Vv of the rows as given.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from uneven.anchor import PublicRows, join_sources, use_one_thread
from uneven.matrices import is_sparse
from uneven.training import anchoring
from uneven.training.convergence import list_public_rows, with_chosen_alpha
from uneven.training.job import Job
from uneven.training.refusals import explain_no_anchor
from uneven.training.sketch import list_widths

Array = NDArray[np.float64]

MOST_ROWS = 2_000
"""Public rows that components are computed from; of more, a sample."""

WIDEST = 256
"""Most components that "auto" tries: more take minutes, and a large model file."""

CLEAR = 2.0
"""Standard errors from which fewer columns are clearly better."""

SMALLEST = 1e-9
"""Mean square along a component, relative to the largest, from which it counts as one."""


def with_components(job: Job, targets: Sequence[Any], here: Collection[str] | None) -> Job:
    """The job with a sketch by principal components, and with alpha; as it is where all rows are private.

    A stated width needs as many components. Where private rows are added to an anchor, "auto" takes the width with the
    least expected loss, or a larger one that cannot be told from it. `here` names the sources whose rows can be read;
    None means all.
    """
    noises, settings = job.groups.noises, job.settings
    names = [name for name, noise in noises.items() if not noise.private and (here is None or name in here)]
    wanted = settings.sketch is not None and any(noise.protects_features for noise in noises.values())
    if not (names and wanted):
        return with_chosen_alpha(job, targets[0], here)
    plain = replace(job, scale=replace(job.scale, columns=0, sketch=0), units={})
    columns = job.scan.n_features
    anchored = settings.public_first and explain_no_anchor(settings, job.groups.noises, len(targets), False) is None
    widths = _list_widths(plain) if anchored and settings.sketch == "auto" else [job.scale.sketch]
    most = max((*widths, 0))
    V = find_components(list_public_rows(plain, names, targets[0]), columns, most) if most else np.zeros((columns, 0))
    fitting = [width for width in widths if width <= V.shape[1]]
    if not any(fitting):
        return replace(with_chosen_alpha(job, targets[0], here), sketched=_describe_random(job, V.shape[1]))
    jobs = [with_chosen_alpha(_project(plain, V[:, :width]), targets[0], here) for width in fitting]
    if len(jobs) == 1:
        return replace(jobs[0], sketched=f"{describe(fitting[0])}.")
    with use_one_thread():
        losses = np.array([expect_losses(one, targets[0]) for one in jobs])
    best, means = choose_widest(losses), losses.mean(axis=1)
    said = f"{describe(fitting[best])}: the expected loss is {means[best]:.3g}"
    others = f", and {means[-1]:.3g} with all columns" if fitting[best] and not fitting[-1] else ""
    return replace(jobs[best], sketched=f"{said}{others}.")


def choose_widest(losses: Array) -> int:
    """The widest candidate whose mean loss is not significantly above the smallest.

    That is within `CLEAR` standard errors of the difference, row by row: columns are left out for a reason only.

    >>> choose_widest(np.array([[3.0, 3.0, 3.0], [1.0, 1.1, 1.2], [1.2, 1.0, 1.2], [2.0, 2.1, 2.2]]))
    2
    """
    best = losses[np.argmin(losses.mean(axis=1))]
    errors = (losses - best).std(axis=1) / losses.shape[1] ** 0.5
    return int(np.flatnonzero(losses.mean(axis=1) <= best.mean() + CLEAR * errors)[-1])


def describe(width: int) -> str:
    """What is done to rows, in words."""
    if not width:
        return "Rows are not projected, since no less loss can be expected from fewer columns"
    return f"Rows are projected to {width} columns, the leading principal components of the rows without privacy"


def _describe_random(job: Job, components: int) -> str:
    """What is done to rows where the public ones have fewer components than columns are asked for."""
    if not job.scale.sketch:
        return ""
    return (
        f"Rows are projected to {job.scale.sketch} columns by a public random matrix: rows without privacy have no "
        f"more than {components} principal components."
    )


def find_components(sources: Sequence[PublicRows], columns: int, most: int) -> Array:
    """Up to so many leading right singular vectors of the rows' first columns, the longest first, as columns.

    >>> rows = PublicRows.from_arrays([[0.0, 2.0, 1.0], [0.0, 1.0, 1.0], [1e-7, 0.0, 1.0]], [1, 1, -1])
    >>> np.abs(find_components([rows], 2, 2)).round(3).tolist()  # the second is too short
    [[0.0], [1.0]]
    """
    share = min(1.0, MOST_ROWS / sum(source.count for source in sources))
    drawn = [part for source in sources if (part := source.sample(share)) is not None]
    if not drawn:
        return np.zeros((columns, 0))
    X = next(iter(join_sources(drawn).pieces()))[0][:, :columns].astype(np.float64)
    few = X.shape[0] < columns
    gram = X @ X.T if few else X.T @ X
    gram = gram.toarray() if is_sparse(gram) else gram
    with use_one_thread():
        values, vectors = eigh(gram, subset_by_index=[max(0, len(gram) - most), len(gram) - 1])
    kept = np.flatnonzero(values > SMALLEST * max(values[-1], 1e-300))[::-1]
    return np.asarray(X.T @ vectors[:, kept] / np.sqrt(values[kept]) if few else vectors[:, kept])


def expect_losses(job: Job, target: Any) -> Array:
    """Leave-one-out loss of each public row, less what the private rows are expected to take from it on average."""
    prepared = anchoring.prepare_anchor(job, target)
    start, excess, _, _ = anchoring.expect(job, prepared)
    counts = job.groups.row_counts
    looked_at = len(prepared.anchor.X) / sum(counts[name] for name in prepared.converged)  # the loss is of these
    return np.asarray(prepared.anchor.losses - start / looked_at + excess)


def _list_widths(job: Job) -> list[int]:
    """Widths that are tried: powers of two up to half the columns, and 0 for all, where they can be anchored."""
    widths = [*list_widths(min(job.scan.n_features // 2, WIDEST) + 1), *([] if job.scan.sparse else [0])]
    outputs, extra = job.problem.outputs, job.scale.intercept
    most = anchoring.MOST_FEATURES // outputs - extra if outputs > 1 else np.inf
    return [width for width in widths if (width or job.scan.n_features) <= most]


def _project(job: Job, V: Array) -> Job:
    """The job with rows projected onto these components; as it is for none."""
    if not V.shape[1]:
        return replace(job, units={})
    basis = np.ascontiguousarray(V, dtype=np.float32).tobytes()
    return replace(job, scale=replace(job.scale, columns=len(V), sketch=V.shape[1], basis=basis), units={})

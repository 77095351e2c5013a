"""Sources without privacy as the anchor of a fit.

rows        rows that may be read again and again
objective   their weighted objective and its derivatives
likelihood  that of flipped labels as observed
solver      minimises it to convergence
length      how long weights from flipped labels should be
strength    alpha="auto", by cross-validation
path        one alpha after the other, and the loss of rows held out
folds       its folds, learned together
belief      what the rows say of the weights
uncertainty how far their answer is from the truth
sandwich    the covariance of that
wide        the same where rows have many columns
classes     the anchor of more than two classes
multinomial the softmax loss of a block of rows
clock       what Theorem D expects of private rows
shape       coordinates and clip that private rows are released in
shift       whether a private source agrees with the anchor
ladder      which private sources are left out together
verdicts    whether to use a private source, before its ε is spent
accuracy    what a smaller expected log-loss means in accuracy
summary     what the rows say, without the rows
diagonals   matrices that may be diagonal
"""

from uneven.anchor.belief import Anchor
from uneven.anchor.classes import MOST_CLASS_ROWS, ClassAnchor, fit_class_anchor, list_frames
from uneven.anchor.clock import Coordinates, compute_error_covariances, expected_excess
from uneven.anchor.diagonals import change_basis, sum_products, take_diagonal, turn_rows
from uneven.anchor.ladder import LITTLE, WORTH, Information, rank_sources
from uneven.anchor.objective import TOLERANCE, Curvature, Objective, Point, refuse_uneven, weigh_source
from uneven.anchor.one_class import TOLD_SHARE, Share, estimate_share, start_from_share
from uneven.anchor.rows import PublicRows, join_sources
from uneven.anchor.sandwich import join_sandwich
from uneven.anchor.shape import choose_coordinates
from uneven.anchor.shift import (
    LOST_SHARE,
    MEASURED_SHARE,
    UNMEASURED,
    Disagreement,
    describe_disagreements,
    doubt_curvature,
    measure_shift,
    react,
)
from uneven.anchor.solver import Solution, run_newton, solve, use_one_thread
from uneven.anchor.strength import choose_alpha, measure_spread
from uneven.anchor.summary import OneClass, Summary, summarize
from uneven.anchor.uncertainty import (
    Flips,
    doubt_start,
    fit_anchor,
    leave_out,
    limit_covariance,
    limit_excess,
    limit_steps,
    search_strength,
)
from uneven.anchor.verdicts import (
    Verdict,
    choose_batch_sizes,
    compute_release_energy,
    judge_rows,
    judge_sources,
    measure_information,
    weigh_public_row,
)

__all__ = [
    "LITTLE",
    "LOST_SHARE",
    "MEASURED_SHARE",
    "MOST_CLASS_ROWS",
    "TOLD_SHARE",
    "TOLERANCE",
    "UNMEASURED",
    "WORTH",
    "Anchor",
    "ClassAnchor",
    "Coordinates",
    "Curvature",
    "Disagreement",
    "Flips",
    "Information",
    "Objective",
    "OneClass",
    "Point",
    "PublicRows",
    "Share",
    "Solution",
    "Summary",
    "Verdict",
    "change_basis",
    "choose_alpha",
    "choose_batch_sizes",
    "choose_coordinates",
    "compute_error_covariances",
    "compute_release_energy",
    "describe_disagreements",
    "doubt_curvature",
    "doubt_start",
    "estimate_share",
    "expected_excess",
    "fit_anchor",
    "fit_class_anchor",
    "join_sandwich",
    "join_sources",
    "judge_rows",
    "judge_sources",
    "leave_out",
    "limit_covariance",
    "limit_excess",
    "limit_steps",
    "list_frames",
    "measure_information",
    "measure_shift",
    "measure_spread",
    "rank_sources",
    "react",
    "refuse_uneven",
    "run_newton",
    "search_strength",
    "solve",
    "start_from_share",
    "sum_products",
    "summarize",
    "take_diagonal",
    "turn_rows",
    "use_one_thread",
    "weigh_public_row",
    "weigh_source",
]

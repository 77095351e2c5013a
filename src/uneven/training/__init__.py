"""From rows and settings to a model: the one way to train, behind the classifier and behind the command line.

rows           rows in pieces, from arrays or files
scan           the first reading: classes, counts, norms, a sample, and the rows themselves if they are few
labels         labels of any kind to -1 and 1
grouping       which source each row is of
norms          how long the rows are, and what scale follows from it
scaling        rows to norm 1, by a public constant or by their root mean square
flips          flip rates estimated from the labels themselves
planning       the plan that a fit runs
preparation    a job from rows as scanned: sources, scale, flip rates, class weights, alpha
class_weights  the weight of each class
refusals       what no fit can do, for fits and plans alike
sketch         a public random projection of wide private rows
strength       alpha where all rows are private
components     a projection onto principal components of public rows
charging       what private rows are charged, before anything is computed from them
job            one fit between its stations
convergence    rows without privacy, to convergence
anchoring      what private rows add to them
adding         one private source added
calibration    rows kept to learn how long the weights are
class_calibration  the same for more than two classes
shares         the shares of the classes, told by some of those rows
label_release  private labels, randomised once
running        which of these, or single steps
trainer        all of it in turn: `train`
line_search    the paper's search for a better second learning rate
continuation   more rows later
model          a fitted model as plain values
model_file     the same as a readable file
ahead          the plan that a fit will run, before any ε is spent
files          the door for files: `train_files` a ``sources.toml``
quality        accuracy, AUC and log-loss, beside those of simpler models
known_rows     rows to measure on must not be rows learned from
copies         private rows that agree in everything
scoring        labels and probabilities for a file of rows, in pieces
"""

from typing import TYPE_CHECKING

from uneven.fronts import open_lazily

if TYPE_CHECKING:
    from uneven.training.adding import Addition, Camp, PrivateSource, choose_rivals, join, mix
    from uneven.training.ahead import Valued, plan_ahead, value_ahead
    from uneven.training.anchoring import fit_public, resume_state, weigh_penalty
    from uneven.training.calibration import (
        Direction,
        choose_scale,
        describe_scale,
        doubt_steps,
        expect_deviation,
        find_scale,
        make_direction,
        make_lesson,
        prepare_lesson,
        take_smooth,
    )
    from uneven.training.charging import Account, Hasher
    from uneven.training.class_calibration import Lesson, Reached
    from uneven.training.continuation import Progress, continue_training, keep_progress, refuse_settings
    from uneven.training.convergence import find_carried_share, free_intercept, list_public_rows
    from uneven.training.files import FileFit, FileRows, Measure, train_files
    from uneven.training.grouping import Grouped, check_noises, group_pieces
    from uneven.training.job import CLASS, LENGTH, Job
    from uneven.training.labels import list_targets, refuse_missing, refuse_others, uses_softmax
    from uneven.training.model import Model, choose_classes, compute_scores
    from uneven.training.model_file import load_model, model_to_text, save_model
    from uneven.training.planning import (
        describe_sources,
        keep_rows,
        name_machine,
        name_trusted,
        plan_steps,
        scale_problem,
    )
    from uneven.training.preparation import prepare, prepare_alone
    from uneven.training.quality import Bin, Comparison, Scores, compare, explain_class_weight
    from uneven.training.refusals import explain_no_anchor, refuse_anchored
    from uneven.training.rows import ArrayRows, Piece, Rows, SameRows
    from uneven.training.running import decide, decide_anchored
    from uneven.training.scaling import Scale, read_scale, shorten_rows
    from uneven.training.scan import Scan, scan_rows
    from uneven.training.scoring import (
        count_labels,
        mark_simulated,
        open_rows,
        predict_table,
        stream_csv,
        stream_json,
        write_predictions,
    )
    from uneven.training.shares import (
        Heard,
        ask_source,
        describe_constant,
        describe_offsets,
        find_offsets,
        make_start,
        start_heard,
    )
    from uneven.training.sketch import choose_width, draw_projection, project
    from uneven.training.strength import choose_private_alpha, choose_private_clip
    from uneven.training.trainer import Bar, Trained, show_nothing, train
else:
    __getattr__, __dir__, __all__ = open_lazily(__name__)

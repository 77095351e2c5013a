"""The anchor across sites: what a site without privacy says of its rows, and how private sites add to it.

The site that is the anchor learns to convergence and sends its answer, the answer's covariance, the curvature, and the
coordinates that private rows may be released in, as numbers of the columns: none of a single row. It also judges what
each private site would bring, before any of them is asked for a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven import checks
from uneven.anchor import (
    Coordinates,
    Disagreement,
    OneClass,
    Share,
    Summary,
    describe_disagreements,
    start_from_share,
    summarize,
)
from uneven.federation.messages import LARGEST, MOST_STEPS, matrix_from_text, matrix_to_text, read_vector
from uneven.planner import Source
from uneven.settings import Settings
from uneven.training import (
    Addition,
    Camp,
    Rows,
    Scale,
    Scan,
    decide,
    decide_anchored,
    fit_public,
    group_pieces,
    list_targets,
    prepare,
)

Array = NDArray[np.float64]

VECTORS = ("curvature", "clip_shift", "clip_variance", "ridge")
NUMBERS = ("activity", "clip", "longest_step")
MOST_FEATURES = 300
"""Columns up to which an anchor is sent: a message has about 15 matrices of them."""


def answer_as_anchor(
    rows: Rows, scan: Scan, scale: Scale, name: str, settings: Any, sources: Any, start: Any = None
) -> dict[str, Any]:
    """What the site's rows say, and what that means for the private sources, which are described.

    Beside other sites without privacy it says alpha alone at first. Given what all of them say together (`sums`), its
    own rows stand for theirs: they choose the coordinates, and judge the private sources.
    """
    described = [Source.from_dict(one) for one in sources]
    counts = {name: scan.rows, **{one.name: one.rows for one in described if one.name != name}}
    noises = {one.name: one.noise for one in described}
    groups = group_pieces(counts, noises)  # its own rows first: they are the only ones here
    asked = replace(Settings(**settings), strategy="anchored")
    targets = list_targets(scan.classes, asked)
    job = prepare(rows, scan, groups, asked, scale, here=[name])
    if all(noise.private for other, noise in noises.items() if other != name):
        decided = decide(job, targets, None)
    elif start is None:
        return {"alpha": job.alpha}
    else:
        own = fit_public(job, [name], targets[0])
        found = _read_start(start, job.problem.n_features)
        likely = checks.between("likely", start["likely"], 0.0, 1.0)
        decided = decide_anchored(job, targets[0], replace(own.moved(*found), likely=likely))
    assert decided.anchoring is not None
    assert decided.plan.anchored is not None
    return {
        "alpha": decided.alpha,
        "anchored": decided.plan.anchored.to_dict(),
        "summary": summary_to_dict(summarize(decided.anchoring.anchor, decided.anchoring.possible)),
    }


def summary_to_dict(summary: Summary) -> dict[str, Any]:
    """Summary as plain values."""
    first = summary.frames[0]
    return {
        **start_to_dict(summary),
        "alpha": summary.alpha,
        "knows_curvature": summary.knows_curvature,
        "takes_long_step": summary.takes_long_step,
        "freedom": None if first.freedom is None else first.freedom.tolist(),
        "one_class": None if summary.one_class is None else asdict(summary.one_class),
        "frames": [_frame_to_dict(frame) for frame in summary.frames],
    }


def start_to_dict(summary: Summary) -> dict[str, Any]:
    """The part of a summary that a source moves."""
    unlimited = None if summary.unlimited is None else matrix_to_text(summary.unlimited)
    return {
        "weights": summary.weights.tolist(),
        "covariance": matrix_to_text(summary.covariance),
        "unlimited": unlimited,
    }


def _read_start(values: Mapping[str, Any], d: int) -> tuple[Array, Array, Array | None]:
    """Weights, their covariance, and the unlimited one where it was limited."""
    told = values.get("unlimited")
    unlimited = None if told is None else matrix_from_text("unlimited", told, (d, d))
    weights = read_vector("weights", values["weights"], d)
    return weights, matrix_from_text("covariance", values["covariance"], (d, d)), unlimited


def _frame_to_dict(frame: Coordinates) -> dict[str, Any]:
    values: dict[str, Any] = {key: getattr(frame, key).tolist() for key in VECTORS}
    values |= {key: getattr(frame, key) for key in NUMBERS}
    return {**values, "transform": matrix_to_text(frame.transform), "hessian": matrix_to_text(frame.hessian)}


def summary_from_dict(values: Any, n_features: int) -> Summary:
    """Summary that `summary_to_dict` described; refused where a number could make a step wild."""
    if not isinstance(values, Mapping) or not isinstance(values.get("frames"), Sequence) or not values["frames"]:
        raise ValueError("anchor must be a mapping with frames, got something else")
    if n_features > MOST_FEATURES + 1:
        raise ValueError(f"anchor must have at most {MOST_FEATURES} columns to be sent, got {n_features}")
    d = n_features
    frames = [_frame_from_dict(one, d) for one in values["frames"]]
    if values.get("freedom") is not None:
        frames[0] = replace(frames[0], freedom=read_vector("freedom", values["freedom"], d, 1e18))
    weights, covariance, unlimited = _read_start(values, d)
    summary = Summary(
        weights,
        covariance,
        checks.positive("alpha", values["alpha"], 1e-18, 1e18),
        bool(values["knows_curvature"]),
        bool(values["takes_long_step"]),
        tuple(frames),
        unlimited,
        _read_one_class(values.get("one_class")),
    )
    _check_frames(summary)
    return summary


def _read_one_class(values: Any) -> OneClass | None:
    """The class of the public rows, where they are of one."""
    if values is None:
        return None
    checks.table("one_class", values, [field.name for field in fields(OneClass)])
    rows = checks.whole("rows", values["rows"], most=MOST_STEPS)
    return OneClass(rows, bool(values["positive"]), checks.within("constant", values["constant"], 1e-9, LARGEST))


def _check_frames(summary: Summary) -> None:
    for placed in summary.possible:
        numbers = (placed.start, placed.covariance, placed.penalty, placed.doubted)
        if not all((np.abs(one) <= LARGEST).all() for one in numbers) or not (placed.variance >= 0.0).all():
            raise ValueError("anchor must have frames that can be turned back, got others")


def _frame_from_dict(values: Any, d: int) -> Coordinates:
    matrices = {key: matrix_from_text(key, values[key], (d, d)) for key in ("transform", "hessian")}
    vectors = {key: read_vector(key, values[key], d) for key in VECTORS}
    if not (vectors["curvature"] > 0.0).all() or not (vectors["ridge"] >= 0.0).all():
        raise ValueError("anchor must have positive curvature, got none")
    return Coordinates(
        **matrices,
        **vectors,
        start=np.zeros(d),
        covariance=np.zeros((d, d)),
        activity=checks.within("activity", values["activity"], 0.0, 1.0 + 1e-9),
        clip=checks.moderate("clip", values["clip"]),
        longest_step=checks.positive("longest_step", values["longest_step"], 1e-12, LARGEST),
    )


def move_summary(summary: Summary, values: Mapping[str, Any], class_weights: tuple[float, ...] = (1.0, 1.0)) -> Summary:
    """Summary moved to a start that `start_to_dict` described; first by the share that a site told, if it was asked."""
    if summary.one_class is not None and values.get("share") is not None:
        told = checks.table("share", values["share"], [field.name for field in fields(Share)])
        mean = checks.within("mean", told["mean"], 1e-12, 1.0)
        share = Share(mean, checks.not_negative("variance", told["variance"], LARGEST))
        summary = start_from_share(summary, share, class_weights)
    moved = summary.moved(*_read_start(values, len(summary.weights)))
    _check_frames(moved)
    return moved


def added_to_dict(added: Addition) -> dict[str, Any]:
    """What a private site replies of the anchor it was added to."""
    share = None if added.share is None else asdict(added.share)
    found = {"place": added.place, "disagreement": asdict(added.disagreement), "share": share}
    return {**start_to_dict(added.summary), **found}


def camps_to_dict(camps: Sequence[Camp]) -> dict[str, Any]:
    """What sites say so far: the anchor's camp, and where others stand that disagree with it."""
    others = [{**start_to_dict(camp.summary), "rows": camp.rows} for camp in camps[1:]]
    return {"summary": summary_to_dict(camps[0].summary), "rows": camps[0].rows, "others": others}


def camps_from_dict(values: Mapping[str, Any], n_features: int, public: int) -> list[Camp]:
    """Camps that `camps_to_dict` described; before any site was added, that of so many public rows."""
    summary = summary_from_dict(values["summary"], n_features)
    others = [Camp(move_summary(summary, one), int(one["rows"])) for one in values.get("others", ())]
    return [Camp(summary, int(values.get("rows", public))), *others]


def describe_found(disagreements: Mapping[str, Mapping[str, float]]) -> list[str]:
    """What is said of how the private sites agreed with the anchor, as a local fit says it."""
    return describe_disagreements({name: Disagreement(**one) for name, one in disagreements.items()})

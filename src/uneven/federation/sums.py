"""Sums over the rows of a site without privacy, at weights that the server asks about: its part of a common anchor.

f and its derivatives are sums over rows, so Newton's method at the server reaches the answer of all rows together. The
leave-one-out estimate and the covariance are sums too, once every site has the curvature of all: the start is that of
a local fit of all these rows (`anchor.uncertainty`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven import checks
from uneven.anchor import Flips, Objective, PublicRows, leave_out, sum_products
from uneven.federation.messages import matrix_from_text, matrix_to_text, read_vector
from uneven.losses import LOGISTIC, Loss
from uneven.noise import noise_from_dict
from uneven.problem import Problem
from uneven.training import Rows, Scale, Scan, list_public_rows, prepare_alone

Array = NDArray[np.float64]

LARGEST_SUM = 1e18


def answer_sums(message: Mapping[str, Any], rows: Rows, scan: Scan, scale: Scale, name: str) -> dict[str, Any]:
    """Sums over the site's rows at the weights of a request."""
    problem, noise = Problem.from_dict(message["problem"]), noise_from_dict(message["noise"])
    if problem.classes != 2 or problem.n_features != scan.n_features + scale.intercept:
        raise ValueError("problem must be of two classes, with a weight for each column; got another")
    d = problem.n_features
    (mine,) = list_public_rows(prepare_alone(rows, scan, scale, name, noise), [name], scan.classes[1])
    weights = read_vector("weights", message["weights"], d)
    if message["reach"] is None:
        return sum_losses(mine, problem, weights, bool(message["curvature"]))
    share = checks.positive("share", message["share"], 1e-9, 1e9)
    reach = matrix_from_text("reach", message["reach"], (d, d))
    return sum_left_out(mine, weights, reach, share, problem.loss_function)


def sum_losses(rows: PublicRows, problem: Problem, weights: Array, curvature: bool) -> dict[str, Any]:
    """Mean loss of a site's rows, its gradient, and its Hessian if asked for; without the L2 term."""
    f = replace(Objective.of(problem, [rows], None), ridge=np.zeros(len(weights)))
    point = f.at(weights, "full" if curvature else "none")
    found = {"value": point.value, "gradient": point.gradient.tolist()}
    return found if point.hessian is None else {**found, "hessian": matrix_to_text(point.hessian)}


def sum_left_out(rows: PublicRows, weights: Array, reach: Array, share: float, loss: Loss = LOGISTIC) -> dict[str, Any]:
    """Mean leave-one-out loss of a site's rows, their squared gradients S, fourth powers and curvature H there.

    `reach` is H₀⁻¹/n of all sites' rows; `share` is what a row counts beside the mean of all.
    """
    total, S, H, fourths = 0.0, np.zeros_like(reach), np.zeros_like(reach), np.zeros(len(reach))
    for part, labels in rows.pieces():
        X, y = np.asarray(part, dtype=np.float64), np.asarray(labels, dtype=np.float64)
        rates, skews = (np.full(len(y), one) for one in (rows.flip_rate, rows.flip_skew))
        flips = Flips(rates, skews, y, share=share, loss=loss)
        margins = leave_out(y * (X @ weights), np.einsum("ij,ij->i", X @ reach, X), flips)
        total += len(y) * flips.mean_loss(margins)
        gradients = X * (flips.weights * flips.slopes(margins))[:, None]
        S += gradients.T @ gradients
        fourths += np.square(gradients**2).sum(axis=0)
        H += sum_products(X, flips.bends(margins))
    squares, hessian = (matrix_to_text(one / rows.count) for one in (S, H))
    return {
        "value": total / rows.count,
        "squares": squares,
        "fourths": (fourths / rows.count).tolist(),
        "hessian": hessian,
    }


def read_sums(values: Mapping[str, Any], d: int, left_out: bool, curvature: bool) -> dict[str, Any]:
    """A site's sums, refused where they are none of any rows."""
    value = float(values["value"])
    if not abs(value) <= LARGEST_SUM:
        raise ValueError("value must be a finite number, got another")
    found: dict[str, Any] = {"value": value}
    vector = "fourths" if left_out else "gradient"
    found[vector] = read_vector(vector, values[vector], d)
    if left_out and found[vector].min() < 0.0:
        raise ValueError("fourths must be sums of fourth powers, got others")
    for key in (*(["squares"] if left_out else []), *(["hessian"] if curvature else [])):
        found[key] = matrix_from_text(key, values[key], (d, d))
        if np.abs(found[key] - found[key].T).max() > 1e-6 or np.linalg.eigvalsh(found[key])[0] < -1e-6:
            raise ValueError(f"{key} must be a sum of squares, got another matrix")
    return found

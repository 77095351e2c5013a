"""How well a model does on the rows that sites keep aside: each row answers once, with one randomised bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from uneven import checks
from uneven.columns import columns_to_dict
from uneven.evaluation import Estimate, estimate_accuracy
from uneven.federation.calls import Ask, reading
from uneven.federation.messages import MOST_STEPS, digest, write_message
from uneven.federation.policy import Refused
from uneven.noise import LabelPrivacy
from uneven.training import Model


@dataclass(frozen=True)
class SitesEvaluation:
    """Accuracy over all sites, that of each, and the sites left out and why."""

    accuracy: Estimate
    sites: Mapping[str, Estimate]
    left_out: Mapping[str, str]
    epsilon: float
    confidence: float


def evaluate_sites(
    model: Model, ask: Ask, names: Sequence[str], epsilon: float, name: str = "uneven", confidence: float = 0.95
) -> SitesEvaluation:
    """Ask sites how a model does on their rows kept aside.

    The request's name is a digest of the model, so that asking again costs nothing: each site repeats its answer.

    Parameters
    ----------
    model : Model
        Of two classes.
    ask : Ask
    names : sequence of str
        Sites to ask.
    epsilon : float
        What each row is charged for its bit.
    name : str
        Of the job, for the sites' policies.
    confidence : float
        Confidence level of each interval.

    Returns
    -------
    SitesEvaluation
    """
    if len(model.classes) != 2 or model.feature_names is None or model.scale is None or model.scale.bound is None:
        raise ValueError("model must be of two classes, with named features and a row_norm; got another")
    rate = LabelPrivacy(epsilon).rate
    columns = None if model.columns is None else columns_to_dict(model.columns)
    request = {
        "kind": "evaluate",
        "name": name,
        "features": list(model.feature_names) if columns is None else list(columns),
        "columns": columns,
        "classes": model.classes.tolist(),
        "row_norm": model.scale.row_norm,
        "coef": model.coef[0].tolist(),
        "intercept": float(model.intercept[0]),
        "epsilon": checks.positive("epsilon", epsilon),
    }
    request["job"] = f"evaluation-{digest(write_message(request))[:32]}"
    answers: dict[str, tuple[int, int]] = {}
    left_out: dict[str, str] = {}
    for site in names:
        ask.tell(site, "asked", 0, 0)
        try:
            reply = ask(site, request)
            with reading(site):
                count = checks.whole("rows", reply.get("rows"), most=MOST_STEPS)
                answers[site] = checks.whole("said", reply.get("said"), least=0, most=count), count
        except (Refused, OSError) as reason:
            left_out[site] = str(reason)
    if not answers:
        raise ConnectionError(f"no site answered: {'; '.join(left_out.values())}")
    said, rows = (sum(one[k] for one in answers.values()) for k in (0, 1))
    each = {site: estimate_accuracy(*pair, rate, confidence) for site, pair in answers.items()}
    return SitesEvaluation(estimate_accuracy(said, rows, rate, confidence), each, left_out, epsilon, confidence)

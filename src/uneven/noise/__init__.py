"""Noise or protection between a row and the learner.

exact      nothing
privacy    local differential privacy: protected from everyone
site       site privacy: protected from everyone outside the site
privunit   one of its mechanisms: its calibration
quiet      another, the default: privunit that may be silent
directions how both are drawn
grid       rounding of private releases
labels     labels flipped at a known rate
label_privacy  labels flipped on purpose, for their privacy; features are public
additive   any other unbiased gradient noise
composed   flipped labels with one of the others
base       what they have in common: moments, privacy spent, drawing, composing a gradient
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from uneven import checks
from uneven.noise.additive import AdditiveNoise
from uneven.noise.base import MOMENTS, Coefficients, Moment, Noise, add_gaussian
from uneven.noise.composed import Composed, compose
from uneven.noise.directions import SILENT
from uneven.noise.exact import Exact
from uneven.noise.grid import round_to_grid
from uneven.noise.grid import width as widen_grid
from uneven.noise.label_privacy import FEATURES_WARNING, LabelPrivacy
from uneven.noise.labels import FlippedLabels
from uneven.noise.privacy import MECHANISMS, Activity, LocalPrivacy, Releases, pool_activity, refuse_longer
from uneven.noise.site import SitePrivacy, swap_promise

NOISES: dict[str, type[Noise]] = {
    noise.kind: noise for noise in (Exact, LocalPrivacy, SitePrivacy, LabelPrivacy, FlippedLabels, AdditiveNoise)
}


def noise_from_dict(values: Mapping[str, Any] | list[Any]) -> Noise:
    """Noise from plain values, as ``sources.toml`` has them; a list of several is all of them at once.

    >>> noise_from_dict({"kind": "flipped-labels", "rate": 0.2})
    FlippedLabels(rate=0.2)
    >>> noise_from_dict([{"kind": "site-privacy", "epsilon": 1.0}, {"kind": "flipped-labels", "rate": 0.2}])
    SitePrivacy(epsilon=1.0) & FlippedLabels(rate=0.2)
    """
    if isinstance(values, Mapping) and values.get("kind") == Composed.kind:
        values = checks.table(f"noise of kind {Composed.kind!r}", values, ("kind", "noises"))["noises"]
    if isinstance(values, list | tuple):
        return compose([noise_from_dict(one) for one in values])
    if not isinstance(values, Mapping):
        raise ValueError(f"noise must be a mapping with a kind, or a list of such, got {checks.shown(values)}")
    given = dict(values)
    noise = NOISES[checks.one_of("noise kind", given.pop("kind", None), NOISES)]
    own = [field.name for field in fields(noise) if field.name != "interval"]
    accepted = (*own, "interval") if noise.level else tuple(own)
    checks.only_keys(f"noise of kind {noise.kind!r}", given, accepted)
    if missing := [f.name for f in fields(noise) if f.default is MISSING and f.name not in given]:
        raise ValueError(f"noise of kind {noise.kind!r} needs {missing[0]!r}; got {dict(values)!r}")
    return noise(**given)


__all__ = [
    "FEATURES_WARNING",
    "MECHANISMS",
    "MOMENTS",
    "NOISES",
    "SILENT",
    "Activity",
    "AdditiveNoise",
    "Coefficients",
    "Composed",
    "Exact",
    "FlippedLabels",
    "LabelPrivacy",
    "LocalPrivacy",
    "Moment",
    "Noise",
    "Releases",
    "SitePrivacy",
    "add_gaussian",
    "compose",
    "noise_from_dict",
    "pool_activity",
    "refuse_longer",
    "round_to_grid",
    "swap_promise",
    "widen_grid",
]

"""A fitted model as a readable JSON file: weights, classes, features, settings and the plan it came from."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from uneven import checks
from uneven.estimator import line_search
from uneven.io.files import write_text_atomically
from uneven.noise import Noise, noise_from_dict
from uneven.planner import Plan

KIND, VERSION = "uneven-model", 1
KEYS = (
    "kind",
    "version",
    "classes",
    "coef",
    "intercept",
    "feature_names",
    "settings",
    "plan",
    "searched_rate",
    "privacy_spent",
    "flip_rates",
)


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model, whole or not at all."""
    if model.classes_.dtype.kind not in "Uifb":
        raise ValueError(f"classes must be text, numbers or booleans to be saved, got {model.classes_.dtype}")
    plan: Any = getattr(model, "plan_", None)
    searched = plan is not None and model.line_search > 0
    values = {
        "kind": KIND,
        "version": VERSION,
        "classes": model.classes_.tolist(),
        "coef": model.coef_.tolist(),
        "intercept": model.intercept_.tolist(),
        "feature_names": list(map(str, getattr(model, "feature_names_in_", []))) or None,
        "settings": _settings(model),
        "plan": None if plan is None else line_search.as_planned(plan).to_dict(),
        "searched_rate": plan.rates[plan.order[-1]] if searched else None,
        "privacy_spent": dict(getattr(model, "privacy_spent_", {})),
        "flip_rates": dict(getattr(model, "flip_rates_", {})),
    }
    write_text_atomically(Path(path), json.dumps(values, indent=1, allow_nan=False) + "\n")


def _settings(model: Any) -> dict[str, Any]:
    """Constructor arguments as plain values; the ledger stays behind, it is the site's."""
    settings = {key: value for key, value in model.get_params(deep=False).items() if key != "ledger"}
    noise = settings["noise"]
    if isinstance(noise, Noise):
        settings["noise"] = noise.to_dict()
    elif noise is not None:
        settings["noise"] = {"by source": {str(name): one.to_dict() for name, one in noise.items()}}
    return {key: value.item() if isinstance(value, np.generic) else value for key, value in settings.items()}


def load(make: Any, path: str | os.PathLike[str]) -> Any:
    """Model of the class `make` from a file, or one line that says what is wrong with it."""
    name = os.fspath(path)
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{name} must be a model that was saved whole, got something else: {error}") from None
    if not isinstance(values, Mapping) or values.get("kind") != KIND:
        raise ValueError(f"{name} must be a model saved by uneven, got something else")
    if values.get("version") != VERSION:
        raise ValueError(f"{name} must be a model of version {VERSION}, got {checks.shown(values.get('version'))}")
    checks.only_keys(name, values, KEYS)
    if missing := [key for key in KEYS if key not in values]:
        raise ValueError(f"{name} must have {missing[0]!r}; it is not there")
    try:
        return _model(make, values, name)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{name} must be a model saved by uneven, got values that do not fit: {error}") from None


def _model(make: Any, values: Mapping[str, Any], name: str) -> Any:
    settings = dict(values["settings"])
    settings["noise"] = _noise(settings.get("noise"))
    model = make(**settings)
    model.classes_ = np.array(values["classes"])
    if model.classes_.ndim != 1 or len(model.classes_) < 2 or not _increasing(model.classes_):
        raise ValueError(f"{name} must have two or more classes in order, got {checks.shown(values['classes'])}")
    model.coef_, model.intercept_ = _weights(values, len(model.classes_), name)
    model.n_features_in_ = model.coef_.shape[1]
    if values["feature_names"] is not None:
        if not isinstance(values["feature_names"], list):
            raise ValueError(f"{name} must have a list of feature names, got {checks.shown(values['feature_names'])}")
        if len(values["feature_names"]) != model.n_features_in_:
            raise ValueError(f"{name} must name {model.n_features_in_} features, got {len(values['feature_names'])}")
        model.feature_names_in_ = np.array(values["feature_names"], dtype=object)
    if values["plan"] is not None:
        model.plan_ = Plan.from_dict(values["plan"])
        if values["searched_rate"] is not None:
            model.plan_ = line_search.with_last_rate(model.plan_, float(values["searched_rate"]))
    model.privacy_spent_, model.flip_rates_ = dict(values["privacy_spent"]), dict(values["flip_rates"])
    model._ended = "a model that was loaded from a file: it can predict but not go on learning"
    return model


def _increasing(classes: Any) -> bool:
    return classes.dtype.kind in "Uifb" and np.array_equal(np.unique(classes), classes)


def _noise(values: Any) -> Any:
    if values is None:
        return None
    if "by source" in values:
        return {key: noise_from_dict(one) for key, one in values["by source"].items()}
    return noise_from_dict(values)


def _weights(values: Mapping[str, Any], classes: int, name: str) -> tuple[Any, Any]:
    try:
        coef, intercept = (np.array(values[key], dtype=np.float64) for key in ("coef", "intercept"))
    except ValueError:
        raise ValueError(f"{name} must have numbers for weights, got something else") from None
    problems = 1 if classes == 2 else classes
    if coef.ndim != 2 or coef.shape[0] != problems or intercept.shape != (problems,):
        raise ValueError(f"{name} must have weights for {classes} classes, got shapes {coef.shape}, {intercept.shape}")
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise ValueError(f"{name} must have finite weights, got others")
    return coef, intercept

"""A fitted model as a readable JSON file: weights, classes, features, settings and the plan it came from."""

from __future__ import annotations

import hashlib
import json
import math
import os
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven import checks
from uneven.columns import Column, Encoder, columns_to_dict, describe_columns
from uneven.io import located, shorten_error, write_text_atomically
from uneven.noise import FlippedLabels, Noise, noise_from_dict
from uneven.planner import Plan
from uneven.problem import NORMS
from uneven.settings import NAMES, Settings
from uneven.training import line_search
from uneven.training.model import Model
from uneven.training.scaling import Scale

KIND, VERSION = "uneven-model", 2
KEYS = (
    "kind",
    "version",
    "classes",
    "class_type",
    "coef",
    "intercept",
    "feature_names",
    "settings",
    "scale",
    "plan",
    "alpha",
    "searched_rate",
    "privacy_spent",
    "simulated",
    "flip_rates",
    "columns",
    "notes",
    "digest",
)
SAVED = tuple(name for name in NAMES if name != "random_state")
"""Settings in a file: never the seed, which would give away the noise of private rows."""

INFINITE = "infinite"
"""ε in a file where nothing is promised: JSON has no infinity."""

CLASS_KINDS = {"U": str, "O": str, "b": bool, "i": int, "u": int, "f": float}
"""NumPy's kinds of labels that a file can hold, and what their values are in it; "O" is text of any length."""


def save_model(model: Model, path: str | os.PathLike[str]) -> None:
    """Write a fitted model, whole or not at all.

    Parameters
    ----------
    model : Model
    path : path
    """
    write_text_atomically(Path(path), model_to_text(model))


def model_to_text(model: Model) -> str:
    """What the file of a model holds."""
    plan = model.plan
    planned = None if plan is None else line_search.as_planned(plan)
    searched = plan is not None and planned is not None and planned.segments != plan.segments
    settings = asdict(model.settings)
    values = {
        "kind": KIND,
        "version": VERSION,
        "classes": _plain_classes(model.classes),
        "class_type": model.classes.dtype.str,
        "coef": model.coef.tolist(),
        "intercept": model.intercept.tolist(),
        "feature_names": None if model.feature_names is None else list(model.feature_names),
        "settings": {"noise": _plain_noise(model.noise), **{name: settings[name] for name in SAVED}},
        "scale": None if model.scale is None else _scale_values(model.scale),
        "plan": None if planned is None else planned.to_dict(),
        "alpha": model.alpha,
        "searched_rate": plan.rates[plan.order[-1]] if searched else None,  # type: ignore[union-attr, index]
        "privacy_spent": {name: _spent_value(epsilon) for name, epsilon in model.privacy_spent.items()},
        "simulated": model.simulated,
        "flip_rates": dict(model.flip_rates),
        "columns": None if model.columns is None else columns_to_dict(model.columns),
        "notes": list(model.notes),
    }
    values["digest"] = _digest(values)
    return json.dumps(values, indent=1, allow_nan=False) + "\n"


def _digest(values: Mapping[str, Any]) -> str:
    """SHA-256 of all other values, in one order and without spaces: how the file is indented does not matter."""
    rest = {key: value for key, value in values.items() if key != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _plain_classes(classes: NDArray[Any]) -> list[Any]:
    values: list[Any] = classes.tolist()
    if not all(type(value) is CLASS_KINDS.get(classes.dtype.kind) for value in values):
        raise ValueError(f"classes must be text, numbers or booleans to be saved, got {classes.dtype}")
    return values


def _plain_noise(noise: Any) -> Any:
    """Noise as plain values: of all rows, or by source."""
    if noise is None or isinstance(noise, Noise):
        return None if noise is None else noise.to_dict()
    return {"by source": {str(name): one.to_dict() for name, one in noise.items()}}


def load_model(path: str | os.PathLike[str]) -> Model:
    """Model from a file, or one line that says what is wrong with it.

    Parameters
    ----------
    path : path

    Returns
    -------
    Model
    """
    name = os.fspath(path)
    if not Path(path).exists():
        raise FileNotFoundError(f"{name} does not exist; 'uneven fit' writes models")
    if not Path(path).is_file():
        raise ValueError(f"{name} must be a model that 'uneven fit' wrote, got no file")
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} must be a complete JSON model file, got something else: {error}") from None
    if not isinstance(values, Mapping) or values.get("kind") != KIND:
        raise ValueError(f"{name} must be a model saved by uneven, got something else")
    if values.get("version") != VERSION:
        raise ValueError(f"{name} must be a model of version {VERSION}, got {checks.shown(values.get('version'))}")
    _expect_keys(name, {"notes": [], **values}, KEYS)  # files from before them have none
    try:
        with located(name):
            model = _model(values)
    except (TypeError, KeyError, AttributeError, OverflowError) as error:
        what = shorten_error(error)
        raise ValueError(f"{name} must be a model saved by uneven, got values that do not fit: {what}") from None
    if values["digest"] != _digest(values):  # the last check: those above say what is wrong
        raise ValueError(f"{name} must be an unmodified model file, got one whose digest does not match its content")
    return model


def _model(values: Mapping[str, Any]) -> Model:
    settings, noise = _settings(values["settings"])
    classes = _classes(values["classes"], values["class_type"])
    coef, intercept = _weights(values, len(classes))
    names, scale, plan = values["feature_names"], values["scale"], values["plan"]
    return Model(
        classes,
        coef,
        intercept,
        settings,
        noise,
        None if scale is None else _scale(scale),
        None if plan is None else _plan(plan, values["searched_rate"]),
        None if values["alpha"] is None else checks.positive("alpha", values["alpha"], 1e-30, 1e30),
        _spent(values["privacy_spent"]),
        _flip_rates(values["flip_rates"], len(classes)),
        None if names is None else _names(names, coef.shape[1]),
        None if values["columns"] is None else _columns(values["columns"], names),
        _flag("simulated", values["simulated"]),
        _notes(values.get("notes", [])),
    )


def _expect_keys(what: str, values: Any, keys: tuple[str, ...]) -> None:
    if not isinstance(values, Mapping):
        raise ValueError(f"{what} must be a table of names and values, got {checks.shown(values)}")
    checks.only_keys(what, values, keys)
    if missing := [key for key in keys if key not in values]:
        raise ValueError(f"{what} must have {missing[0]!r}; it is not there")


def _settings(values: Any) -> tuple[Settings, Any]:
    if isinstance(values, Mapping):  # files from before there was a choice
        values = {"multi_class": "one-vs-rest", **values}
    _expect_keys("settings", values, ("noise", *SAVED))
    noise = _noise(values["noise"])
    with located("settings"):
        return Settings(**{name: values[name] for name in SAVED}), noise


def _noise(values: Any) -> Any:
    if values is None:
        return None
    if isinstance(values, Mapping) and "by source" in values:
        return {key: noise_from_dict(one) for key, one in values["by source"].items()}
    return noise_from_dict(values)


def _classes(values: Any, kind: Any) -> NDArray[Any]:
    """Classes of the type they had, in order."""
    dtype = np.dtype(checks.text("class_type", kind))
    plain = CLASS_KINDS.get(dtype.kind)
    if plain is None or not isinstance(values, list) or not all(type(value) is plain for value in values):
        raise ValueError(f"classes must be a list of values of class_type {kind!r}, got {checks.shown(values)}")
    classes = np.array(values, dtype=dtype)
    if len(classes) < 2 or classes.tolist() != values or not np.array_equal(np.unique(classes), classes):
        raise ValueError(f"must have two or more classes in order, got {checks.shown(values)}")
    return classes


def _weights(values: Mapping[str, Any], classes: int) -> tuple[Any, Any]:
    try:
        coef, intercept = (np.array(values[key], dtype=np.float64) for key in ("coef", "intercept"))
    except ValueError:
        raise ValueError("must have numbers for weights, got something else") from None
    problems = 1 if classes == 2 else classes
    if coef.ndim != 2 or coef.shape[0] != problems or intercept.shape != (problems,):
        raise ValueError(f"must have weights for {classes} classes, got shapes {coef.shape}, {intercept.shape}")
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise ValueError("must have finite weights, got others")
    return coef, intercept


def _names(values: Any, count: int) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(name, str) for name in values):
        raise ValueError(f"must have a list of feature names, got {checks.shown(values)}")
    if len(values) != count:
        raise ValueError(f"must name {count} features, got {len(values)}")
    return tuple(values)


def _notes(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(note, str) for note in values):
        raise ValueError(f"notes must be a list of sentences, got {checks.shown(values)}")
    return tuple(values)


def _columns(values: Any, names: Any) -> tuple[Column, ...]:
    columns = describe_columns(values)
    if not all(column.complete for column in columns) or list(Encoder(columns).names) != names:
        raise ValueError("columns must be those that the features are made of, got others")
    return columns


def _scale_values(scale: Scale) -> dict[str, Any]:
    """Scale as plain values; components as text, where there are some."""
    values = asdict(scale)
    basis = values.pop("basis")
    return {**values, "basis": b64encode(basis).decode()} if basis else values


def _basis(text: Any, entries: int) -> bytes:
    """Components of a sketch, so many float32 numbers; empty where there are none."""
    try:
        found = b64decode(text, validate=True)
    except (TypeError, ValueError):
        raise ValueError(f"basis of scale must be text in base64, got {checks.shown(text)}") from None
    if found and (len(found) != 4 * entries or not np.isfinite(np.frombuffer(found, dtype=np.float32)).all()):
        raise ValueError(f"basis of scale must have {entries} finite numbers, columns times sketch; got others")
    return found


def _scale(values: Any) -> Scale:
    if isinstance(values, Mapping):
        values = {"basis": "", **values}
    _expect_keys("scale", values, tuple(Scale.__dataclass_fields__))
    columns, sketch = (checks.whole(f"{key} of scale", values[key], least=0) for key in ("columns", "sketch"))
    return Scale(
        checks.positive("row_norm of scale", values["row_norm"]),
        checks.not_negative("constant of scale", values["constant"]),
        checks.one_of("norms of scale", values["norms"], NORMS),
        checks.positive("eigenvalue of scale", values["eigenvalue"], 1e-9, 1.0),
        columns,
        sketch,
        _basis(values["basis"], columns * sketch),
    )


def _plan(values: Any, searched: Any) -> Plan:
    plan = Plan.from_dict(values)
    if searched is None:
        return plan
    if plan.rates is None or len(plan.order) != 2:
        raise ValueError(f"searched_rate must be null for a plan without two rates, got {checks.shown(searched)}")
    return line_search.with_last_rate(plan, checks.positive("searched_rate", searched, 1e-18, 1e18))


def _flip_rates(values: Any, classes: int) -> dict[str, Any]:
    """Flip rate of each source: a number, one for positive and one for negative labels, or a confusion matrix."""
    pairs = {name: one for name, one in values.items() if isinstance(one, list)} if isinstance(values, Mapping) else {}
    plain = {name: one for name, one in values.items() if name not in pairs} if pairs else values
    limit = (classes - 1) / classes
    known: dict[str, Any] = {name: FlippedLabels(tuple(pair)).rate for name, pair in pairs.items()}
    return _numbers("flip_rates", plain, limit) | known


def _spent_value(epsilon: float) -> float | str:
    return INFINITE if math.isinf(epsilon) else epsilon


def _spent(values: Any) -> dict[str, float]:
    """ε by source; infinite where the noise came from a seed."""
    finite = values if not isinstance(values, Mapping) else {n: 0.0 if v == INFINITE else v for n, v in values.items()}
    known = _numbers("privacy_spent", finite, math.inf)
    return {name: math.inf if values[name] == INFINITE else epsilon for name, epsilon in known.items()}


def _flag(what: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{what} must be true or false, got {checks.shown(value)}")
    return value


def _numbers(what: str, values: Any, limit: float) -> dict[str, float]:
    """Numbers by source, from 0 up to what is below the limit."""
    if not isinstance(values, Mapping):
        raise ValueError(f"{what} must be a table of sources and numbers, got {checks.shown(values)}")
    return {name: checks.within(f"{what} of {name!r}", value, 0.0, limit) for name, value in values.items()}

"""A site's policy: what it holds, what it allows, and why it refuses the rest. The file is the site's alone.

A reason for a refusal is made of the policy, the request and the ledger's account only: its words tell of no row.
That there is one may: where rows are known by their content, whether the ledger's account has one of them depends on
its values. An id for each row avoids that.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven import checks
from uneven.columns import Column, Encoder, columns_to_dict, describe_columns
from uneven.io import format_columns, format_value, located
from uneven.noise import Noise
from uneven.problem import Problem

MODES = ("relay", "oracle")
MOST_BATCH = 10**9
"""Largest batch size that a site takes."""


class Refused(ValueError):  # noqa: N818 (it says what happened)
    """A site does not do what it was asked; the message is for the server to show."""


@dataclass(frozen=True)
class Policy:
    """What a ``site.toml`` says, checked.

    Parameters
    ----------
    folder : Path
        Where the file is; paths in it are relative to this.
    name : str
        Of the site, and of the source that it is in the server's plan.
    data : str
        File with its rows.
    features : tuple of str
        Columns that may be learned from, in this order.
    columns : tuple of Column or None
        What is publicly known of them (``[columns]``, as in ``sources.toml``), instead of `features`: what the site
        makes numbers of its columns by.
    classes : tuple
        The two classes, in order: a public statement, not a finding.
    label : str, int or None
        Column of the labels, as in ``sources.toml``.
    row_norm : float
        Public bound on the norm of rows; longer ones are shrunk to it.
    epsilon : float or None
        The most that one release of a row may cost; None for rows without privacy, which have to be declared so
        (``private = false``).
    budget : float or None
        The most that a row may spend in all.
    jobs : tuple of str
        Names of jobs that are allowed; ``*`` stands for any characters.
    modes : tuple of str
        Of "relay" and "oracle".
    noises : tuple of str
        Kinds of noise that count as protection.
    id : str or None
        Column by which the ledger knows the rows; None means by their content.
    kept : str or None
        File with rows that are never learned from, for `uneven evaluate`; None where there are none.
    ledger, releases : str
        Files for the account of the rows and for the answers that were given.
    seed : int or None
        For rehearsals and tests: noise that can be repeated protects nobody.
    """

    folder: Path
    name: str
    data: str
    features: tuple[str, ...]
    classes: tuple[Any, ...]
    columns: tuple[Column, ...] | None = None
    label: str | int | None = None
    row_norm: float = 1.0
    epsilon: float | None = None
    budget: float | None = None
    jobs: tuple[str, ...] = ("*",)
    modes: tuple[str, ...] = MODES
    noises: tuple[str, ...] = ("local-privacy",)
    id: str | None = None
    kept: str | None = None
    ledger: str = "ledger.db"
    releases: str = "releases.db"
    seed: int | None = None

    @property
    def private(self) -> bool:
        """Whether its rows are protected."""
        return self.epsilon is not None

    @property
    def encoder(self) -> Encoder | None:
        """What makes features of the described columns; None where columns are features."""
        return None if self.columns is None else Encoder(self.columns)

    @property
    def described_columns(self) -> dict[str, Any] | None:
        """Columns as plain values."""
        return None if self.columns is None else columns_to_dict(self.columns)

    @property
    def n_features(self) -> int:
        """Number of features that the columns make."""
        return len(self.features) if self.encoder is None else self.encoder.width

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features that the columns make."""
        return self.features if self.encoder is None else self.encoder.names

    @property
    def class_values(self) -> NDArray[Any]:
        """Classes as an array."""
        return np.array(self.classes)

    def describe(self) -> dict[str, Any]:
        """What the site says of itself to a server, beside its number of rows."""
        return {
            "site": self.name,
            "features": list(self.features),
            "columns": self.described_columns,
            "classes": list(self.classes),
            "row_norm": self.row_norm,
            "epsilon": self.epsilon,
            "simulated": self.seed is not None,
        }

    def path(self, name: str) -> Path:
        """File of this name beside the policy's."""
        return self.folder / name


KEYS = ("private", *(key for key in Policy.__dataclass_fields__ if key != "folder"))
NEEDED = ("name", "data", "classes")

MEANING = {
    "name": "the name in the certificate, and of the source in the server's plan",
    "data": "the rows; they stay here",
    "label": "column of the labels",
    "features": "columns that may be learned from, in this order",
    "classes": "the two labels: a public statement",
    "row_norm": "public bound on the norm of rows; longer ones are shrunk to it",
    "private": "whether the rows are protected; false sends what is learned from them as it is",
    "noises": "kinds of noise that count as protection",
    "epsilon": "the most that one release of a row may cost",
    "budget": "the most that a row may spend in all, over all jobs",
    "jobs": "names of the jobs that are allowed; * stands for any characters",
    "modes": '"relay": the segment runs here; "oracle": this site answers gradients, step by step',
    "id": "column by which the ledger knows the rows; left out: by their content",
    "kept": "rows that are never learned from, for 'uneven evaluate'",
    "seed": "for rehearsals: noise that can be repeated protects nobody",
}
"""Keys that are written to a new file, in this order, and what they mean."""


def read_policy(path: str | Path) -> Policy:
    """Read a ``site.toml``; what is wrong with it is said in one line that names the file and the key."""
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"{file} must be a site's policy file, got none; 'uneven site init' writes one")
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} must be TOML: {error}") from None
    with located(str(file)):
        return parse_policy(file.absolute().parent, values)


def parse_policy(folder: Path, values: Mapping[str, Any]) -> Policy:
    """Policy of plain values, or a refusal that names the key."""
    checks.only_keys("a site's policy", values, KEYS)
    checks.needed_keys("a site's policy", values, NEEDED)
    private = values.get("private", True)
    if not isinstance(private, bool):
        raise ValueError(f"private must be true or false, got {checks.shown(private)}")
    given = {key: value for key, value in values.items() if key != "private"}
    for key in ("epsilon", "budget"):
        if private:
            checks.needed_keys("the policy of a site with private rows", values, (key,))
            given[key] = checks.moderate(key, values[key])
        elif key in values:
            raise ValueError(f"{key} must be left out where private = false, got {checks.shown(values[key])}")
    for key in ("name", "data", "label", "id", "kept", "ledger", "releases"):
        if key in given and not (key == "label" and type(given[key]) is int):
            checks.text(key, given[key])
    if ("features" in given) == ("columns" in given):
        raise ValueError("a site's policy needs either 'features' or [columns]; got neither or both")
    if "columns" in given:
        given["columns"] = describe_columns(given["columns"])
        if not all(column.complete for column in given["columns"]):
            raise ValueError("[columns] must state a range or values for every column of a site; one has neither")
        given["features"] = [column.name for column in given["columns"]]
    for key in ("features", "jobs", "modes", "noises"):
        if key in given:
            given[key] = _texts(key, given[key])
    for mode in given.get("modes", ()):
        checks.one_of("modes", mode, MODES)
    given["classes"] = _classes(given["classes"])
    given["row_norm"] = checks.positive("row_norm", values.get("row_norm", 1.0))
    if "seed" in given:
        given["seed"] = checks.whole("seed", given["seed"], least=0)
    return Policy(folder, **given)


def _texts(key: str, values: Any) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise ValueError(f"{key} must be a list of at least one name, got {checks.shown(values)}")
    return tuple(checks.text(key, one) for one in values)


def _classes(values: Any) -> tuple[Any, ...]:
    if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != 2:
        raise ValueError(f"classes must be a list of two labels, got {checks.shown(values)}")
    if type(values[0]) is not type(values[1]) or not isinstance(values[0], str | int) or not values[0] < values[1]:
        raise ValueError(f"classes must be two labels of one kind, in order; got {checks.shown(values)}")
    return tuple(values)


def policy_to_text(values: Mapping[str, Any]) -> str:
    """Text of a ``site.toml``; keys with the value None are left out.

    >>> print(policy_to_text({"name": "clinic", "budget": 2.0}))
    # What this site allows, for uneven. Whatever a server asks, this file and the ledger decide.
    name = "clinic"  # the name in the certificate, and of the source in the server's plan
    budget = 2.0  # the most that a row may spend in all, over all jobs
    """
    lines = ["# What this site allows, for uneven. Whatever a server asks, this file and the ledger decide."]
    for key, meaning in MEANING.items():
        if values.get(key) is not None:
            lines.append(f"{key} = {format_value(values[key])}  # {meaning}")
    columns = values.get("columns")
    return "\n".join(lines) + "\n" + ("" if columns is None else format_columns(columns))


def refuse_job(policy: Policy, name: Any, mode: str) -> None:
    """Refuse a job that the policy does not allow."""
    if not isinstance(name, str) or not any(fnmatchcase(name, allowed) for allowed in policy.jobs):
        raise Refused(f"job {checks.shown(name)} is not among those that {policy.name!r} allows")
    if mode not in policy.modes:
        raise Refused(f"{policy.name!r} does not answer in mode {mode!r}; it answers in {', '.join(policy.modes)}")


def refuse_schema(policy: Policy, features: Any, columns: Any, classes: Any, row_norm: Any) -> None:
    """Refuse other columns, classes or row norm than the site's, before a single row is spent."""
    for what, asked, held in (
        ("features", features, list(policy.features)),
        ("columns", columns, policy.described_columns),
        ("classes", classes, list(policy.classes)),
        ("row_norm", row_norm, policy.row_norm),
    ):
        if json.dumps(asked, sort_keys=True) != json.dumps(held, sort_keys=True):  # as text, so that true is not 1
            raise Refused(f"{what} must be {checks.shown(held)} for {policy.name!r}, got {checks.shown(asked)}")


def refuse_noise(policy: Policy, noise: Noise) -> None:
    """Refuse less protection than the policy asks for."""
    if policy.epsilon is None:
        return
    if noise.protection.kind not in policy.noises or noise.epsilon_per_row is None or not noise.protects_features:
        accepted = ", ".join(policy.noises)
        protect = "" if noise.protects_features or not noise.private else " and protect features"
        got = checks.shown(noise.protection.kind)
        raise Refused(f"noise of {policy.name!r} must be {accepted}{protect}, got {got}")
    refuse_epsilon(policy, noise.epsilon_per_row)


def refuse_epsilon(policy: Policy, epsilon: float) -> None:
    """Refuse a larger ε than one release may cost."""
    if policy.epsilon is not None and epsilon > policy.epsilon * (1.0 + 1e-9):
        raise Refused(f"epsilon of {policy.name!r} must be at most {policy.epsilon:g} for one release, got {epsilon:g}")


def refuse_problem(problem: Problem, width: int) -> None:
    """Refuse a problem that sites do not solve."""
    if problem.classes != 2 or problem.norms != "largest" or problem.n_features != width:
        raise Refused("task must be for two classes in the unit ball, with a weight for each column; got another")
    if problem.batch_size > MOST_BATCH:
        raise Refused(f"batch_size must be at most {MOST_BATCH:,}, got {checks.shown(problem.batch_size)}")
    if problem.weighted:
        raise Refused("class_weight must be left out where rows stay at their sites; got class weights")

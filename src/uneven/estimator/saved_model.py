"""A fitted classifier as a model, which a file can hold, and back."""

from __future__ import annotations

import math
import os
from copy import copy
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from uneven.columns import Encoder, describe_columns
from uneven.estimator.public_columns import PublicColumns
from uneven.settings import NAMES
from uneven.training import Account, Model, load_model, save_model

READ_ONLY = "a model that was made elsewhere, such as loaded from a file: it can predict but not go on learning"


class SavedModel:
    """Save, load, and what both need of the fitted attributes."""

    def save(self, path: str | os.PathLike[str], columns: PublicColumns | None = None) -> None:
        """Write the fitted model to a readable JSON file: whole or not at all.

        Parameters
        ----------
        path : path
        columns : PublicColumns or None
            What made the rows that it was fitted to, if they were described publicly: then ``uneven predict`` takes
            rows as they were before.
        """
        check_is_fitted(self, "coef_")
        model = self._model()
        if columns is not None:
            names = tuple(map(str, columns.get_feature_names_out()))
            if len(names) != model.n_features:
                raise ValueError(f"columns must make the {model.n_features} features of the model, got {len(names)}")
            model = replace(model, feature_names=names, columns=describe_columns(columns.columns_))
        save_model(model, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Model that `save` or ``uneven fit`` wrote, to predict with; refused if it is cut short or of a newer kind."""
        return cls.from_model(load_model(path))

    @classmethod
    def from_model(cls, model: Model) -> Self:
        """Classifier that predicts by this model."""
        make: Any = cls
        made = make(model.noise, **{name: getattr(model.settings, name) for name in NAMES})
        made._take(model)
        made.n_features_in_ = model.n_features
        if model.feature_names is not None and model.columns is None:  # `PublicColumns` hands over arrays
            made.feature_names_in_ = np.array(model.feature_names, dtype=object)
        made._columns = model.columns
        made._account = Account.resume(model.privacy_spent)
        made._progress = READ_ONLY
        return cast(Self, made)

    def _names(self) -> tuple[str, ...] | None:
        if (columns := getattr(self, "_columns", None)) is not None:
            return Encoder(columns).names
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else tuple(map(str, names))

    def _take(self, model: Model) -> None:
        """Fitted attributes from a model."""
        self.classes_, self.coef_, self.intercept_ = model.classes, model.coef, model.intercept
        if model.scale is not None:
            self.scale_ = model.scale
        if model.plan is not None:
            self.plan_ = model.plan
        if model.alpha is not None:
            self.alpha_ = model.alpha
        self.privacy_spent_, self.flip_rates_ = dict(model.privacy_spent), dict(model.flip_rates)
        self.notes_, self._made_with = model.notes, (model.settings, copy(model.noise))

    def _model(self) -> Model:
        """Model of the fitted attributes."""
        return Model(
            self.classes_,
            self.coef_,
            self.intercept_,
            *self._made_with,
            self.scale_,
            getattr(self, "plan_", None),
            getattr(self, "alpha_", None),
            self.privacy_spent_,
            getattr(self, "flip_rates_", {}),
            self._names(),
            getattr(self, "_columns", None),
            any(map(math.isinf, self.privacy_spent_.values())),
            getattr(self, "notes_", ()),
        )

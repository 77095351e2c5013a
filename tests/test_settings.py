"""Every setting: its default is the classifier's, what it accepts is kept, and what it does not is refused by name."""

import pytest

from uneven import UnevenClassifier
from uneven.settings import NAMES, Settings

ACCEPTED_AND_REFUSED = {
    "alpha": (0.1, 0.0),
    "batch_size": (7, 0),
    "loss": ("hinge", "square"),
    "strategy": ("averaged", "magic"),
    "moments": ("estimated", "middle"),
    "radius": ("paper", "wide"),
    "fit_intercept": (False, 0),
    "clip": (None, -1.0),
    "average": ("last", "median"),
    "row_norm": (3.0, "large"),
    "long_rows": ("refuse", "drop"),
    "passes": (3, 1.5),
    "use": ("all", "some"),
    "redact": (True, "yes"),
    "classes": (("ill", "well"), ["ill"]),
    "class_weight": ({"ill": 2.0}, {"ill": 0.0}),
    "threshold": (0.3, 1.0),
    "multi_class": ("one-vs-rest", "ovr"),
    "sketch": (5, 0),
    "budget": (4.0, 0.0),
    "line_search": (3, -1),
    "mechanism": ("privunit", "gauss"),
    "random_state": (0, -1),
}


def test_every_setting_is_here():
    assert tuple(ACCEPTED_AND_REFUSED) == NAMES


def test_defaults_are_those_of_the_classifier():
    given = UnevenClassifier().get_params()
    assert {name: given[name] for name in NAMES} == vars(Settings())


@pytest.mark.parametrize("name", NAMES)
def test_values_are_kept_or_refused(name):
    accepted, refused = ACCEPTED_AND_REFUSED[name]
    assert accepted != getattr(Settings(), name)
    assert getattr(Settings(**{name: accepted}), name) == accepted
    for wrong in (refused, object()):
        with pytest.raises(ValueError, match=rf"^{name}( of 'ill')? must "):
            Settings(**{name: wrong})

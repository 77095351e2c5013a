"""Requests as a site takes them: their keys, their names, and what is wrong with them as a refusal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from uneven import checks
from uneven.federation.messages import digest
from uneven.federation.policy import Policy, Refused, refuse_job, refuse_noise, refuse_problem, refuse_schema
from uneven.noise import Noise
from uneven.problem import Problem

SCHEMA_KEYS = ("features", "columns", "classes", "row_norm")
JOB_KEYS = ("kind", "job", "name", "number", *SCHEMA_KEYS, "intercept", "private")


@dataclass(frozen=True)
class Asked:
    """A checked request for a segment: the release, the digest of the text, the noise, and how to scale rows."""

    release: str
    request: str
    noise: Noise
    problem: Problem
    intercept: bool
    private: bool


class refusing:  # noqa: N801 (used as a statement)
    """Turn what is wrong with a message into a refusal: it says what is in the message, and nothing else."""

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, _kind: Any, error: BaseException | None, _trace: Any) -> None:
        if isinstance(error, ValueError | TypeError | KeyError | AttributeError) and not isinstance(error, Refused):
            raise Refused(str(error)) from None


def expect_keys(message: dict[str, Any], keys: tuple[str, ...]) -> None:
    """Refuse a message with other keys than these."""
    checks.only_keys("a request", message, keys)
    checks.needed_keys("a request", message, keys)


def release_name(message: dict[str, Any]) -> str:
    """Name of a release: the job's and the segment's number."""
    return f"{checks.text('job', message.get('job'))}/{checks.whole('number', message.get('number'), least=0)}"


def answer_claim(release: str) -> str:
    """The ledger's claim that a whole segment was answered."""
    return f"{release}, answered"


def name_reservation(release: str, batches: int) -> str:
    """The ledger's claim that so many batches were reserved."""
    return f"{release}, {batches} batches"


def check_job(policy: Policy, message: dict[str, Any], text: str, mode: str, noise: Noise, problem: Problem) -> Asked:
    """A request for a segment, if the policy allows it."""
    with refusing():
        release = release_name(message)
    refuse_job(policy, message["name"], mode)
    refuse_schema(policy, *(message[key] for key in SCHEMA_KEYS))
    refuse_noise(policy, noise)
    refuse_problem(problem, policy.n_features + bool(message["intercept"]))
    return Asked(release, digest(text), noise, problem, bool(message["intercept"]), bool(message["private"]))

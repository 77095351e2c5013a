"""Requests as a site takes them: their keys, their names, and what is wrong with them as a refusal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from uneven import checks
from uneven.federation.messages import digest, write_message
from uneven.federation.policy import Policy, Refused, refuse_job, refuse_noise, refuse_problem, refuse_schema
from uneven.noise import Noise
from uneven.problem import Problem

SCHEMA_KEYS = ("features", "columns", "classes", "row_norm")
PART_KEYS = ("kept", "tellers")
JOB_KEYS = ("kind", "job", "name", "number", *SCHEMA_KEYS, "intercept", "private")

MOST_KEPT = 10**9
"""Most that one row in so many is kept, in a message."""


@dataclass(frozen=True)
class Asked:
    """A checked request for rows of one part: the release, the digest of the text, the noise, and how to scale rows.

    Where rows are kept (`Plan.kept`), one in `kept` of them takes no step, and `number` is the segment's.
    """

    release: str
    request: str
    noise: Noise
    problem: Problem
    intercept: bool
    private: bool
    job: str
    number: int
    kept: int = 0
    tellers: int = 0

    @property
    def charge(self) -> str:
        """Name under which all rows of a job are charged, whose parts are then released one after the other."""
        return f"{self.job}/rows"

    @property
    def division(self) -> str:
        """Digest of what each row does in the job, and at which ε: the same for all parts, so each answers once."""
        own = {"number": self.number, "epsilon": self.noise.epsilon_per_row} if self.kept else {}
        return digest(write_message({"kept": self.kept, "tellers": self.tellers, **own}))


class refusing:  # noqa: N801 (used as a statement)
    """Turn what is wrong with a message into a refusal: it says what is in the message, and nothing else."""

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, _kind: Any, error: BaseException | None, _trace: Any) -> None:
        if isinstance(error, ValueError | TypeError | KeyError | AttributeError) and not isinstance(error, Refused):
            raise Refused(str(error)) from None


def expect_keys(message: dict[str, Any], keys: tuple[str, ...], optional: tuple[str, ...] = ()) -> None:
    """Refuse a message with other keys than these, or without one that is not optional."""
    checks.only_keys("a request", message, (*keys, *optional))
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


def read_division(message: dict[str, Any]) -> tuple[int, int]:
    """One row in how many takes no step, and one of those in how many tells its class; 0 where nothing is said."""
    if not any(key in message for key in PART_KEYS):
        return 0, 0
    kept = checks.whole("kept", message["kept"], least=2, most=MOST_KEPT)
    return kept, checks.whole("tellers", message["tellers"], least=0, most=MOST_KEPT)


def check_job(
    policy: Policy, message: dict[str, Any], text: str, mode: str, noise: Noise, problem: Problem, part: str = ""
) -> Asked:
    """A request for a segment, or for another part of its rows, if the policy allows it."""
    with refusing():
        release, division = release_name(message), read_division(message)
    refuse_job(policy, message["name"], mode)
    refuse_schema(policy, *(message[key] for key in SCHEMA_KEYS))
    refuse_noise(policy, noise)
    refuse_problem(problem, policy.n_features + bool(message["intercept"]))
    scaled = bool(message["intercept"]), bool(message["private"])
    named = str(message["job"]), int(message["number"])
    return Asked(release + part, digest(text), noise, problem, *scaled, *named, *division)

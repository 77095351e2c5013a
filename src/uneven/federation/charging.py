"""A site's account of its rows: a release is entered and its rows are charged first, and it is made once.

Where some rows of a job take no step, all of its rows are charged together, at the first request for any of them, under
one name that also holds what each row does. Then each part is released once, at no further charge: a row is of one part
only, and another division of the rows, another ε or another segment is refused.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from uneven.federation.policy import Policy, Refused
from uneven.federation.releases import Releases, charge_rows
from uneven.federation.requests import Asked, answer_claim
from uneven.federation.rows import Opened, digest_rows, identify_rows
from uneven.ledger import Ledger


@dataclass(frozen=True)
class Account:
    """The ledger and the record of answers of one site."""

    policy: Policy
    ledger: Ledger
    releases: Releases

    def find(self, release: str, step: int, request: str) -> str | None:
        """Answer that was given before; None if there was none."""
        if (kept := self.releases.find(release, step)) is None:
            return None
        if kept[0] != request:
            raise Refused(f"{release!r} was answered for another request; each row is released once")
        return kept[1]

    def claim_answer(self, release: str, text: str) -> str:
        """An answer that may be sent: the ledger knows that there is one, should the record of it be lost."""
        if self.policy.private:
            self.ledger.claim(answer_claim(release))
        return text

    def refuse_older(self, claim: str) -> None:
        """Refuse to release what the ledger knows of and the record of answers does not."""
        if self.ledger.claimed(claim):
            raise Refused(f"{claim!r} is in the ledger, but what was released is not on record")

    def charge_part(self, asked: Asked, opened: Opened) -> int:
        """Enter the release of rows of one part, all rows charged before, once; the seed of their order."""
        epsilon = asked.noise.epsilon_per_row
        self._bind(asked, opened)
        if not asked.kept:
            return self.charge(asked.release, asked.request, self.policy.name, opened, epsilon)
        self.charge(asked.charge, asked.division, self.policy.name, opened, epsilon)
        seed = self._enter(asked.release, asked.request, opened)
        if self.policy.private:
            self.ledger.claim(asked.release)
        return seed

    def charge(self, release: str, request: str, source: str, opened: Opened, epsilon: float | None) -> int:
        """Enter a release and charge its rows, if they are private: once; the seed of the release."""
        seed = self._enter(release, request, opened)
        if self.policy.private:
            assert epsilon is not None
            charge = source, identify_rows(self.policy, opened.scan, self.ledger.key), epsilon
            charge_rows(self.policy, self.ledger, self.releases, charge, release)
        return seed

    def _bind(self, asked: Asked, opened: Opened) -> None:
        """Refuse another division of a job's rows than that of its first request: a row could answer twice."""
        if (entry := self.releases.entry(asked.charge)) is None:
            self.refuse_older(asked.charge)
            if not asked.kept:  # else it is entered with the charge
                self.releases.enter(asked.charge, asked.division, digest_rows(opened.scan), 0)
        elif entry[0] != asked.division:
            raise Refused(f"rows of job {asked.job!r} were divided otherwise at first; each row is released once")

    def _enter(self, release: str, request: str, opened: Opened) -> int:
        """Enter a release, once; the seed of its rows' order."""
        policy, entry, rows = self.policy, self.releases.entry(release), digest_rows(opened.scan)
        opened.refuse_changed(policy.name)
        if entry is None:
            self.refuse_older(release)
            entry = request, rows, secrets.randbits(63) if policy.seed is None else policy.seed
            self.releases.enter(release, *entry)
        if entry[0] != request:
            raise Refused(f"{release!r} was begun for another request; each row is released once")
        self.refuse_older(answer_claim(release))
        if entry[1] != rows:
            raise Refused(f"{release!r} was begun with other rows; each row is charged before it is released, and once")
        return entry[2]

"""A site: its rows, its policy and its ledger, and the answers it gives. Whatever the server asks, these decide.

1. The rows are read and checked against the site's own policy when it starts. A site whose rows do not pass does not
   start, so no later refusal depends on a row.
2. A request is compared with the policy: job, mode, columns, classes, row norm, kind of noise and ε.
3. The release is entered and its rows are charged, once for each job and segment, before anything is computed.
4. The answer is kept before it is sent; a repeated request gets the same answer.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

from uneven import checks
from uneven.anchor import Summary, use_one_thread
from uneven.engine import State, Task
from uneven.federation.anchors import added_to_dict, answer_as_anchor, move_summary, summary_from_dict
from uneven.federation.charging import Account
from uneven.federation.kept import prepare_site, read_question
from uneven.federation.messages import (
    LARGEST,
    digest,
    read_message,
    read_vector,
    state_from_dict,
    state_to_dict,
    task_from_dict,
    write_message,
)
from uneven.federation.policy import Policy, Refused, refuse_epsilon, refuse_job, refuse_schema
from uneven.federation.releases import AHEAD, open_ledger, open_releases
from uneven.federation.requests import (
    JOB_KEYS,
    PART_KEYS,
    SCHEMA_KEYS,
    Asked,
    check_job,
    expect_keys,
    name_reservation,
    refusing,
    release_name,
)
from uneven.federation.rows import (
    hold_folder,
    identify_file,
    identify_rows,
    open_rows,
    refuse_shared_rows,
)
from uneven.federation.scores import count_said
from uneven.federation.segments import Batches, run_segment
from uneven.federation.sums import answer_sums
from uneven.noise import LabelPrivacy, noise_from_dict
from uneven.planner import count_kept
from uneven.problem import Problem
from uneven.training import PrivateSource, read_scale

log = logging.getLogger("uneven.site")

PATIENCE = 0.1
"""Seconds that a request waits for a segment before the site says how far it is."""

Reply = str | tuple[str, Future[str], list[int]]
"""Text, or a segment that is running: its release, what it will come to, and the rows it has used so far."""


class Site:
    """One site; `answer` takes a request and returns the reply, both as text."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        with ExitStack() as files:
            lock = files.enter_context(hold_folder(policy))
            self.ledger = open_ledger(policy)
            self._opened = open_rows(policy, policy.data, self.ledger.key)
            self._aside = None if policy.kept is None else open_rows(policy, policy.kept, self.ledger.key)
            self._rows, self.scan = self._opened.rows, self._opened.scan
            if self._aside is not None:
                refuse_shared_rows(policy, self.scan, self._aside.scan)
            if policy.private:
                self.ledger.refuse_unlike(identify_rows(policy, self.scan, self.ledger.key))
            self.releases = files.enter_context(closing(open_releases(policy, self.ledger, lock)))
            self._worker = files.enter_context(ThreadPoolExecutor(1))
            self._files = files.pop_all()
        self._account = Account(policy, self.ledger, self.releases)
        self._one_at_a_time, self._policy_file = threading.Lock(), identify_file(policy.path("site.toml"))
        self._running: dict[str, tuple[Future[str], list[int]]] = {}
        self._batches: dict[str, Batches] = {}

    def close(self) -> None:
        """Finish what is running and let go of the site's files."""
        self._files.close()

    def answer(self, text: str | bytes | bytearray) -> str:
        """Reply to a request; what is refused or fails is said in one line that tells nothing of the rows."""
        try:
            with self._one_at_a_time:
                reply = self._handle(text if isinstance(text, str) else bytes(text).decode())
            return reply if isinstance(reply, str) else self._report(*reply)
        except Refused as reason:
            log.warning("refused: %s", reason)
            return write_message({"refused": str(reason)})
        except ArithmeticError:  # before any charge: a failure after it is an answer (`_once`)
            return write_message({"refused": "a request must have numbers that can be computed with, got others"})
        except Exception:
            return self._fail("a request could not be answered")

    def _handle(self, text: str) -> Reply:
        try:
            message = read_message(text)
            kind = checks.one_of("kind", message.get("kind"), tuple(self._handlers))
        except ValueError as reason:
            raise Refused(str(reason)) from None
        if identify_file(self.policy.path("site.toml")) != self._policy_file:
            raise Refused(f"{self.policy.name!r} must be started again: its policy has changed; nothing was charged")
        return self._handlers[kind](message, text)

    @property
    def _handlers(self) -> dict[str, Callable[[dict[str, Any], str], Reply]]:
        return {
            "describe": self._describe,
            "anchor": self._anchor,
            "sums": self._sums,
            "relay": self._relay,
            "add": self._add,
            "shares": self._question,
            "length": self._question,
            "open": self._open,
            "step": self._step,
            "evaluate": self._evaluate,
        }

    # What is there

    def _describe(self, message: dict[str, Any], _text: str) -> str:
        refuse_job(self.policy, message.get("name"), str(message.get("mode")))
        return write_message({"rows": self.scan.rows, **self.policy.describe()})

    # One message per site

    def _relay(self, message: dict[str, Any], text: str) -> Reply:
        asked, task = self._check_task(message, text, "relay", ("state",))
        with refusing():
            state = state_from_dict(message["state"], asked.problem.n_features)
        return self._start(asked, partial(self._run, asked, task, state))

    def _run(self, asked: Asked, task: Task, state: State, done: list[int]) -> dict[str, Any]:
        after = run_segment(state, task, self._data(asked), self.policy.seed, self._ticker(asked, done))
        return {"state": state_to_dict(after)}

    def _add(self, message: dict[str, Any], text: str) -> Reply:
        """Add the site's rows to what the anchor says."""
        with refusing():
            expect_keys(message, (*JOB_KEYS, "problem", "noise", "anchor", "others", "state"))
            noise, problem = noise_from_dict(message["noise"]), Problem.from_dict(message["problem"])
        asked = check_job(self.policy, message, text, "relay", noise, problem)
        if noise.compiled(problem) is None or problem.ball > LARGEST:
            raise Refused(f"noise of {self.policy.name!r} must have a compiled form to be added to an anchor")
        with refusing():
            summary = summary_from_dict(message["anchor"], problem.n_features)
            state = state_from_dict(message["state"], problem.n_features)
            rivals = [summary, *(move_summary(summary, one) for one in message["others"])]
        source = PrivateSource(self.policy.name, noise, problem, self.scan.rows)
        return self._start(asked, partial(self._run_source, asked, source, rivals, state))

    def _run_source(
        self, asked: Asked, source: PrivateSource, rivals: list[Summary], state: State, done: list[int]
    ) -> dict[str, Any]:
        with use_one_thread():
            tick = self._ticker(asked, done)
            added = source.add(rivals, state, self._data(asked), self.policy.seed, tick)
        return {"added": added_to_dict(added), "state": state_to_dict(added.state)}

    def _question(self, message: dict[str, Any], text: str) -> Reply:
        """What rows that take no step tell: the shares of the classes, or the length of the weights."""
        asked, answer = read_question(self.policy, message, text, self._opened)
        return self._start(asked, lambda done: answer(self._ticker(asked, done)))

    def _start(self, asked: Asked, run: Callable[[list[int]], dict[str, Any]]) -> Reply:
        """Answer that was given before, or a segment that is running: its rows are charged first."""
        if (kept := self._account.find(asked.release, 0, asked.request)) is not None:
            return self._account.claim_answer(asked.release, kept)

        def work() -> str:
            text = self._once(lambda: {**run(done), "rows": self.scan.rows})
            with self._one_at_a_time:
                self.releases.keep(asked.release, asked.request, text)
                return self._account.claim_answer(asked.release, text)

        done: list[int] = []
        if asked.release not in self._running:
            self._claim(asked)
            self._running[asked.release] = self._worker.submit(work), done
        return asked.release, *self._running[asked.release]

    def _anchor(self, message: dict[str, Any], text: str) -> Reply:
        """Learn from rows without privacy, and judge what private sites would bring; it may be asked for again."""
        keys = "settings", "sources", "start"
        return self._answer_openly(message, text, keys, lambda *to: answer_as_anchor(*to, *map(message.get, keys)))

    def _sums(self, message: dict[str, Any], text: str) -> Reply:
        """Sums over rows without privacy, which are one part of the anchor."""
        keys = "problem", "noise", "weights", "reach", "curvature", "share"
        return self._answer_openly(message, text, keys, lambda *to: answer_sums(message, *to))

    def _answer_openly(
        self, message: dict[str, Any], text: str, keys: tuple[str, ...], answer: Callable[..., dict[str, Any]]
    ) -> Reply:
        """Answer from rows without privacy, which is not kept: it may be asked for again."""
        policy = self.policy
        with refusing():
            expect_keys(message, ("kind", "job", "name", *SCHEMA_KEYS, "intercept", *keys))
        refuse_job(policy, message["name"], "relay")
        refuse_schema(policy, *(message[key] for key in SCHEMA_KEYS))
        if policy.private:
            raise Refused(f"rows of {policy.name!r} are private: they cannot be the anchor")
        scale = read_scale(policy.row_norm, bool(message["intercept"]), True)

        def work() -> str:
            with refusing():
                return write_message(answer(self._rows, self.scan, scale, policy.name))

        key = f"anchor {digest(text)}"
        if key not in self._running:
            self._running[key] = self._worker.submit(work), []
        return key, *self._running[key]

    def _ticker(self, asked: Asked, done: list[int]) -> Callable[[int], None]:
        """What a segment tells of its rows as it uses them: the site's log has a line for each tenth."""

        def tick(rows: int) -> None:
            done.append(rows)
            self._log_rows(asked.release, sum(done) - rows, sum(done), self._count(asked))

        return tick

    def _count(self, asked: Asked) -> int:
        """How many rows take a step."""
        return self.scan.rows - count_kept(self.scan.rows, asked.kept)

    def _log_rows(self, release: str, before: int, after: int, of: int) -> None:
        if 10 * after // of > 10 * before // of:
            log.info("%s: %s of %s rows done", release, f"{after:,}", f"{of:,}")

    def _report(self, release: str, future: Future[str], done: list[int]) -> str:
        """The result of a running segment if it is there soon, else how far it is."""
        wait([future], PATIENCE)
        if not future.done():
            return write_message({"working": {"rows": sum(done), "of": self.scan.rows}})
        with self._one_at_a_time:
            self._running.pop(release, None)
        return future.result()

    # One message per step

    def _open(self, message: dict[str, Any], text: str) -> str:
        asked, task = self._check_task(message, text, "oracle")
        if asked.noise.compiled(asked.problem) is None:
            raise Refused(f"noise of {self.policy.name!r} must have a compiled form to answer step by step")
        if asked.release not in self._batches:
            order = self._claim(asked)
            self._account.refuse_older(name_reservation(asked.release, self.releases.reserved(asked.release) + AHEAD))
            used = self.releases.resume(asked.release)
            drawn = order, used, self.policy.seed
            self._batches[asked.release] = Batches(task, self._data(asked), *drawn, self._count(asked))
        return write_message({"rows": self.scan.rows})

    def _step(self, message: dict[str, Any], text: str) -> str:
        with refusing():
            checks.only_keys("a request", message, ("kind", "job", "number", "step", "weights"))
            release, step = release_name(message), checks.whole("step", message.get("step"), least=0)
        if (kept := self._account.find(release, step, digest(text))) is not None:
            return kept
        if release not in self._batches:
            return write_message({"closed": release})
        if step != (expected := self.releases.count(release)):
            raise Refused(f"step must be {expected}, the next one, got {step}: steps come in order, each once")
        batches = self._batches[release]
        if batches.next != self.releases.used(release):  # somebody else has answered for this site
            del self._batches[release]
            return write_message({"closed": release})
        with refusing():
            weights = read_vector("weights", message.get("weights"), batches.task.problem.n_features)
        return self._release_step(batches, weights, step, release, digest(text))

    def _release_step(self, batches: Batches, weights: Any, step: int, release: str, request: str) -> str:
        """Use the next batch and keep its answer; if that breaks off, batches are counted anew from what was kept."""
        del self._batches[release]
        if (reserved := self.releases.reserve(release, batches.next)) and self.policy.private:
            self.ledger.claim(name_reservation(release, reserved))
        reply = self._once(lambda: batches.answer(weights) or {"finished": step})
        if "finished" not in (said := read_message(reply)):
            self.releases.keep_step(release, step, request, reply)
        if "failed" not in said:
            self._batches[release] = batches
            self._log_rows(release, batches.done - said.get("rows", 0), batches.done, batches.rows)
        return reply

    # One bit per row

    def _evaluate(self, message: dict[str, Any], text: str) -> str:
        """How many rows kept aside say that a model is right about them."""
        policy = self.policy
        with refusing():
            expect_keys(message, ("kind", "job", "name", *SCHEMA_KEYS, "coef", "intercept", "epsilon"))
            release = f"{checks.text('job', message['job'])}/evaluation"
            epsilon = LabelPrivacy(message["epsilon"]).epsilon
            coef = read_vector("coef", message["coef"], policy.n_features)
            (intercept,) = read_vector("intercept", [message["intercept"]], 1)
        refuse_job(policy, message["name"], policy.modes[0])
        refuse_schema(policy, *(message[key] for key in SCHEMA_KEYS))
        refuse_epsilon(policy, epsilon)
        if self._aside is None:
            raise Refused(f"{policy.name!r} has no rows kept aside to be evaluated on")
        if (kept := self._account.find(release, 0, digest(text))) is not None:
            return self._account.claim_answer(release, kept)
        rows, scan = self._aside.rows, self._aside.scan
        self._account.charge(release, digest(text), f"{policy.name}, kept", self._aside, epsilon)
        options = coef, intercept, policy.row_norm, policy.class_values, epsilon, policy.seed
        reply = self._once(lambda: {"said": count_said(rows, *options), "rows": scan.rows})
        self.releases.keep(release, digest(text), reply)
        return self._account.claim_answer(release, reply)

    # What all share

    def _once(self, release: Callable[[], dict[str, Any]]) -> str:
        """Answer of a release that was charged. A failure is one too, and is kept: tried again, it would tell more."""
        try:
            return write_message(release())
        except Exception:
            return self._fail("a release that was charged failed")

    def _fail(self, what: str) -> str:
        log.exception(what)
        return write_message({"failed": f"{self.policy.name!r} could not answer; its own log says why"})

    def _check_task(
        self, message: dict[str, Any], text: str, mode: str, more: tuple[str, ...] = ()
    ) -> tuple[Asked, Task]:
        """The request and its task, if the policy allows it."""
        with refusing():
            expect_keys(message, (*JOB_KEYS, "task", *more), PART_KEYS)
            task = task_from_dict(message["task"], self.policy.name)
        return check_job(self.policy, message, text, mode, task.noises[0], task.problem), task

    def _claim(self, asked: Asked) -> int:
        """Enter the release of rows of one part, all rows charged before, once; the seed of their order."""
        return self._account.charge_part(asked, self._opened)

    def _data(self, asked: Asked) -> Any:
        job = prepare_site(self.policy, self._opened, asked)
        return job.data(self.policy.classes[1], [self.policy.name], in_memory=False)[self.policy.name]

"""Answers of a crowd: who answered what, how good each worker is, and what the true labels probably are.

learning      `from_answers`: answers in long form -> a `Crowd`, whose labels and flip rates a classifier learns from
text          a crowd in words and as a table
features      what the tasks' features say of their labels, from tasks held out
dawid_skene   the workers' confusions and the tasks' posteriors, by EM
answers       answers in long form as numbers
workers       one worker's errors, and what a label of theirs is worth
"""

from uneven.crowd.learning import Crowd, fit_model, from_answers
from uneven.crowd.text import WORTH, describe_crowd, rank_workers, tabulate_workers
from uneven.crowd.workers import Worker

__all__ = [
    "WORTH",
    "Crowd",
    "Worker",
    "describe_crowd",
    "fit_model",
    "from_answers",
    "rank_workers",
    "tabulate_workers",
]

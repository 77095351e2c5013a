"""Experiments: re-run the paper, go beyond it, and the demo.

panels    what is run: methods, plans, and what varies
running   run a panel and write Parquet, a few runs at a time; continue after an interruption
results   read that Parquet back
claims    the paper's statements about panels, each with a verdict
targets   the same for what is asked for beyond the paper
figures   panels as pictures
outputs   claims, tables and figures as files
suite     `reproduce`: all of the paper; `beyond`: all panels beyond it
demo      every strategy on the sample that comes with the package, and what a few rows without privacy change there
"""

from uneven.experiments.claims import Claim
from uneven.experiments.demo import Compared, Demo, Entry, PublicRows, describe_public_rows, run_demo, write_files
from uneven.experiments.outputs import ACCURACY, describe_baselines, tabulate
from uneven.experiments.results import Results, estimate_mean, format_mean
from uneven.experiments.suite import Outcome, reproduce, run_beyond

__all__ = [
    "ACCURACY",
    "Claim",
    "Compared",
    "Demo",
    "Entry",
    "Outcome",
    "PublicRows",
    "Results",
    "describe_baselines",
    "describe_public_rows",
    "estimate_mean",
    "format_mean",
    "reproduce",
    "run_beyond",
    "run_demo",
    "tabulate",
    "write_files",
]

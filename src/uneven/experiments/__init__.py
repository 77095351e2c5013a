"""Re-run the paper, and what goes beyond it: run, write Parquet, plot, judge.

panel       what a panel of the paper's figure is: methods, plans, and what varies
order       column 1 of the figure: does the order of the data matter?
two_rates   column 2: are two learning rates better than one?
vary_c2     column 3: does noisy data always help?
running     run a panel and write Parquet, a few runs at a time; go on where it was interrupted
results     read that Parquet back
claims      the paper's statements, each with a verdict from the runs' own standard errors
figure      the six panels as one picture
suite       several panels in a row
outputs     claims, tables and figures as files
reproduce   all of the paper: `reproduce`

beyond_panels, beyond_figure, targets and beyond do the same for what goes beyond it.
"""

from uneven.experiments.beyond import beyond
from uneven.experiments.reproduce import reproduce

__all__ = ["beyond", "reproduce"]

"""What the commands do, without the command line.

starting    a first ``sources.toml`` for files of rows
planning    the plan that a fit runs, before it is run
looking     one reading of the files: what is wrong with them, which classes there are, how long the rows are
training    a classifier from a ``sources.toml``, its files streamed
predicting  labels and probabilities for a file of rows, streamed
demo        the main job on the sample that comes with the package
"""

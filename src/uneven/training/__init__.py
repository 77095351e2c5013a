"""From rows and settings to a model: the one way to train, behind the classifier and behind the command line.

rows           rows in pieces, from arrays or files
scan           the first reading: classes, counts, norms, a sample, and the rows themselves if they are few
labels         labels of any kind to -1 and 1
grouping       which source each row is of
norms          how long the rows are, and what scale follows from it
scaling        rows to norm 1, by a public constant or by their root mean square
flips          flip rates estimated from the labels themselves
planning       the plan that a fit runs
charging       what private rows are charged, before anything is computed from them
job            one fit between its stations
convergence    rows without privacy, to convergence
anchoring      what private rows add to them
running        which of these, or single steps
trainer        all of it in turn: `train`
line_search    the paper's search for a better second learning rate
continuation   more rows later
model          a fitted model as plain values
model_file     the same as a readable file
ahead          the plan that a fit will run, before any ε is spent
files          the door for files: `train_files` a ``sources.toml``
scoring        labels and probabilities for a file of rows, in pieces
"""

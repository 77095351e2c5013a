"""From rows and settings to a model: labels, scale, checks, charging, plan, run, result.

files          a classifier from a ``sources.toml``, its files streamed
scan           one reading of the files: what is wrong with them, which classes there are, how long the rows are
planning       the plan that a fit runs, before it is run
scoring        labels and probabilities for a file of rows, streamed
settings       settings of a fit, checked
labels         labels of any kind to -1 and 1
grouping       which source each row is of
scaling        rows to norm 1, by a public constant or by their root mean square
accounts       what private rows are charged
flips          flip rates estimated from the labels themselves
continuation   more rows later
line_search    the paper's search for a better second learning rate
model_file     a fitted model as a readable file
"""

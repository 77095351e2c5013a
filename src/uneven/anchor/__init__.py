"""Sources without privacy as the anchor of a fit.

rows        rows that may be read again and again
objective   their weighted objective and its derivatives
solver      minimises it to convergence
strength    alpha="auto", by cross-validation
folds       its folds, learned together
"""

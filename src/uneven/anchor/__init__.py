"""Sources without privacy as the anchor of a fit.

rows        rows that may be read again and again
solver      their weighted objective, minimised to convergence
strength    alpha="auto", by cross-validation
"""

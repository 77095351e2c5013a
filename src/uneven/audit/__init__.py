"""An empirical lower bound on ε: draw releases of two inputs, and see how well they can be told apart.

table      `audit_all`: every mechanism, ε and dimension
auditing   `audit`: look on some draws, test on others
pairs      inputs that a release should hide
drawing    releases, as a site makes them and as the engine does
events     what the releases of two inputs are told apart by, and the bound that counting it gives

An audit finds flaws; it does not prove privacy. A bound above the stated ε is a violation, up to the confidence; one
below it says only that these inputs and these events did not show more.
"""

from uneven.audit.auditing import Audit, audit
from uneven.audit.drawing import DRAWN_BY
from uneven.audit.table import AUDITED, audit_all

__all__ = ["AUDITED", "DRAWN_BY", "Audit", "audit", "audit_all"]

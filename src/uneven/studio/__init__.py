"""The web planner: a thin view over `uneven plan`, and the plain functions behind it.

page         what the browser shows
server       how it is served: on this machine alone, telling nobody
pictures     the pictures of the page
simulation   a small run on the embedded sample: measured beside predicted
document     a sources.toml: shown, edited and written back
purchases    what more rows of each source would change and cost
table        the table of sources, and what if it were another
"""

from uneven.studio.server import refuse_missing_extra, serve

__all__ = ["refuse_missing_extra", "serve"]

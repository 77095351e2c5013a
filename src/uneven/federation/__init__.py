"""The same plan where the rows live: sites keep their rows, and what travels are weights and counts.

policy      what a site holds and allows, and why it refuses the rest
messages    requests and replies as text
requests    a site's requests: keys, names, refusals
segments    the steps of one source, all at once or one at a time
releases    what a site has released
sums        several sites without privacy as one anchor, by sums over their rows
anchors     what a site without privacy says, and how private ones add to it
rows        the rows of a site, checked
charging    a site's account: rows are charged first, and released once
kept        what rows that take no step tell at a site
site        a site: rows, policy, ledger, and its answers
calls       asks a site, and asks again
jobs        a job of the server: its progress, plan and requests
asking      asks the sites without privacy for the anchor
calibrating asks the sites for the shares of the classes and the length of the weights
server      asks the sites in the plan's order, and goes on after a crash
scores      one randomised bit of each row kept aside
evaluation  a model's accuracy over sites
kits        certificates
cells       NVFlare as transport
rehearsal   all of it on one machine
"""

from typing import TYPE_CHECKING

from uneven.fronts import open_lazily

if TYPE_CHECKING:
    from uneven.federation.calls import Ask, Tell
    from uneven.federation.cells import open_server, open_site
    from uneven.federation.evaluation import evaluate_sites
    from uneven.federation.kits import AUTHORITY, SERVER, Kit, make_kits
    from uneven.federation.policy import policy_to_text, read_policy
    from uneven.federation.rehearsal import describe_features, make_sites, run_sites
    from uneven.federation.server import Federated, federate
    from uneven.federation.site import Site
else:
    __getattr__, __dir__, __all__ = open_lazily(__name__)

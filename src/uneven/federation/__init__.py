"""The same plan where the rows live: sites keep their rows, and what travels are weights and counts.

policy      what a site holds and allows, and why it refuses the rest
messages    requests and replies as text
segments    the steps of one source, all at once or one at a time
releases    what a site has released
site        a site: rows, policy, ledger, and its answers
"""

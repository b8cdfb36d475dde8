"""Probes: small measurements of one claim each.

operator   is relocation exact, and does it drift?
windows    reorder, sliding-window survival and recall (paper section 5, Table 1)
"""

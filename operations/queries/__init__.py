"""Every read there is: one module a page family. They return frozen rows, never models.

Pages of 50 by keyset, counts capped at 1 000, and as many queries for a page of 50 as for a page of one.
"""

from __future__ import annotations

CAP = 1000
"""Counting stops here: a count that nobody reads to the end must not cost a scan."""
PAGE = 50

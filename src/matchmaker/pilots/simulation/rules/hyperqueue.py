"""HyperQueue's automatic allocation: each allocation queue keeps a backlog while tasks wait.

As its documentation has it (``docs/deployment/allocation.md``): for each allocation queue it
submits as many allocations as are needed for the waiting tasks that its workers could run, but
never has more than ``--backlog`` of them queued. The default of the backlog is 1; 10 is taken here,
since a backlog of one starts a pilot a delay at each site. A worker ends after five minutes without
a task. Rate limits, and the pause of a queue after three allocations that fail, are left out.
"""

from __future__ import annotations

import numpy as np

from matchmaker.pilots.policy.snapshot import Decision
from matchmaker.pilots.simulation.rules.view import View

BACKLOG = 10


def backlog(view: View, seed: int) -> Decision:
    """Keeps up to ten pilots queued wherever jobs wait that fit."""
    wanted = np.minimum(view.waiting @ view.fits, BACKLOG)
    return Decision(submissions=view.submitting(wanted - view.queued, "the backlog is not full"))

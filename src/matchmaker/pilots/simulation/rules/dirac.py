"""DIRAC's SiteDirector: each queue counts all jobs that it could run, less its waiting pilots.

As its source has it (``WorkloadManagementSystem/Agent/SiteDirector.py``): in each cycle every queue
by itself asks for the jobs in task queues that match it, subtracts the pilots that wait at this
queue, and submits the rest: no more than the slots that the computing element reports, and no more
than ``MaxPilotsToSubmit``, 100 by default. What other queues were sent for the same jobs does not
count. Slots are the queue's limits here; where it has none, DIRAC's own limit (``MaxWaitingJobs``,
10 by default where nothing else is known) is left out, as sites set it far higher.
"""

from __future__ import annotations

import numpy as np

from matchmaker.pilots.policy.snapshot import Decision
from matchmaker.pilots.simulation.rules.view import View

MOST = 100
"""How many pilots are submitted to a queue in a cycle at most: MaxPilotsToSubmit."""


def site_director(view: View, seed: int) -> Decision:
    """Jobs that match a queue less the pilots that wait there."""
    missing = view.waiting @ view.fits - view.queued
    return Decision(
        submissions=view.submitting(np.minimum(missing, MOST), "jobs match and no pilot waits")
    )

"""TaskVine's factory, one a site: workers for all tasks, few of them waiting to connect.

As its source has it (``batch_job/src/vine_factory.c``): a factory needs as many workers as there
are tasks, waiting and running; it subtracts the workers that it submitted, and those of other
factories if more are connected than it submitted itself. It never lets more than
``--workers-per-cycle``, 5 by default, wait to connect. A worker ends after five minutes without a
task; the factory ends none. Its least and most workers, 5 and 100 by default, are left out: they
are for one cluster.
"""

from __future__ import annotations

import numpy as np

from matchmaker.pilots.policy.snapshot import Decision
from matchmaker.pilots.simulation.rules.view import View

WORKERS_PER_CYCLE = 5


def factory(view: View, seed: int) -> Decision:
    """Tasks less workers, with at most five workers of a site waiting to connect."""
    submitted = view.pilots
    connected = int(view.idle.sum() + view.busy.sum())
    missing = (view.waiting + view.running) @ view.fits - submitted
    coming = submitted - connected
    missing = np.where(coming < 0, missing + coming, missing)
    coming = np.maximum(coming, 0)
    missing = np.minimum(missing, np.maximum(WORKERS_PER_CYCLE - coming, 0))
    return Decision(submissions=view.submitting(missing, "more tasks than workers"))

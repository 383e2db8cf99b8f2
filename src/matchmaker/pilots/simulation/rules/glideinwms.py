"""The glideinWMS frontend: demand shared among the sites that match, a third of it at a time.

As its source has it (``frontend/glideinFrontendElement.py`` and ``glideinFrontendLib.py``): the
idle jobs of a kind are divided by the number of entries that match them, the parts of an entry are
added and rounded up; its idle glideins are subtracted. Of what is left it asks for a third ("it
takes a few cycles to stabilize"), but at least one glidein, and the factory keeps that many
*queued*. It also asks for no more glideins in all than 1.15 times the jobs that would run there,
and one. The limits and curbs on totals, which are thousands by default, and the reserve are left
out.
"""

from __future__ import annotations

import numpy as np

from matchmaker.pilots.policy.snapshot import Decision
from matchmaker.pilots.simulation.rules.view import View

RAMP_UP_ATTENUATION = 3
FRACTION_RUNNING = 1.15


def frontend(view: View, seed: int) -> Decision:
    """Keeps a third of the unmet share of the demand queued at each site."""
    sites = np.maximum(view.fits.sum(axis=1), 1)
    share = np.ceil((view.waiting / sites) @ view.fits - 1e-9)
    unmet = np.maximum(share - view.idle, 0)
    wanted = np.where(unmet > 0, np.maximum(unmet // RAMP_UP_ATTENUATION, 1), 0)
    most = np.floor((unmet + view.busy) * FRACTION_RUNNING + 1)
    missing = np.minimum(wanted - view.queued, most - view.pilots)
    return Decision(submissions=view.submitting(missing, "a third of the site's share is not met"))

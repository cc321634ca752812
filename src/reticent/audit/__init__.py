# SPDX-License-Identifier: Apache-2.0
"""Trust, but verify: does an agent keep its promise of privacy?

Three ways to find out, each able to see what the others cannot:

* :func:`replay` carries out the privacy proof on the running code: same noise on neighbouring users, movement against
  the declared sensitivity, and noise moved so that everything published must be the same;
* :func:`check_noise` and :func:`check_source` test the noise's law: scale, shape, independence, freshness;
* :func:`audit` attacks: a canary user, the best score an adversary can compute, a lower bound on ε with confidence; and
  it looks for noise that is missing or repeated, however rarely.

:func:`monitor` is an audit that may be looked at after every run; in a running service :class:`NoiseMonitor` watches
dedicated canary places for ever (:mod:`reticent.audit.monitoring`).

:func:`check_refusals` tries what a deployment must refuse. ``docs/measurements/planted-bugs.md`` says which mistake is
caught by which check.

What an agent's family has to bring is in :mod:`reticent.audit.hooks`.
"""

from reticent.audit.attack import DEFAULT_CONFIDENCE, Attack, Audit, audit
from reticent.audit.bounds import Bound, Evidence, lower_bounds
from reticent.audit.distribution import check_noise, check_source, noise_findings, promised_scales
from reticent.audit.hooks import Neighbours, OwnReleases, OwnReplay
from reticent.audit.monitoring import Monitoring, canary_noise, monitor, noise_monitor
from reticent.audit.refusals import check_refusals
from reticent.audit.releases import play_releases
from reticent.audit.replay import replay, seen_as, user_of
from reticent.audit.response import Response, probe
from reticent.audit.sequential import GuessMonitor, NoiseMonitor
from reticent.audit.subject import Subject
from reticent.audit.worst_pair import realised_mu, worst_pair
from reticent.privacy.neighbouring_datasets import Pair, Replay, Scores

__all__ = [
    "DEFAULT_CONFIDENCE",
    "Attack",
    "Audit",
    "Bound",
    "Evidence",
    "GuessMonitor",
    "Monitoring",
    "Neighbours",
    "NoiseMonitor",
    "OwnReleases",
    "OwnReplay",
    "Pair",
    "Replay",
    "Response",
    "Scores",
    "Subject",
    "audit",
    "canary_noise",
    "check_noise",
    "check_refusals",
    "check_source",
    "lower_bounds",
    "monitor",
    "noise_findings",
    "noise_monitor",
    "play_releases",
    "probe",
    "promised_scales",
    "realised_mu",
    "replay",
    "seen_as",
    "user_of",
    "worst_pair",
]

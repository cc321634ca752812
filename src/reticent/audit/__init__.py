"""Trust, but verify: does an agent keep its promise of privacy?

Three ways to find out, each able to see what the others cannot:

* :func:`replay` carries out the privacy proof on the running code: same noise on neighbouring users, movement against
  the declared sensitivity, and noise moved so that everything published must be the same;
* :func:`check_noise` and :func:`check_source` test the noise's law: scale, shape, independence, freshness;
* :func:`audit` attacks: a canary user, the best score an adversary can compute, a lower bound on ε with confidence.

:func:`check_refusals` tries what a deployment must refuse. ``docs/audit.md`` says which mistake is caught by which.
"""

from reticent.audit.attack import DEFAULT_CONFIDENCE, Attack, Audit, audit
from reticent.audit.bounds import Bound, Evidence, lower_bounds
from reticent.audit.distribution import check_noise, check_source
from reticent.audit.neighbours import Pair, realised_mu, trajectory_pair, trajectory_plan, worst_pair
from reticent.audit.refusals import check_refusals
from reticent.audit.releases import play_releases
from reticent.audit.replay import Replay, replay, seen_as, user_of
from reticent.audit.response import Response, probe
from reticent.audit.subject import Subject

__all__ = [
    "DEFAULT_CONFIDENCE",
    "Attack",
    "Audit",
    "Bound",
    "Evidence",
    "Pair",
    "Replay",
    "Response",
    "Subject",
    "audit",
    "check_noise",
    "check_refusals",
    "check_source",
    "lower_bounds",
    "play_releases",
    "probe",
    "realised_mu",
    "replay",
    "seen_as",
    "trajectory_pair",
    "trajectory_plan",
    "user_of",
    "worst_pair",
]

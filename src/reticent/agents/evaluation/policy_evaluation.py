# SPDX-License-Identifier: Apache-2.0
r"""Private evaluation of a fixed policy by Monte-Carlo least squares: LSW and LSL (Balle, Gomrokchi and Precup 2016).

m users follow one policy. A user's trajectory visits some of N *places* (states; or step, state and action), and their
first visit of place j is followed by the return :math:`F_{x,j}\in[-V_j,V_j]`. With features :math:`\phi_j\in\mathbb R^d`:

* **LSW**, least squares with fixed weights w: :math:`\theta=\arg\min\sum_jw_j(\bar F_j-\phi_j^\top\theta)^2`, where
  :math:`\bar F_j` is the mean return of the :math:`c_j` users who visited j, and 0 if none did.
* **LSL**, least squares with a ridge: :math:`\theta=\arg\min\sum_x\sum_{j\in x}\rho_j(F_{x,j}-\phi_j^\top\theta)^2
  +\tfrac\lambda2\|\theta\|^2`.

**Neighbours** are two data sets of m trajectories that differ in one of them, which may be replaced by any other. Places
may be put into *groups* of which a trajectory visits at most one place each, as with the steps of an episode; without
groups every place is one of its own and a trajectory may visit any set.

Both estimates are published once, with noise in proportion to a smooth bound on their local sensitivity
(:mod:`reticent.agents.evaluation.smooth_sensitivity`), of the form :math:`S=\max_ke^{-\beta k}B_k` where :math:`B_k`
bounds the sensitivity of all data sets that differ from X in k trajectories. It is β-smooth because :math:`B_k(X)\le
B_{k+1}(X')`.

**LSW.** Exchanging a trajectory moves :math:`\bar F_j` by at most :math:`2V_j/\max(c_j,1)`: a mean of c numbers of
which one is exchanged, added or taken away. So, with :math:`W=\mathrm{diag}(w)`,

.. math:: B_k=\|(W^{1/2}\Phi)^\dagger\|\,\Big(\sum_g m_g\max_{j\in g}w_j\frac{4V_j^2}{\max(c_j-k,1)^2}\Big)^{1/2},

where :math:`m_g` is 2, for the place that is left and the one that is entered, or 1 in a group of one place. The
paper's is this without groups.

**LSL.** Let :math:`A=\sum_jc_j\rho_j\phi_j\phi_j^\top+\tfrac\lambda2I`. If x is exchanged for x', then with residuals
:math:`e=F-\phi^\top\theta` under the *old* θ, :math:`\theta'-\theta=A'^{-1}\big(\sum_{j\in x'}\rho_j\phi_je_j'
-\sum_{j\in x}\rho_j\phi_je_j\big)`. Comparing θ with 0 gives :math:`\tfrac\lambda2\|\theta\|^2\le\sum_jc_j\rho_jV_j^2`,
which k exchanges raise to at most :math:`T_k=\sum_g\min(\sum_{j\in g}c_j\rho_jV_j^2+kM_g,\,mM_g)` with
:math:`M_g=\max_{j\in g}\rho_jV_j^2`. Hence

.. math:: B_k=\frac4\lambda\sqrt{a^\top Ca},\qquad
          a_g=\max_{j\in g}\rho_j\|\phi_j\|\big(V_j+\|\phi_j\|\sqrt{2T_k/\lambda}\big),

with :math:`C_{gg'}` the largest cosine between features of the two groups. The paper bounds the same two sums by
operator norms and needs λ to be above one of them; this needs nothing of λ but that it is positive.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.agents.evaluation.smooth_sensitivity import smooth_noise
from reticent.errors import InvalidInput
from reticent.runtime import on_device

__all__ = ["Evaluation", "evaluate_lsl", "evaluate_lsw", "make_evaluation", "summarise"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Evaluation:
    """What is public about an evaluation; build it with :func:`make_evaluation`.

    Attributes:
      features: ``(N, d)``.
      weights: w or ρ, ``(N,)``.
      bound: V, ``(N,)``.
      ridge: λ; 0 for LSW.
      inverse: :math:`(W^{1/2}\\Phi)^\\dagger W^{1/2}`, ``(d, N)``, and ``inverse_norm`` that of its first factor; of LSW.
      cosines: C, ``(G, G)``.
      group: which group a place is in, ``(N,)``.
      twice: m_g, ``(G,)``.
      beta, multiplier: of the smooth noise.
      trajectories: m.
    """

    features: Array
    weights: Array
    bound: Array
    ridge: Array
    inverse: Array
    inverse_norm: Array
    cosines: Array
    group: Array
    twice: Array
    beta: Array
    multiplier: Array
    trajectories: int = dataclasses.field(metadata={"static": True})
    regularised: bool = dataclasses.field(metadata={"static": True})

    @property
    def dimension(self) -> int:
        return int(self.features.shape[1])

    def estimate(self, visits: Array, sums: Array) -> Array:
        """θ from how often each place was visited and the sum of the returns there: raw, ``(d,)``."""
        if not self.regularised:
            return self.inverse @ (sums / jnp.maximum(visits, 1))
        weighted = self.features * self.weights[:, None]
        gram = (weighted * visits[:, None]).T @ self.features + self.ridge / 2 * jnp.eye(self.dimension)
        solved: Array = jnp.linalg.solve(gram, weighted.T @ sums)
        return solved

    def sensitivity(self, visits: Array, distance: Array | int = 0) -> Array:
        """B_k: a bound on the sensitivity of every data set that differs from this one in k = ``distance`` users."""
        if not self.regularised:
            moved = 2 * self.bound / jnp.maximum(visits - distance, 1)
            each = self._largest(self.weights * moved**2)
            return self.inverse_norm * jnp.sqrt((self.twice * each).sum())
        power = self.weights * self.bound**2
        most = self._largest(power)
        so_far = jax.ops.segment_sum(visits * power, self.group, len(self.twice))
        total = jnp.minimum(so_far + distance * most, self.trajectories * most).sum()
        length = jnp.linalg.norm(self.features, axis=1)
        reach = self._largest(self.weights * length * (self.bound + length * jnp.sqrt(2 * total / self.ridge)))
        return 4 / self.ridge * jnp.sqrt(reach @ self.cosines @ reach)

    def smooth(self, visits: Array) -> Array:
        """S: the β-smooth bound. A function of raw data, not for publication."""

        def further(distance: Array, largest: Array) -> Array:
            return jnp.maximum(largest, jnp.exp(-self.beta * distance) * self.sensitivity(visits, distance))

        start = self.sensitivity(visits)
        largest: Array = jax.lax.fori_loop(1, self.trajectories + 1, further, start)
        return largest

    def publish(self, visits: Array, sums: Array, noise: Array) -> Array:
        """θ with noise; ``noise`` is standard Gaussian, ``(d,)``, and its scale S stays here."""
        return self.estimate(visits, sums) + self.multiplier * self.smooth(visits) * noise

    def _largest(self, numbers: Array) -> Array:
        return jax.ops.segment_max(numbers, self.group, len(self.twice))


def make_evaluation(
    features: Any,
    weights: Any,
    bound: Any,
    trajectories: int,
    epsilon: float,
    delta: float,
    *,
    ridge: float | None = None,
    groups: Any | None = None,
) -> Evaluation:
    """Check and build an :class:`Evaluation`; with ``ridge`` it is LSL, without LSW.

    Raises:
      InvalidInput: a shape does not fit, a number is outside its domain, or LSW's features are not independent.
    """
    phi = np.asarray(features, dtype=np.float64)
    if phi.ndim != 2 or not np.isfinite(phi).all():
        raise InvalidInput("features.shape", phi.shape, "(N, d), all finite", "give one feature vector per place")
    places = len(phi)
    w, v = (np.broadcast_to(np.asarray(given, dtype=np.float64), places) for given in (weights, bound))
    for field, numbers in (("weights", w), ("bound", v)):
        if not ((numbers > 0).all() and np.isfinite(numbers).all()):
            raise InvalidInput(field, numbers.min(), "finite and above 0", "leave out places that do not count")
    if trajectories < 1:
        raise InvalidInput("trajectories", trajectories, "at least 1", "give the number of users m")
    if ridge is not None and not 0 < ridge < float("inf"):
        raise InvalidInput("ridge", ridge, "a finite number above 0", "about the square root of the number of users")
    group = np.arange(places) if groups is None else np.asarray(groups, dtype=np.int64)
    if group.shape != (places,) or set(group.tolist()) != set(range(int(group.max()) + 1)):
        raise InvalidInput("groups", group.shape, f"({places},), numbered from 0 without gaps", "renumber the groups")
    root = np.sqrt(w)[:, None]
    if ridge is None and np.linalg.matrix_rank(root * phi) < phi.shape[1]:
        raise InvalidInput("features", "dependent", "of full column rank for LSW", "drop features, or use LSL")
    inverse = np.linalg.pinv(root * phi)
    count = int(group.max()) + 1
    unit = phi / np.maximum(np.linalg.norm(phi, axis=1, keepdims=True), 1e-300)
    cosines = np.zeros((count, count))
    np.maximum.at(cosines, (group[:, None], group[None, :]), np.abs(unit @ unit.T))
    noise = smooth_noise(epsilon, delta, phi.shape[1])
    return Evaluation(
        features=on_device(phi),
        weights=on_device(w),
        bound=jnp.asarray(v),
        ridge=jnp.asarray(float(ridge or 0.0)),
        inverse=jnp.asarray(inverse * root.T),
        inverse_norm=jnp.asarray(np.linalg.norm(inverse, 2)),
        cosines=jnp.asarray(np.where(cosines > 1e-12, np.minimum(cosines, 1.0), 0.0)),
        group=on_device(group),
        twice=jnp.asarray(np.minimum(np.bincount(group), 2).astype(np.float64)),
        beta=jnp.asarray(noise.beta),
        multiplier=jnp.asarray(noise.multiplier),
        trajectories=int(trajectories),
        regularised=ridge is not None,
    )


def summarise(returns: Any, bound: Any) -> tuple[Array, Array]:
    """Visits and summed returns per place, ``(N,)`` each, of ``returns`` ``(m, N)``: NaN where a place is not visited.

    Returns are clipped to their declared bound: the sensitivity rests on it.
    """
    table = jnp.asarray(returns)
    visited = ~jnp.isnan(table)
    clipped = jnp.clip(jnp.where(visited, table, 0.0), -jnp.asarray(bound), jnp.asarray(bound))
    return visited.sum(axis=0).astype(table.dtype), clipped.sum(axis=0)


def evaluate_lsw(
    returns: Any,
    features: Any,
    weights: Any,
    epsilon: float,
    delta: float,
    key: Array,
    *,
    bound: Any = 1.0,
    groups: Any | None = None,
) -> Array:
    """DP-LSW: value weights ``(d,)`` of the policy that made ``returns`` ``(m, N)``, NaN where a place is not visited.

    Formal guarantee. (ε, δ)-DP with respect to replacing one trajectory (one row); the number of rows is public.
    ``key`` is simulated randomness: it protects no one.
    """
    problem = make_evaluation(features, weights, bound, len(returns), epsilon, delta, groups=groups)
    return problem.publish(*summarise(returns, problem.bound), jax.random.normal(key, (problem.dimension,)))


def evaluate_lsl(
    returns: Any,
    features: Any,
    weights: Any,
    epsilon: float,
    delta: float,
    key: Array,
    *,
    ridge: float,
    bound: Any = 1.0,
    groups: Any | None = None,
) -> Array:
    """DP-LSL: as :func:`evaluate_lsw`, with ρ = ``weights`` and the ridge λ; features may be dependent."""
    problem = make_evaluation(features, weights, bound, len(returns), epsilon, delta, ridge=ridge, groups=groups)
    return problem.publish(*summarise(returns, problem.bound), jax.random.normal(key, (problem.dimension,)))

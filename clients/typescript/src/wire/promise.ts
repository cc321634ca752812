// SPDX-License-Identifier: Apache-2.0
/**
 * A device trusts no other party with its noise: what one report reveals at most, worked out here from the rules it would follow.
 *
 * How strongly a noised contribution tells two users apart, μ, is the form's business; it holds whatever model, values
 * and bounds the service sends, since the form clips to these bounds itself. Here μ becomes ε at a δ, by bisection over
 * the exact curve of the Gaussian mechanism.
 *
 * Discrete noise on the rules' own grid is not quite Gaussian, and its share of δ is reserved here. With s_i the scale of
 * coordinate i in grid steps, N reports are within total variation T = ½√(exp(N Σ 1/143s_i⁴) − 1) of rounded Gaussians
 * (all s_i ≥ 2¹⁰, which is checked), so that ε holds at δ if δ_μ(ε) + (1 + e^ε)T ≤ δ.
 */

import { InvalidInput } from "./errors.js";
import { TAIL, requireExact, requireFine } from "./grid.js";
import type { Model } from "./model.js";

/** Relative excess over a demanded ε that passes: rounding of two accountants, not a matter of privacy. */
export const SLACK = 1e-6;

/**
 * Refuse rules under which so many `reports` could reveal more than (`epsilon`, `delta`); null asks for any noise at all.
 *
 * Also refused is a grid on which the discrete noise would not be what it is accounted as, or sums not exact.
 */
export function requirePromise(model: Model, epsilon: number | null, delta: number, reports: number): void {
  const { form, noiseScale, grid, bounds } = model.rules;
  requireFine(noiseScale.data, grid);
  const strongest = epsilon === null ? form.strength(model.sizes, model.rules) : reportEpsilon(model, delta, reports);
  const limit = epsilon === null ? Infinity : epsilon * (1 + SLACK);
  if (!(Number.isFinite(strongest) && strongest <= limit)) {
    const whose = reports === 1 ? "a report" : `${reports} reports`;
    const wanted = epsilon === null ? "finite" : `at most ${epsilon} at δ = ${delta}`;
    const remedy = "do not send; the service asks for less noise than it was trusted to";
    throw new InvalidInput(`ε of ${whose} under the service's rules`, strongest.toPrecision(4), wanted, remedy);
  }
  const largest = form.largest(model.sizes, bounds).data;
  requireExact(largest.reduce((most, value, i) => Math.max(most, (value + TAIL * noiseScale.data[i]!) / grid), 0));
}

/**
 * The ε of a user's `reports` at `delta`, between any two users; infinite if a number that can differ has no noise.
 *
 * Each has noise of its own, so that their strengths add up in squares. What discrete noise takes of δ is in it.
 */
export function reportEpsilon(model: Model, delta: number, reports: number): number {
  const mu = Math.sqrt(reports) * model.rules.form.strength(model.sizes, model.rules);
  return epsilonOf(mu, delta, discreteDistance(model, reports));
}

/** T above: how far the noise of `reports` on the rules' grid may be from rounded Gaussian noise. */
export function discreteDistance(model: Model, reports: number): number {
  const { noiseScale, grid } = model.rules;
  let exponent = 0;
  for (const scale of noiseScale.data) if (scale > 0) exponent += reports / (143 * (scale / grid) ** 4);
  return exponent < 1 ? 0.5 * Math.sqrt(Math.expm1(exponent)) : 1;
}

/**
 * The least ε for which noise at total variation `distance` T from a Gaussian mechanism of strength `mu` is
 * (ε, `delta`)-DP, by bisection from above; infinite if there is none.
 *
 * f(ε) = δ_μ(ε) + (1 + e^ε)T has the derivative e^ε(T − Φ̄(ε/μ + μ/2)): it falls until that tail is T, and rises ever
 * after. So the first ε with f ≤ δ lies before that point or nowhere.
 */
export function epsilonOf(mu: number, delta: number, distance: number): number {
  if (!Number.isFinite(mu)) return Infinity;
  if (mu === 0) return 0;
  const reserve = (epsilon: number) => (distance === 0 ? 0 : (1 + Math.exp(epsilon)) * distance);
  const enough = (epsilon: number) => deltaOf(mu, epsilon) + reserve(epsilon) <= delta;
  const reached = (epsilon: number) => (
    enough(epsilon) || (distance > 0 && upperTail(epsilon / mu + mu / 2) <= distance)
  );
  if (enough(0)) return 0;
  // Concentrated DP is never below the exact curve, so it is where the search starts.
  let [low, high] = [0, (mu * mu) / 2 + mu * Math.sqrt(2 * Math.log(1 / delta))];
  while (!reached(high)) [low, high] = [high, 2 * high];
  for (let turn = 0; turn < 200; turn++) {
    const middle = (low + high) / 2;
    if (reached(middle)) high = middle;
    else low = middle;
  }
  return enough(high) ? high : Infinity;
}

/** δ(ε) of the Gaussian mechanism. The second term has a huge factor and a tiny tail, so their logarithms meet first. */
function deltaOf(mu: number, epsilon: number): number {
  const [first, tail] = [upperTail(epsilon / mu - mu / 2), upperTail(epsilon / mu + mu / 2)];
  return first - (tail > 0 ? Math.exp(epsilon + Math.log(tail)) : 0);
}

function upperTail(x: number): number {
  return erfc(x / Math.SQRT2) / 2;
}

const SERIES_UP_TO = 2;

/**
 * The complementary error function, to a relative error below 1e-13; JavaScript has none.
 *
 * Near 0 by erf x = 2/√π · e^(−x²) Σ (2x²)ⁿ x / (1·3·5···(2n+1)), whose terms are all positive; beyond 2 by the continued
 * fraction √π e^(x²) erfc x = 1/(x + ½/(x + 1/(x + 3/2/(x + …)))), from its far end.
 */
export function erfc(x: number): number {
  if (x < 0) return 2 - erfc(-x);
  const scale = Math.exp(-x * x) / Math.sqrt(Math.PI);
  if (x < SERIES_UP_TO) {
    let [term, sum] = [x, x];
    for (let n = 1; term > sum * Number.EPSILON / 4; n++) {
      term *= (2 * x * x) / (2 * n + 1);
      sum += term;
    }
    return 1 - 2 * scale * sum;
  }
  let rest = x;
  for (let n = 160; n >= 1; n--) rest = x + n / 2 / rest;
  return scale / rest;
}

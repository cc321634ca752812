// SPDX-License-Identifier: Apache-2.0
/**
 * A device trusts nobody with its noise: what one report reveals at most, worked out here from the rules it would follow.
 *
 * How strongly a noised contribution tells two users apart, μ, is the form's business; it holds whatever model, values
 * and bounds the service sends, since the form clips to these bounds itself. Here μ becomes ε at a δ, by bisection over
 * the exact curve of the Gaussian mechanism.
 */

import { InvalidInput } from "./errors.js";
import { TAIL, requireExact, requireFine } from "./grid.js";
import type { Model } from "./model.js";

/** Relative excess over a demanded ε that passes: rounding of two accountants, not a matter of privacy. */
export const SLACK = 1e-6;

/**
 * Refuse rules under which a report could reveal more than (`epsilon`, `delta`); null asks for any noise at all.
 *
 * Also refused is a grid on which the discrete noise would not be what it is accounted as, or sums not exact.
 */
export function requirePromise(model: Model, epsilon: number | null, delta: number): void {
  const strongest = reportEpsilon(model, delta);
  const limit = epsilon === null ? Infinity : epsilon * (1 + SLACK);
  if (!(Number.isFinite(strongest) && strongest <= limit)) {
    const wanted = epsilon === null ? "finite" : `at most ${epsilon} at δ = ${delta}`;
    const remedy = "do not send; the service asks for less noise than it was trusted to";
    throw new InvalidInput("ε of a report under the service's rules", strongest.toPrecision(4), wanted, remedy);
  }
  const { form, noiseScale, grid, bounds } = model.rules;
  requireFine(noiseScale.data, grid);
  const largest = form.largest(model.sizes, bounds).data;
  requireExact(largest.reduce((most, value, i) => Math.max(most, (value + TAIL * noiseScale.data[i]!) / grid), 0));
}

/** The ε of one report at `delta`, between any two users; infinite if a number that can differ has no noise. */
export function reportEpsilon(model: Model, delta: number): number {
  return epsilonOf(model.rules.form.strength(model.sizes, model.rules), delta);
}

/** The least ε for which a Gaussian mechanism of strength `mu` is (ε, `delta`)-DP, by bisection from above. */
export function epsilonOf(mu: number, delta: number): number {
  if (!Number.isFinite(mu)) return Infinity;
  if (mu === 0 || deltaOf(mu, 0) <= delta) return 0;
  // Concentrated DP is never below the exact curve, so it is where the search starts.
  let [low, high] = [0, (mu * mu) / 2 + mu * Math.sqrt(2 * Math.log(1 / delta))];
  for (let turn = 0; turn < 200; turn++) {
    const middle = (low + high) / 2;
    if (deltaOf(mu, middle) <= delta) high = middle;
    else low = middle;
  }
  return high;
}

/** δ(ε) of the Gaussian mechanism. The second term has a huge factor and a tiny tail, so their logarithms meet first. */
function deltaOf(mu: number, epsilon: number): number {
  const first = erfc((epsilon / mu - mu / 2) / Math.SQRT2) / 2;
  const tail = erfc((epsilon / mu + mu / 2) / Math.SQRT2) / 2;
  return first - (tail > 0 ? Math.exp(epsilon + Math.log(tail)) : 0);
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

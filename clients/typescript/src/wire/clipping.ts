// SPDX-License-Identifier: Apache-2.0
/** Clips: what makes a declared bound true. An assumption that is not enforced is a leak. */

const SMALLEST_SQUARE_ROOT = Math.sqrt(2 ** -1022);

/**
 * The vector, scaled to 2-norm at most `bound`; a shorter one as it is.
 *
 * Formal guarantee. The result has norm at most `bound` in exact arithmetic, whatever comes in: the factor is shaved by
 * the rounding error of the norm. Entries that are not finite count as 0 (one NaN from one user would otherwise spoil the
 * sum of all), and so do those whose square would be lost, which would pass a bound of 0.
 */
export function clipNorm(x: Float64Array, bound: number): Float64Array {
  const kept = x.map((entry) => (Number.isFinite(entry) && Math.abs(entry) > SMALLEST_SQUARE_ROOT ? entry : 0));
  const square = kept.reduce((sum, entry) => sum + entry * entry, 0);
  // Rounding of a sum of n squares, its root and the two products is below (n/2 + 3) units.
  const limit = bound * (1 - (x.length + 4) * Number.EPSILON);
  if (square <= limit * limit) return kept;
  // An infinite norm makes the vector 0, which is within every bound.
  const factor = limit / Math.sqrt(square);
  return kept.map((entry) => entry * factor);
}

/**
 * Clipped to [`low`, `high`]; what is missing or no number becomes `low`, so that nothing outside the interval is ever
 * counted, and nothing is refused.
 */
export function clipInterval(x: unknown, low: number, high: number): number {
  const number = numberOf(x);
  return Math.min(Math.max(Number.isNaN(number) ? low : number, low), high);
}

/** One value of a user as a number; NaN if it is missing or none. Words are none, whatever they spell. */
export function numberOf(value: unknown): number {
  return typeof value === "number" || typeof value === "boolean" || typeof value === "bigint" ? Number(value) : NaN;
}

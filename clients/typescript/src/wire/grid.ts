// SPDX-License-Identifier: Apache-2.0
/**
 * The only rounding: numbers as whole multiples of a public power of two, on either side of the wire.
 *
 * Each *user's* clipped statistics are rounded before anything is summed, so that all sums are exact and the order of
 * additions cannot show. Two things must hold for that, and both are checked when they matter, not assumed:
 *
 * - exact: every integer stays below 2⁵³ grid steps, so that it is a floating-point number as it stands;
 * - fine: noise has a standard deviation of at least 2¹⁰ grid steps wherever there is any, from where on the discrete
 *   Gaussian's distance from the Gaussian is proven to be negligible.
 */

import type { Floats, Integers } from "./arrays.js";
import { InvalidInput } from "./errors.js";
import { fractionOf } from "./fractions.js";

/** From here on, not every integer is a floating-point number. */
export const LARGEST_STEPS = 2 ** 53;

/** The coarsest grid accepted under Gaussian noise is σ/2¹⁰. */
export const MINIMUM_BITS = 10;

/** Standard deviations that noise stays within: exceeded with probability below 1e-37. */
export const TAIL = 13;

/** The largest σ in grid steps: {@link TAIL} of them are below {@link LARGEST_STEPS}. */
export const LARGEST_SCALE = 2 ** 49;

/** Whole multiples of `grid`, the nearest, ties to even: a deterministic function of each coordinate alone. */
export function quantize(values: Floats, grid: number): Integers {
  const step = requireGrid(grid);
  // Exact up to the rounding itself: a division by a power of two.
  return whole(values, (value) => nearest(value / step));
}

/**
 * Whole multiples of `grid`, rounded down or up by chance: ⌊x/g + v⌋, v uniform on [0, 1).
 *
 * Right on average, which a coarse grid makes necessary. The sensitivity is that of rounding to the nearest, since v does
 * not depend on the user's data and neighbours may be compared at the same v.
 */
export function roundAt(values: Floats, grid: number, uniforms: Float64Array): Integers {
  const step = requireGrid(grid);
  return whole(values, (value, place) => Math.floor(value / step + uniforms[place]!));
}

/** `grid`, if it is a power of two. */
export function requireGrid(grid: number): number {
  const numerator = Number.isFinite(grid) && grid > 0 ? fractionOf(grid).numerator : 0n;
  if (numerator === 0n || (numerator & (numerator - 1n)) !== 0n) {
    throw new InvalidInput("report.grid", grid, "a power of two", "ask the service's operator");
  }
  return grid;
}

/** Refuse a grid that is too coarse for the noise on it, or too fine for exact sums; a scale of 0 is no noise. */
export function requireFine(scale: Float64Array, grid: number): void {
  if (!scale.every((value) => Number.isFinite(value) && value >= 0)) {
    throw new InvalidInput("noise scale", "negative or not finite", "finite and at least 0", "do not use these rules");
  }
  let [least, most] = [Infinity, 0];
  for (const value of scale) {
    if (value > 0) least = Math.min(least, value);
    most = Math.max(most, value);
  }
  if (least < grid * 2 ** MINIMUM_BITS) {
    throw new InvalidInput("grid", grid, `at most ${least * 2 ** -MINIMUM_BITS}`, "do not send; the grid is too coarse");
  }
  if (most > grid * LARGEST_SCALE) {
    throw new InvalidInput("noise scale", most, `at most ${grid * LARGEST_SCALE}`, "do not send; the grid is too fine");
  }
}

/** Refuse contributions of up to `most` grid steps that might reach 2⁵³: a public matter. */
export function requireExact(most: number): void {
  if (!(most < LARGEST_STEPS)) {
    const found = `so fine that a report may have 2^${Math.log2(most).toFixed(1)} steps`;
    throw new InvalidInput("grid", found, "so that all stay below 2^53", "do not send; ask the service's operator");
  }
}

/** Rounded steps as integers, exactly. Apply it to *clipped* statistics: then it cannot fail, and says nothing. */
function whole(values: Floats, steps: (value: number, place: number) => number): Integers {
  const data = new BigInt64Array(values.data.length);
  values.data.forEach((value, place) => {
    const rounded = steps(value, place);
    if (!(Math.abs(rounded) < LARGEST_STEPS)) {
      throw new InvalidInput("values", "out of range", "finite and below 2^53 grid steps", "clip before rounding");
    }
    data[place] = BigInt(rounded);
  });
  return { shape: values.shape, data };
}

function nearest(x: number): number {
  const size = Math.abs(x);
  const below = Math.floor(size);
  const rest = size - below; // exact, as every digit of it is one of x's
  const up = rest > 0.5 || (rest === 0.5 && below % 2 === 1);
  return Math.sign(x) * (up ? below + 1 : below);
}

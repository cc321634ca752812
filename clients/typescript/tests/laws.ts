// SPDX-License-Identifier: Apache-2.0
/** What tests of noise need of statistics. Every test here has a false-alarm rate of at most {@link FALSE_ALARM}. */

import { erfc } from "../src/wire/promise.js";

export const FALSE_ALARM = 1e-6;

/** 4.8916 standard deviations leave half of {@link FALSE_ALARM} above them. */
const NORMAL_QUANTILE = 4.8916;

/** The normal distribution function. */
export function normalBelow(x: number): number {
  return erfc(-x / Math.SQRT2) / 2;
}

/** Whether a sum of so many squares of unit Gaussians may be this (Wilson and Hilferty, and a little more). */
export function squaresFit(squares: number, degrees: number): boolean {
  const spread = Math.sqrt(2 / (9 * degrees));
  const at = (normal: number) => degrees * (1 - spread ** 2 + normal * spread) ** 3;
  return squares > 0.99 * at(-NORMAL_QUANTILE) && squares < 1.01 * at(NORMAL_QUANTILE);
}

/** Pearson's test; cells must have more than 50 expected draws, where the limit law holds well. */
export function pearsonFits(counts: number[], expected: number[]): boolean {
  if (Math.min(...expected) < 50 || counts.length !== expected.length) throw new Error("cells are too small");
  const statistic = counts.reduce((sum, count, i) => sum + (count - expected[i]!) ** 2 / expected[i]!, 0);
  const degrees = counts.length - 1;
  const spread = Math.sqrt(2 / (9 * degrees));
  return statistic < 1.01 * degrees * (1 - spread ** 2 + NORMAL_QUANTILE * spread) ** 3;
}

/** Whether `count` successes of `draws` may be Bin(draws, chance): either tail by itself at half the rate, exactly. */
export function binomialFits(count: number, draws: number, chance: number): boolean {
  const ratio = chance / (1 - chance);
  let mass = Math.exp(draws * Math.log1p(-chance));
  let below = 0; // P(X < count)
  for (let k = 0; k < count; k++) {
    below += mass;
    mass *= ((draws - k) / (k + 1)) * ratio;
  }
  const upTo = below + mass;
  return upTo > FALSE_ALARM / 2 && 1 - below > FALSE_ALARM / 2;
}

/** How often each cell of 0 … size − 1 occurs. */
export function countCells(cells: Iterable<number>, size: number): number[] {
  const counts = Array<number>(size).fill(0);
  for (const cell of cells) counts[cell]!++;
  return counts;
}

// SPDX-License-Identifier: Apache-2.0
/**
 * Exact discrete Gaussian noise on a device: integers in, integers out, no floating-point number on the way.
 *
 * N_Z(0, s²), P(k) ∝ e^(−k²/2s²), by rejection from a discrete Laplace law, which is itself made of coins of probability
 * e^(−γ) with rational γ (Canonne, Kamath and Steinke 2020, algorithms 1 to 3). Such a coin needs no value of e^(−γ): the
 * number of successes in a row of coins γ/1, γ/2, γ/3, … is even with exactly that probability.
 *
 * Formal guarantee. Given uniform random integers, every law here is exact, not approximate: nothing is rounded, nothing
 * is cut off. Time does depend on the noise that is drawn (as in every rejection sampler): who can time a device to the
 * microsecond is not covered.
 */

import type { Floats, Integers } from "./wire/arrays.js";
import { InvalidInput } from "./wire/errors.js";
import { type Fraction, fraction, fractionOf, quotient } from "./wire/fractions.js";
import { LARGEST_SCALE } from "./wire/grid.js";
import { type Uniform, freshUniform } from "./wire/randomness.js";

/** Independent integers of scale `scale / grid`, coordinate by coordinate, the quotient being exact; 0 where it is 0. */
export function draw(scale: Floats, grid: number): Integers {
  const possible = scale.data.every((value) => Number.isFinite(value) && value >= 0);
  if (!possible || !(grid > 0 && Number.isFinite(grid))) {
    const bound = "a finite number of at least 0";
    throw new InvalidInput("noise scale", "negative or not finite", bound, "ask the service's operator");
  }
  const unit = fractionOf(grid);
  const uniform = freshUniform();
  const laws = new Map<number, DiscreteGaussian>();
  const data = new BigInt64Array(scale.data.length);
  scale.data.forEach((value, place) => {
    if (value === 0) return;
    let law = laws.get(value);
    if (law === undefined) laws.set(value, (law = DiscreteGaussian.of(quotient(fractionOf(value), unit))));
    data[place] = law.draw(uniform);
  });
  return { shape: scale.shape, data };
}

/** The law of scale s, with s² = `numerator / denominator` and proposals from a Laplace law of scale `width`. */
export class DiscreteGaussian {
  private constructor(
    readonly numerator: bigint,
    readonly denominator: bigint,
    readonly width: bigint,
  ) {}

  /** The law of this scale; `width` is ⌊s⌋ + 1, which accepts about three proposals in four. */
  static of(scale: Fraction): DiscreteGaussian {
    const { numerator, denominator } = scale;
    if (numerator <= 0n || numerator > BigInt(LARGEST_SCALE) * denominator) {
      const bound = `above 0 and at most ${LARGEST_SCALE} grid units`;
      throw new InvalidInput("noise scale", `${numerator}/${denominator}`, bound, "use a coarser grid");
    }
    const square = fraction(numerator * numerator, denominator * denominator);
    return new DiscreteGaussian(square.numerator, square.denominator, numerator / denominator + 1n);
  }

  /** One draw: a proposal y is kept with probability exp(−(|y| − s²/t)²/2s²), t being the width. */
  draw(uniform: Uniform): bigint {
    const { numerator: square, denominator: unit, width } = this;
    // (|y| − s²/t)² / 2s² with s² = square/unit, over one denominator.
    const below = 2n * square * unit * width * width;
    for (;;) {
      const proposal = discreteLaplace(width, uniform);
      const size = proposal < 0n ? -proposal : proposal;
      if (exponentialCoin((size * width * unit - square) ** 2n, below, uniform)) return proposal;
    }
  }
}

/**
 * One draw of P(k) ∝ e^(−|k|/t), t being `width`.
 *
 * Its size is u + t·v: u among 0 … t − 1 is kept with probability e^(−u/t), v counts successes of e^(−1) coins.
 */
export function discreteLaplace(width: bigint, uniform: Uniform): bigint {
  for (;;) {
    const fine = uniform(width);
    if (!shortCoin(fine, width, uniform)) continue;
    let coarse = 0n;
    while (shortCoin(1n, 1n, uniform)) coarse++;
    const size = fine + width * coarse;
    if (uniform(2n) === 0n) return size;
    if (size !== 0n) return -size; // minus zero is zero again, and must not count twice
  }
}

/** True with probability e^(−γ), γ = `above / below` ≥ 0: one coin per whole unit, one for the rest. */
export function exponentialCoin(above: bigint, below: bigint, uniform: Uniform): boolean {
  for (let whole = above / below; whole > 0n; whole--) {
    if (!shortCoin(1n, 1n, uniform)) return false;
  }
  return shortCoin(above % below, below, uniform);
}

/**
 * True with probability e^(−γ) for 0 ≤ γ ≤ 1.
 *
 * Coins γ/1, γ/2, … all succeed up to the k-th with probability γᵏ/k!, so their run is of even length with probability
 * Σ(−γ)ᵏ/k! = e^(−γ).
 */
function shortCoin(above: bigint, below: bigint, uniform: Uniform): boolean {
  let run = 0n;
  while (uniform(below * (run + 1n)) < above) run++;
  return run % 2n === 0n;
}

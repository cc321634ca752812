// SPDX-License-Identifier: Apache-2.0
/** Rational numbers in lowest terms, of integers without bound: what exact noise is computed with. */

export interface Fraction {
  readonly numerator: bigint;
  /** Above 0. */
  readonly denominator: bigint;
}

/** `numerator / denominator` in lowest terms; both at least 0, the second above. */
export function fraction(numerator: bigint, denominator: bigint): Fraction {
  let [a, b] = [numerator, denominator];
  while (b !== 0n) [a, b] = [b, a % b];
  return { numerator: numerator / a, denominator: denominator / a };
}

/** A finite floating-point number of at least 0 as the fraction that it is. */
export function fractionOf(value: number): Fraction {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, value);
  const bits = view.getBigUint64(0);
  const [stated, mantissa] = [Number(bits >> 52n), bits & ((1n << 52n) - 1n)];
  const [significand, exponent] = stated === 0 ? [mantissa, -1074] : [mantissa | (1n << 52n), stated - 1075];
  return exponent >= 0
    ? fraction(significand << BigInt(exponent), 1n)
    : fraction(significand, 1n << BigInt(-exponent));
}

/** a / b; `b` above 0. */
export function quotient(a: Fraction, b: Fraction): Fraction {
  return fraction(a.numerator * b.denominator, a.denominator * b.numerator);
}

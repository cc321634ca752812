// SPDX-License-Identifier: Apache-2.0
/**
 * Symmetric matrices as vectors of the same length: the upper triangle, off-diagonal entries times √2.
 *
 * Packing is an isometry, so the Frobenius sensitivity of a matrix is the 2-norm sensitivity of its vector.
 */

/** d(d+1)/2, the length of a packed symmetric d × d matrix. */
export function packedSize(dimension: number): number {
  return (dimension * (dimension + 1)) / 2;
}

/** x xᵀ, packed, row by row of the upper triangle. */
export function packedSquare(x: Float64Array): Float64Array {
  const packed = new Float64Array(packedSize(x.length));
  let place = 0;
  for (let i = 0; i < x.length; i++) {
    for (let j = i; j < x.length; j++) packed[place++] = x[i]! * x[j]! * (i === j ? 1 : Math.SQRT2);
  }
  return packed;
}

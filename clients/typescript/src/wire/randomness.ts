// SPDX-License-Identifier: Apache-2.0
/**
 * Uniform numbers of the operating system's entropy (`crypto.getRandomValues`).
 *
 * There is no seed, and nothing is kept from one draw of noise to the next: what was fetched for one is used once, erased,
 * and the rest forgotten with it. So there is nothing to log, to restore, or to share between pages.
 */

const MOST_BYTES = 65_536; // that one call gives
const WORDS = 256; // of 64 bits, fetched at a time: a call costs about as much as filling these

/** A uniform integer from 0 to n − 1, given n above 0. */
export type Uniform = (n: bigint) => bigint;

/** A source of exactly uniform integers, for one draw of noise: as many random bits as n has, until they are below n. */
export function freshUniform(): Uniform {
  const fetched = new BigUint64Array(WORDS);
  let next = WORDS;
  const word = () => {
    if (next === WORDS) {
      crypto.getRandomValues(fetched);
      next = 0;
    }
    const value = fetched[next]!;
    fetched[next++] = 0n;
    return value;
  };
  return (n) => {
    const bits = bitLength(n);
    const spare = BigInt((64 - (bits % 64)) % 64);
    for (;;) {
      let value = word();
      for (let left = bits - 64; left > 0; left -= 64) value = (value << 64n) | word();
      value >>= spare;
      if (value < n) return value;
    }
  };
}

/** How many binary digits n above 0 has. */
function bitLength(n: bigint): number {
  const small = Number(BigInt.asUintN(32, n));
  if (n === BigInt(small)) return 32 - Math.clz32(small);
  const digits = n.toString(16);
  return 4 * digits.length - Math.clz32(parseInt(digits[0]!, 16)) + 28;
}

/** A uniform number in [0, 1), a multiple of 2⁻⁵³. */
export function uniform53(): number {
  const [high, low] = crypto.getRandomValues(new Uint32Array(2));
  return ((high! >>> 5) * 2 ** 26 + (low! >>> 6)) * 2 ** -53;
}

/** How many of `count` fair coins come up heads. */
export function coinHeads(count: number): number {
  let heads = 0;
  for (let left = count; left > 0; left -= 8 * MOST_BYTES) {
    const flips = Math.min(left, 8 * MOST_BYTES);
    const bytes = crypto.getRandomValues(new Uint8Array(Math.ceil(flips / 8)));
    if (flips % 8 !== 0) bytes[bytes.length - 1]! &= (1 << (flips % 8)) - 1;
    for (let byte of bytes) for (; byte !== 0; byte &= byte - 1) heads++;
  }
  return heads;
}

/** A fresh name of 32 hexadecimal digits. */
export function randomName(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

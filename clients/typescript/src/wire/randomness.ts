/**
 * Uniform numbers of the operating system's entropy (`crypto.getRandomValues`), drawn when they are needed.
 *
 * There is no seed and no buffer, so there is nothing to log, to restore, or to share between pages.
 */

const MOST_BYTES = 65_536; // that one call gives

/** A uniform integer from 0 to n − 1, given n above 0. */
export type Uniform = (n: bigint) => bigint;

/** Exactly uniform: as many random bits as n has, until they are below n. */
export function randomBelow(n: bigint): bigint {
  const digits = n.toString(16);
  const bits = 4 * digits.length - Math.clz32(parseInt(digits[0]!, 16)) + 28;
  const words = new BigUint64Array(Math.ceil(bits / 64));
  const spare = BigInt(64 * words.length - bits);
  for (;;) {
    crypto.getRandomValues(words);
    let value = 0n;
    for (const word of words) value = (value << 64n) | word;
    value >>= spare;
    if (value < n) return value;
  }
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

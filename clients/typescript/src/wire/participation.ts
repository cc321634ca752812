// SPDX-License-Identifier: Apache-2.0
/** When a user who returns may contribute: the one rule that simulation, service and devices ask. */

/** How often a user may contribute: `contributions` in all, `perRound` in one round, rounds at least `gap` apart. */
export interface Pattern {
  readonly contributions: number;
  readonly perRound: number;
  readonly gap: number;
}

/** Whether a user with contributions in the rounds `earlier` may have one more in round `round`. */
export function mayContribute(pattern: Pattern, earlier: readonly number[], round: number): boolean {
  if (earlier.length >= pattern.contributions) return false;
  const here = earlier.filter((other) => other === round).length;
  return here < pattern.perRound && !earlier.some((other) => other !== round && Math.abs(other - round) < pattern.gap);
}

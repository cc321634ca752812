// SPDX-License-Identifier: Apache-2.0
/**
 * Leaks that must be refused, one a line: what a careless edit of the client would look like.
 *
 * Lines that end in `// refused` must have an error of `tsc` or of `tests/user_values.ts`, all others none;
 * `tests/user_values.test.ts` checks it. Nothing here is run, and no build includes it.
 */

import { Clipped, Raw, Released } from "../src/boundary.js";
import type { Connection } from "../src/connection.js";
import { InvalidInput } from "../src/wire/errors.js";

// -- a branch, which a status, a retry or a grouping would follow -----------------------------------------------------

export function statusByTruth(reward: Raw<number>): number {
  return reward ? 422 : 200; // refused
}

export function retryWhile(state: Clipped<number>): void {
  while (state) break; // refused
}

export function leftOut(state: Raw<number>): boolean {
  return !state; // refused
}

export function refusedIf(reward: Raw<number>): void {
  if (reward) throw new InvalidInput("reward", "out of range", "in [0, 1]", "correct it"); // refused
}

export function bothOrNone(reward: Raw<number>, ready: boolean): unknown {
  return ready && (reward || 0); // refused
}

export function refusedIfLarge(reward: Raw<number>): boolean {
  return reward > 1; // refused
}

export function refusedIfEqual(state: Raw<number>): boolean {
  return state === 3; // refused
}

export function groupedWith(state: Raw<number>, other: Raw<number>): boolean {
  return state === other; // refused
}

export function chosenBy(state: Clipped<number>): string {
  switch (state) { // refused
    default:
      return "a";
  }
}

export function byLength(states: Raw<number[]>): number {
  return states.length; // refused
}

export function oneByOne(states: Raw<number[]>): void {
  for (const _ of states) break; // refused
}

export function lookedUp(state: Clipped<number>): string | undefined {
  return ["a", "b"][state]; // refused
}

export function asAKey(state: Raw<number>, counts: Map<unknown, number>): number | undefined {
  return counts.get(state); // refused
}

export function among(state: Clipped<number>): boolean {
  return [1, 2].includes(state); // refused
}

// -- a text, which a log, an exception or a problem's detail would show ------------------------------------------------

export function logged(reward: Raw<number>): void {
  console.debug("reward", reward); // refused
}

export function loggedWithOthers(rewards: Raw<number>[]): void {
  console.warn(rewards); // refused
}

export function inAText(reward: Raw<number>): string {
  return `the reward is ${reward}`; // refused
}

export function added(reward: Raw<number>): string {
  return "the reward is " + reward; // refused
}

export function asText(state: Raw<number>): string {
  return String(state); // refused
}

export function asJson(state: Clipped<number>): string {
  return JSON.stringify({ state }); // refused
}

export function quotedByARefusal(reward: Raw<number>): InvalidInput {
  return new InvalidInput("reward", reward, "in [0, 1]", "correct it"); // refused
}

export function raised(reward: Raw<number>): never {
  throw new Error(reward); // refused
}

// -- a number that leaves ------------------------------------------------------------------------------------------------

export function asAStatus(state: Clipped<number>): Response {
  return new Response(null, { status: state }); // refused
}

export function asANumber(reward: Clipped<number>): number {
  return reward; // refused
}

export function asASum(reward: Clipped<number>): number {
  return 1 + reward; // refused
}

export async function sentRaw(connection: Connection, state: Clipped<number>): Promise<void> {
  await connection.post("/v1/episodes", { state }); // refused
}

export function sentWithoutNoise(reward: Clipped<number>): Released<number> {
  return reward; // refused
}

export function sentWithoutAClip(reward: Raw<number>): Released<number> {
  return reward.release((value: number) => value); // refused
}

export function joined(states: Raw<number>[]): string {
  return states.join(); // refused
}

// -- the value itself, and its ways on, elsewhere than where they are --------------------------------------------------

export function asserted(reward: Raw<number>): boolean {
  return (reward as unknown as number) > 1; // refused
}

export function thrown(reward: Raw<number>): never {
  throw reward; // refused
}

export function kept(reward: Raw<number> | null): unknown {
  let found = reward;
  found &&= new Raw(1); // refused
  return found;
}

export function decidedElsewhere(state: Clipped<number>): boolean {
  return state.onDevice((value) => value > 3); // refused
}

export function releasedElsewhere(reward: Clipped<number>): Released<number> {
  return reward.release((value) => value); // refused
}

export function handedOn(reward: Clipped<number>): unknown {
  return reward.release; // refused
}

// -- and what is in order ------------------------------------------------------------------------------------------------

export function inOrder(reward: Raw<number>, released: Released<number>, empty: boolean): string {
  const kept: Clipped<number>[] = [];
  kept.push(reward.clip((value) => Math.min(Math.max(value, 0), 1)));
  const shown = empty ? null : kept.at(-1)!;
  if (shown === null || kept.length === 0) return "nothing";
  return released.value > 0.5 ? `${released.value.toFixed(1)}` : String(released.value);
}

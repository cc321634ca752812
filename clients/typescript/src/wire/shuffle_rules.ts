// SPDX-License-Identifier: Apache-2.0
/**
 * What is public about the messages of every round of the shuffle model, and how a user's messages are counted.
 *
 * A user rounds each coordinate of their statistics to the grid, x ∈ {−m, …, m} steps, and sends one-bit messages: x + m
 * ones and m − x zeros, and their share of N fair coin flips. Of messages only two numbers per coordinate matter, how many
 * there are and how many are ones: a {@link Tally}.
 *
 * Users who never send. At a time that was set before, the holder of the round's messages fills every silent place with a
 * dummy: the value 0 and as many fresh coins as the place has. So a batch is always of all s places and has 2sm + N
 * messages, no matter who sent. Deadlines are numbers of admissions, which are public.
 */

import { type Integers, type Shape, readIntegers } from "./arrays.js";
import { type Content, readNumber, readObject } from "./content.js";
import { InvalidInput } from "./errors.js";
import { coinHeads } from "./randomness.js";

/** Messages, counted: for each coordinate how many there are, and how many of them are ones. */
export interface Tally {
  readonly ones: Integers;
  readonly messages: Integers;
}

export class ShuffleRules {
  constructor(
    /** m, the most grid steps that a value can be from 0. */
    readonly reach: Integers,
    /** N, how many coins all users of a round flip together. */
    readonly coins: Integers,
    /** Users of each released round. */
    readonly roundSizes: readonly number[],
    /** The share of a round's places whose coins the promise relies on. */
    readonly honest: number,
  ) {}

  /** The rules in an answer of the service. */
  static read(answer: unknown, shape: Shape): ShuffleRules {
    const content = readObject("report.shuffle", answer);
    return new ShuffleRules(
      readIntegers("report.shuffle.reach", content["reach"], shape),
      readIntegers("report.shuffle.coins", content["coins"], shape),
      readSizes(content),
      readNumber(content, "honest"),
    );
  }

  /** Refuse rules by which a number that can differ between users is hidden by no coin. */
  requireHiding(): void {
    const bare = this.reach.data.some((reach, i) => reach < 0n || this.coins.data[i]! < (reach > 0n ? 1n : 0n));
    if (bare) throw new InvalidInput("report.shuffle.coins", "missing", "above 0 for every value", "do not send");
  }

  /** Users of round `number`, 0-based. */
  size(number: number): number {
    const size = this.roundSizes[number];
    if (size === undefined) {
      throw new InvalidInput("round", number, `from 0 to ${this.roundSizes.length - 1}`, "see the service's model");
    }
    return size;
  }

  /** How many users have been admitted when round `number` has had all its own. */
  end(number: number): number {
    return this.roundSizes.slice(0, number).reduce((sum, size) => sum + size, this.size(number));
  }

  /** At how many admissions a shuffler waits for no more of a round's messages; null after the last round. */
  lastCall(number: number): number | null {
    const following = this.roundSizes[number + 1];
    return following === undefined ? null : this.end(number) + Math.ceil(following / 2);
  }

  /** At how many admissions a round's batch is waited for no longer; null: until the deployment is finished. */
  until(number: number): number | null {
    return number + 1 < this.roundSizes.length ? this.end(number + 1) : null;
  }

  /** What is sent for a silent place: the value 0 and its coins. Fresh coins each time. */
  silent(number: number, within: number): Tally {
    const coins = this.coinsAt(number, within);
    const { shape } = coins;
    const heads = coins.data.map((count) => BigInt(coinHeads(Number(count))));
    return tallyOf({ shape, data: new BigInt64Array(coins.data.length) }, this.reach, { shape, data: heads }, coins);
  }

  /** Round and number within the round, 0-based, of the user who was admitted as number `admission`, 0-based. */
  place(admission: number): { round: number; within: number } {
    let [round, within] = [0, admission];
    while (within >= this.size(round)) within -= this.size(round++);
    return { round, within };
  }

  /** How many coins user `within` of round `number` flips: equal shares, the first ones one more. */
  coinsAt(number: number, within: number): Integers {
    const size = this.roundSizes[number] ?? 0;
    if (!(Number.isInteger(within) && within >= 0 && within < size)) {
      const named = `(${number}, ${within})`;
      throw new InvalidInput("round, number", named, "a place in a round", "ask the service's operator");
    }
    const users = BigInt(size);
    const share = this.coins.data.map((coins) => coins / users + (BigInt(within) < coins % users ? 1n : 0n));
    return { shape: this.coins.shape, data: share };
  }

  /** Refuse messages that user `within` of round `number` cannot have sent. How many they send is public. */
  requireTally(number: number, within: number, tally: Tally): void {
    const coins = this.coinsAt(number, within).data;
    const wanted = this.reach.data.map((reach, i) => 2n * reach + coins[i]!);
    doubled(tally, wanted);
  }

  /** Twice the noisy sum of a round, in grid steps, from a batch of all its `users` places. */
  doubledSum(number: number, users: number, batch: Tally): Integers {
    const size = this.size(number);
    if (users !== size) {
      const remedy = "fill silent places with dummies; post only then";
      throw new InvalidInput("users", users, `${size}, all places of the round`, remedy);
    }
    const all = BigInt(size);
    const wanted = this.coins.data.map((coins, i) => 2n * all * this.reach.data[i]! + coins);
    return doubled(batch, wanted);
  }
}

/** A user's messages, counted: 2·`reach` bits that say `values`, and their `coins`, of which `heads` were ones. */
export function tallyOf(values: Integers, reach: Integers, heads: Integers, coins: Integers): Tally {
  values.data.forEach((value, i) => {
    const limit = reach.data[i]!;
    if (value > limit || value < -limit) {
      throw new InvalidInput("values", "out of range", "grid steps within reach", "clip and round the statistics");
    }
    if (heads.data[i]! < 0n || heads.data[i]! > coins.data[i]!) {
      throw new InvalidInput("coins", "out of range", "at most as many ones as coins", "count what was flipped");
    }
  });
  const { shape } = reach;
  return {
    ones: { shape, data: values.data.map((value, i) => value + reach.data[i]! + heads.data[i]!) },
    messages: { shape, data: reach.data.map((limit, i) => 2n * limit + coins.data[i]!) },
  };
}

/** 2·ones − messages = 2Σx + (2 Bin(c, ½) − c), of a tally that has as many messages as it must. */
function doubled(tally: Tally, wanted: BigInt64Array): Integers {
  const [ones, messages] = [tally.ones.data, tally.messages.data];
  const counted = ones.length === messages.length && messages.length === wanted.length;
  if (!counted || !ones.every((one, i) => one >= 0n && one <= messages[i]!)) {
    throw new InvalidInput("ones", "out of range", "from 0 to the number of messages", "count ones and messages");
  }
  if (!messages.every((count, i) => count === wanted[i])) {
    const remedy = "send every user's values and coins, once";
    throw new InvalidInput("messages", "inconsistent", "as many as the round's users send", remedy);
  }
  return { shape: tally.ones.shape, data: ones.map((one, i) => 2n * one - messages[i]!) };
}

function readSizes(content: Content): number[] {
  const sizes = content["round_sizes"];
  if (!Array.isArray(sizes) || !sizes.every((size) => Number.isSafeInteger(size) && size > 0)) {
    throw new InvalidInput("report.shuffle.round_sizes", "something else", "a list of sizes", "ask its operator");
  }
  return sizes as number[];
}

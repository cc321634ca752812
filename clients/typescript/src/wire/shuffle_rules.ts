/**
 * What is public about the messages of every round of the shuffle model, and how a user's messages are counted.
 *
 * A user rounds each coordinate of her statistics to the grid, x ∈ {−m, …, m} steps, and sends one-bit messages: x + m
 * ones and m − x zeros, and her share of N fair coin flips. Of messages only two numbers per coordinate matter, how many
 * there are and how many are ones: a {@link Tally}.
 *
 * Users who never send. A user's share of a round's coins follows from the round and her number in it: ⌊N/s⌋ or one more,
 * of s users. So n users flip, whoever they are, at least n⌊N/s⌋ coins. A batch of fewer than ⌈ρs⌉ users, ρ being the
 * share `honest` that the promise relies on, is refused.
 */

import { type Integers, type Shape, readIntegers } from "./arrays.js";
import { type Content, readNumber, readObject } from "./content.js";
import { InvalidInput } from "./errors.js";

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
    /** The share of a round's users that must have sent before anything may leave the shuffler. */
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

  /** The fewest users of a round whose batch hides each of them as promised. */
  fewest(number: number): number {
    return Math.ceil(this.honest * this.size(number));
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

  /** Refuse messages that user `within` of round `number` cannot have sent. How many she sends is public. */
  requireTally(number: number, within: number, tally: Tally): void {
    const coins = this.coinsAt(number, within).data;
    const wanted = this.reach.data.map((reach, i) => 2n * reach + coins[i]!);
    doubled(tally, wanted, wanted);
  }

  /** Twice the noisy sum of a round, in grid steps, from a batch of `users` of its users. */
  doubledSum(number: number, users: number, batch: Tally): Integers {
    const size = this.size(number);
    if (!(users >= this.fewest(number) && users <= size)) {
      const bound = `from ${this.fewest(number)} to ${size}, of which the promise relies on the former`;
      throw new InvalidInput("users", users, bound, "wait for more users; post only then");
    }
    const [all, present] = [BigInt(size), BigInt(users)];
    const bounds = this.coins.data.map((coins, i) => present * (2n * this.reach.data[i]! + coins / all));
    const extra = (coins: bigint, most: boolean) => {
      const left = coins % all;
      if (most) return left < present ? left : present;
      return left > all - present ? left - (all - present) : 0n;
    };
    return doubled(
      batch,
      bounds.map((bound, i) => bound + extra(this.coins.data[i]!, false)),
      bounds.map((bound, i) => bound + extra(this.coins.data[i]!, true)),
    );
  }
}

/** A user's messages, counted: 2·`reach` bits that say `values`, and her `coins`, of which `heads` were ones. */
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

/** 2·ones − messages = 2Σx + (2 Bin(c, ½) − c), whoever was missing, of a tally that has as many messages as it can. */
function doubled(tally: Tally, fewest: BigInt64Array, most: BigInt64Array): Integers {
  const [ones, messages] = [tally.ones.data, tally.messages.data];
  const counted = ones.length === messages.length && messages.length === fewest.length;
  if (!counted || !ones.every((one, i) => one >= 0n && one <= messages[i]!)) {
    throw new InvalidInput("ones", "out of range", "from 0 to the number of messages", "count ones and messages");
  }
  if (!messages.every((count, i) => count >= fewest[i]! && count <= most[i]!)) {
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

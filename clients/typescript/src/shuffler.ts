/**
 * A small shuffler in memory: for tests, demonstrations and deployments of one process.
 *
 * It adds up what the users of a round hand over and posts the two sums, once.
 *
 * What it is trusted with. It sees each user's counts, which hide her hardly at all, and it must not look at, keep or pass
 * on anything but sums over a round. It must not belong to whoever runs the service. It must never post two different
 * batches of one round: their difference would be the messages of those who are in one only, without the others' coins. So
 * a batch is fixed before it is first sent, and is the same ever after. When it posts must not depend on what users did:
 * when all have sent, or at a time that was set before.
 */

import type { Connection } from "./connection.js";
import { requireShuffle } from "./messages.js";
import { type Integers, toJson } from "./wire/arrays.js";
import { InvalidInput } from "./wire/errors.js";
import { Model } from "./wire/model.js";
import { randomName } from "./wire/randomness.js";
import type { ShuffleRules } from "./wire/shuffle_rules.js";

/** What was handed over so far, and the batch once it is fixed. */
interface Round {
  readonly ones: BigInt64Array;
  readonly messages: BigInt64Array;
  readonly places: Set<number>;
  batch: object | null;
  posted: boolean;
}

/** Hands a round's sums to the service at `connection`; give `shuffler.take` to clients. */
export class Shuffler {
  private readonly rounds = new Map<number, Round>();
  private known: ShuffleRules | null = null;

  constructor(private readonly connection: Connection) {}

  /**
   * Take the messages of user `within` of round `number`, once; with the last user's the batch is posted.
   *
   * Throws InvalidInput if the place does not exist, the messages are not as many as its user sends, or the round's
   * batch is fixed already (nothing was added); ServiceError or Unreachable if it could not be posted (call again).
   */
  readonly take = async (number: number, within: number, ones: Integers, messages: Integers): Promise<void> => {
    const rules = await this.rules();
    rules.requireTally(number, within, { ones, messages });
    const round = this.round(rules, number);
    if (!round.places.has(within)) {
      if (round.batch !== null) {
        throw new InvalidInput("round", number, "one whose batch is not fixed", "the round is over; do not send");
      }
      round.places.add(within);
      ones.data.forEach((count, i) => (round.ones[i]! += count));
      messages.data.forEach((count, i) => (round.messages[i]! += count));
    }
    if (round.places.size === rules.size(number)) await this.finish(number);
  };

  /** Wait for no more users of a round: fix its batch and post it. May be called again after a failure. */
  async finish(number: number): Promise<void> {
    const rules = await this.rules();
    const round = this.round(rules, number);
    const [users, fewest] = [round.places.size, rules.fewest(number)];
    if (users < fewest) {
      const bound = `at least ${fewest} of ${rules.size(number)} users`;
      throw new InvalidInput(`users of round ${number}`, users, bound, "wait for more of them");
    }
    const { shape } = rules.reach;
    round.batch ??= {
      batch: randomName(), round: number, users,
      ones: toJson({ shape, data: round.ones }), messages: toJson({ shape, data: round.messages }),
    };
    if (round.posted) return;
    await this.connection.post("/v1/batches", round.batch);
    round.posted = true;
  }

  private async rules(): Promise<ShuffleRules> {
    this.known ??= requireShuffle(Model.read(await this.connection.get("/v1/model")));
    return this.known;
  }

  private round(rules: ShuffleRules, number: number): Round {
    let round = this.rounds.get(number);
    if (round === undefined) {
      const size = rules.reach.data.length;
      const [ones, messages] = [new BigInt64Array(size), new BigInt64Array(size)];
      this.rounds.set(number, (round = { ones, messages, places: new Set(), batch: null, posted: false }));
    }
    return round;
  }
}

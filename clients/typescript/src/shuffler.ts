// SPDX-License-Identifier: Apache-2.0
/**
 * A small shuffler in memory: for tests, demonstrations and deployments of one process.
 *
 * It adds up what the users of a round hand over and posts the two sums, once.
 *
 * What it is trusted with. It sees each user's counts, which hide them hardly at all, and it must not look at, keep or pass
 * on anything but sums over a round. It must not belong to the operator of the service. It must never post two different
 * batches of one round: their difference would be the messages of those who are in one only, without the others' coins. So
 * a batch is fixed before it is first sent, and is the same ever after.
 *
 * Silence. When a batch is posted, and how many messages it has, must not depend on what any user does. So it is posted at
 * a deadline, also if all have sent before: `patience` seconds after the service had admitted the last of the round's
 * users, or when half of the next round's have come. Places that are silent then are filled with dummies, the value 0 and
 * as many fresh coins as the place has, and a later sender is turned away.
 *
 * A restore of the service's store takes admissions back: a user who was admitted before it may come again and send again,
 * and two of their vectors would be hidden by the noise for one. So messages carry how often the store had been restored
 * when their user came; when the shuffler finds that the store was restored it throws away all that it holds of before; and it
 * posts the batch of a round only once the service has recorded the round's users, so that every restore brings them back. It
 * looks at the times of `postDue` alone, never because a user sent something: rounds that are full at that look are left alone,
 * and one user would decide whether a round is lost. Messages of users who came after a restore that it has not seen yet wait.
 *
 * After a restart, rounds that were full when it first looked are left alone: their batch may be out already. So `postDue` has
 * to be called before the first user comes. Until then no message is taken: it could be of a round that is left alone, and its
 * user would believe that it was sent. A client with a shuffler that has not looked names no user to the service.
 *
 * Stays. The report of a stay of several visits comes after the last of them, so that `patience` has no default there. A round waits
 * for its stays until half of the next round's users have come, however long `patience` is.
 */

import type { Connection } from "./connection.js";
import { requireShuffle } from "./messages.js";
import { ServiceError } from "./problems.js";
import { type Integers, toJson } from "./wire/arrays.js";
import { readInteger, readObject } from "./wire/content.js";
import { InvalidInput } from "./wire/errors.js";
import { Model } from "./wire/model.js";
import { randomName } from "./wire/randomness.js";
import type { ShuffleRules, Tally } from "./wire/shuffle_rules.js";

/** What the service says when it will never take a batch of this round. */
const GIVEN_UP = ["batch-late", "batch-taken"];

/** Seconds that the last users of a round have by default. */
const PATIENCE = 60;

/** What was handed over so far, when the round was first seen to be full, and the batch once it is fixed. */
interface Round {
  readonly ones: BigInt64Array;
  readonly messages: BigInt64Array;
  readonly places: Set<number>;
  fullSince: number | null;
  batch: object | null;
  over: boolean;
}

/** Hands a round's sums to the service at `connection`; give `shuffler.take` to clients. */
export class Shuffler {
  /** By how often the store had been restored, and round. */
  private readonly held = new Map<number, Map<number, Round>>();
  private known: ShuffleRules | null = null;
  private looked = false;
  private started = false;
  private restores = 0;

  /**
   * `patience` are the seconds that the last users of a round have to play and to send: a public number, 60 by default, and to
   * be given where a stay has several visits.
   */
  constructor(private readonly connection: Connection, private readonly patience: number | null = null) {
    if (patience !== null && !(patience >= 0 && Number.isFinite(patience))) {
      throw new InvalidInput("patience", patience, "a finite number of seconds, at least 0", "60 is the default");
    }
  }

  /**
   * Take the messages of user `within` of round `number`, once. Nothing is posted now, even by the last.
   *
   * `restores` is what the service said when the user came. Throws InvalidInput if it has not been started, the place does not exist, the messages
   * are not as many as its user sends, the round's batch is fixed already, or the service's store was restored since the
   * user came; nothing was added.
   */
  readonly take = Object.assign(
    (number: number, within: number, ones: Integers, messages: Integers, restores = 0): Promise<void> =>
      this.add(number, within, { ones, messages }, restores),
    { requireStarted: (): void => this.requireStarted() },
  );

  private async add(number: number, within: number, tally: Tally, restores: number): Promise<void> {
    this.requireStarted();
    const rules = await this.rules();
    rules.requireTally(number, within, tally);
    if (restores < this.restores) {
      const bound = `${this.restores}, as often as the store was restored`;
      throw new InvalidInput("restores", restores, bound, "the place was lost with the store; do not send");
    }
    const round = this.round(rules, number, restores);
    if (round.places.has(within)) return;
    if (round.batch !== null || round.over) {
      throw new InvalidInput("round", number, "one whose batch is not fixed", "the round is over; do not send");
    }
    round.places.add(within);
    add(round, tally);
  }

  /** Check that it has looked which rounds are full, so that what it takes from now on is posted. */
  requireStarted(): void {
    if (this.started) return;
    const remedy = "await postDue(), and try again: nothing was taken, and the same messages may be sent";
    throw new InvalidInput("shuffler", "not started", "started before the first user comes", remedy);
  }

  /**
   * Post the batch of every round whose deadline has passed; says of which. Asks the service who was admitted.
   *
   * Call it at times that do not depend on what users do, such as every second.
   */
  async postDue(): Promise<number[]> {
    const rules = await this.rules();
    const { admitted, recorded } = await this.look(rules);
    const now = performance.now() / 1000;
    const posted: number[] = [];
    for (let number = 0; number < rules.roundSizes.length && rules.end(number) <= recorded; number++) {
      const round = this.round(rules, number);
      if (round.over) continue;
      round.fullSince ??= now;
      const lastCall = rules.lastCall(number);
      if (now - round.fullSince < (this.patience ?? PATIENCE) && (lastCall === null || admitted < lastCall)) continue;
      await this.post(rules, number);
      posted.push(number);
    }
    return posted;
  }

  /**
   * Wait for no more users of a round: fill its silent places, fix its batch and post it. May be called again.
   *
   * Call it at a time that does not depend on what users do; `postDue` does, at the deadline.
   */
  async finish(number: number): Promise<void> {
    const rules = await this.rules();
    const end = rules.end(number);
    const { recorded } = await this.look(rules);
    if (recorded < end) {
      const bound = `one whose users were admitted and recorded: ${end}, of which ${recorded} are`;
      throw new InvalidInput("round", number, bound, "wait for its users; postDue does");
    }
    await this.post(rules, number);
  }

  /** Fix and post the batch of a round whose users are recorded. */
  private async post(rules: ShuffleRules, number: number): Promise<void> {
    const round = this.round(rules, number);
    const [users, { shape }] = [rules.size(number), rules.reach];
    if (round.batch === null) {
      for (let within = 0; within < users; within++) {
        if (!round.places.has(within)) add(round, rules.silent(number, within));
      }
      round.batch = {
        batch: randomName(), round: number, users, restores: this.restores,
        ones: toJson({ shape, data: round.ones }), messages: toJson({ shape, data: round.messages }),
      };
    }
    if (round.over) return;
    try {
      await this.connection.post("/v1/batches", round.batch);
    } catch (refused) {
      round.over = refused instanceof ServiceError && GIVEN_UP.includes(refused.problem);
      throw refused;
    }
    round.over = true;
  }

  /**
   * How many users the service has admitted, and how many of them every restore of its store brings back.
   *
   * Rounds that are full at the first look may be out already. After a restore everything begins again.
   */
  private async look(rules: ShuffleRules): Promise<{ admitted: number; recorded: number }> {
    const status = readObject("status", await this.connection.get("/v1/status"));
    const admitted = readInteger(status, "admitted");
    const restores = status["restores"] === undefined ? 0 : readInteger(status, "restores");
    const recorded = status["recorded"] == null ? admitted : Math.min(admitted, readInteger(status, "recorded"));
    if (restores !== this.restores) {
      for (const came of [...this.held.keys()]) if (came < restores) this.held.delete(came);
      [this.looked, this.restores] = [false, restores];
    }
    if (!this.looked) {
      this.looked = this.started = true;
      rules.roundSizes.forEach((_, number) => (this.round(rules, number).over = rules.end(number) <= admitted));
    }
    return { admitted, recorded };
  }

  private async rules(): Promise<ShuffleRules> {
    return (this.known ??= this.read(Model.read(await this.connection.get("/v1/model"))));
  }

  private read(model: Model): ShuffleRules {
    const { visits } = model.rules;
    if (visits > 1 && this.patience === null) {
      const remedy = "set it to the seconds from a user's first visit to the last, and some days more";
      throw new InvalidInput("patience", "missing", `given where a stay has ${visits} visits`, remedy);
    }
    return requireShuffle(model);
  }

  private round(rules: ShuffleRules, number: number, restores = this.restores): Round {
    const rounds = this.held.get(restores) ?? new Map<number, Round>();
    this.held.set(restores, rounds);
    let round = rounds.get(number);
    if (round === undefined) {
      const size = rules.reach.data.length;
      const [ones, messages] = [new BigInt64Array(size), new BigInt64Array(size)];
      round = { ones, messages, places: new Set(), fullSince: null, batch: null, over: false };
      rounds.set(number, round);
    }
    return round;
  }
}

function add(round: Round, { ones, messages }: Tally): void {
  ones.data.forEach((count, i) => (round.ones[i]! += count));
  messages.data.forEach((count, i) => (round.messages[i]! += count));
}

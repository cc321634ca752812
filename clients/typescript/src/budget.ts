// SPDX-License-Identifier: Apache-2.0
/**
 * The device's own budget: how often one user reports, whatever a service says.
 *
 * A service that was restored from a backup, lost its store or lies admits the same user again, and a second report with
 * fresh noise could be averaged with the first. So the device counts for itself, in a {@link Store} that outlives the
 * page or the process, and forms no submission beyond `contributions` per user.
 *
 * In the local model the proof counts reports, and nothing but the device can: there is always a budget, by default one
 * report in a store that outlives the process. One that is forgotten must be asked for (`store: new MemoryStore()`).
 *
 * Contract. A submission leaves the device only after it has taken one of its user's places in the store, which can be
 * taken once. What a place belongs to is the user's name and a `scope` that the *app* chose (by default the service's
 * address): nothing that a service says opens a new one. A report of the local model, which is noised, is kept in its
 * place until it is acknowledged, so that a visitor who closes the page and returns sends the same bytes. Trajectories
 * and messages to a shuffler are raw data and are not kept.
 */

import { jsonObject } from "./problems.js";
import type { Submission } from "./submission.js";
import { InvalidInput, ReticentError } from "./wire/errors.js";
import { type Pattern, mayContribute } from "./wire/participation.js";
import { randomName } from "./wire/randomness.js";

/** Where a device keeps what must outlive a page or a process. */
export interface Store {
  /** What is kept under `key`; null if nothing is. */
  get(key: string): Promise<string | null>;
  /** Keep `value` where nothing is kept yet, as one indivisible act; resolves to what is kept afterwards. */
  claim(key: string, value: string): Promise<string>;
  /** Keep `value`, whatever was there. */
  put(key: string, value: string): Promise<void>;
  /** Throws if nothing can be kept; asked before a user is named to a service. */
  check?(): Promise<void>;
}

/** The user's places on this device are used up: nothing was formed, and nothing was sent. */
export class BudgetSpent extends ReticentError {
  override name = "BudgetSpent";

  constructor({ contributions, perRound, gap }: Pattern) {
    const pattern = perRound < contributions || gap > 1 ? `, ${perRound} in a round, ${gap} or more rounds apart` : "";
    super(`this user's reports from this device are at most ${contributions}${pattern}; no other one will be sent`);
  }
}

interface Place {
  /** A fresh name of the process that took it, by which it is known which did. */
  readonly by: string;
  readonly episode: string;
  /** The round that the service said; null if it is unknown, which counts as any. */
  readonly round: number | null;
  /** Kept until it is acknowledged, if it may be kept at all. */
  readonly submission: Submission | null;
}

/** Counts the submissions of users of one app. */
export class Budget {
  constructor(
    private readonly store: Store,
    private readonly scope: string,
    private readonly pattern: Pattern,
  ) {
    for (const [field, least] of [["contributions", 0], ["perRound", 0], ["gap", 1]] as const) {
      if (!Number.isSafeInteger(pattern[field]) || pattern[field] < least) {
        throw new InvalidInput(field, pattern[field], `an integer ≥ ${least}`, "leave it at its default");
      }
    }
  }

  /** How many reports of a user may leave in all. */
  get contributions(): number {
    return this.pattern.contributions;
  }

  /** Check its place before a user is named to a service: throws if nothing can be kept there. */
  async requireUsable(): Promise<void> {
    await this.store.check?.();
  }

  /** How many more reports of `user` may leave. */
  async left(user: string): Promise<number> {
    return this.contributions - (await this.places(user)).length;
  }

  /** Whether one more report of `user` may leave, for round `round`. */
  async allows(user: string, round: number): Promise<boolean> {
    const rounds = (await this.places(user)).map((place) => place.round ?? round);
    return mayContribute(this.pattern, rounds, round);
  }

  /** Take a place for a submission, before it is sent; throws {@link BudgetSpent} if there is none left. */
  async take(user: string, submission: Submission, round: number): Promise<void> {
    const { episode, kind } = submission;
    const mine: Place = { by: randomName(), episode, round, submission: kind === "report" ? submission : null };
    const earlier: number[] = [];
    for (let number = 0; number < this.contributions; number++) {
      const kept = await this.store.get(this.key(user, number));
      // Places are claimed in their order, so that a claim that succeeds has seen all that were before it.
      if (kept === null && !mayContribute(this.pattern, earlier, round)) break;
      const now = read(kept ?? (await this.store.claim(this.key(user, number), JSON.stringify(mine))));
      if (now.by === mine.by) return;
      if (now.episode === episode) break; // an episode has one place, and this one's was taken by another page
      earlier.push(now.round ?? round);
    }
    throw new BudgetSpent(this.pattern);
  }

  /** What was formed for an episode that has taken a place; null if it has none, `submission` null if it is not kept. */
  async placeOf(user: string, episode: string): Promise<Place | null> {
    return (await this.places(user)).find((place) => place.episode === episode) ?? null;
  }

  /** Submissions that have taken a place and were never acknowledged. */
  async pending(user: string): Promise<Submission[]> {
    return (await this.places(user)).flatMap((place) => place.submission ?? []);
  }

  /** The service has the submission of an episode, or will never take it: its bytes are kept no longer, its place is. */
  async settle(user: string, episode: string): Promise<void> {
    const places = await this.places(user);
    const number = places.findIndex((place) => place.episode === episode);
    if (number < 0) return;
    const settled: Place = { ...places[number]!, submission: null };
    await this.store.put(this.key(user, number), JSON.stringify(settled));
  }

  private async places(user: string): Promise<Place[]> {
    const found: Place[] = [];
    for (let number = 0; number < this.contributions; number++) {
      const value = await this.store.get(this.key(user, number));
      if (value === null) break;
      found.push(read(value));
    }
    return found;
  }

  private key(user: string, number: number): string {
    return `reticent budget ${JSON.stringify([this.scope, user, number])}`;
  }
}

/** A place that cannot be read was taken, it is unknown by which process: it counts. */
function read(value: string): Place {
  const { by, episode, round, submission } = jsonObject(value) ?? {};
  return {
    by: String(by), episode: String(episode), round: typeof round === "number" ? round : null,
    submission: (submission as Submission | undefined) ?? null,
  };
}

/** In memory: it forgets when the process ends, so it is for simulations and tests, not for people. */
export class MemoryStore implements Store {
  private readonly kept = new Map<string, string>();

  async get(key: string): Promise<string | null> {
    return this.kept.get(key) ?? null;
  }

  async claim(key: string, value: string): Promise<string> {
    if (!this.kept.has(key)) this.kept.set(key, value);
    return this.kept.get(key)!;
  }

  async put(key: string, value: string): Promise<void> {
    this.kept.set(key, value);
  }
}

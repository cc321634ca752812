// SPDX-License-Identifier: Apache-2.0
/**
 * The device's own budget: how often one user reports, whatever a service says.
 *
 * A service that was restored from a backup, lost its store or lies admits the same user again, and a second report with
 * fresh noise could be averaged with the first. So the device counts for itself, in a {@link Store} that outlives the
 * page or the process, and forms no submission beyond `contributions` per user.
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
import { randomName } from "./wire/randomness.js";

/** Where a device keeps what must outlive a page or a process. */
export interface Store {
  /** What is kept under `key`; null if nothing is. */
  get(key: string): Promise<string | null>;
  /** Keep `value` where nothing is kept yet, as one indivisible act; resolves to what is kept afterwards. */
  claim(key: string, value: string): Promise<string>;
  /** Keep `value`, whatever was there. */
  put(key: string, value: string): Promise<void>;
}

/** The user's places on this device are used up: nothing was formed, and nothing was sent. */
export class BudgetSpent extends ReticentError {
  override name = "BudgetSpent";

  constructor(contributions: number) {
    const times = contributions === 1 ? "once" : `${contributions} times`;
    super(`this user has reported ${times} from this device, which is her budget; no other report will be sent`);
  }
}

interface Place {
  /** A fresh name of whoever took it, by which it is known who did. */
  readonly by: string;
  readonly episode: string;
  /** Kept until it is acknowledged, if it may be kept at all. */
  readonly submission: Submission | null;
}

/** Counts the submissions of users of one app. */
export class Budget {
  constructor(
    private readonly store: Store,
    private readonly scope: string,
    readonly contributions: number,
  ) {
    if (!Number.isSafeInteger(contributions) || contributions < 1) {
      throw new InvalidInput("contributions", contributions, "an integer ≥ 1", "1 is the default");
    }
  }

  /** Whether `user` may not report any more. */
  async spent(user: string): Promise<boolean> {
    return (await this.places(user)).length >= this.contributions;
  }

  /** Take a place for a submission, before it is sent; throws {@link BudgetSpent} if there is none left. */
  async take(user: string, submission: Submission): Promise<void> {
    const { episode, kind } = submission;
    const mine: Place = { by: randomName(), episode, submission: kind === "report" ? submission : null };
    for (let number = 0; number < this.contributions; number++) {
      const now = read(await this.store.claim(this.key(user, number), JSON.stringify(mine)));
      if (now.by === mine.by) return;
      if (now.episode === episode) break; // an episode has one place, and this one's was taken by another page
    }
    throw new BudgetSpent(this.contributions);
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

/** A place that cannot be read was taken, nobody knows by whom: it counts. */
function read(value: string): Place {
  const { by, episode, submission } = jsonObject(value) ?? {};
  return { by: String(by), episode: String(episode), submission: (submission as Submission | undefined) ?? null };
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

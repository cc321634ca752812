// SPDX-License-Identifier: Apache-2.0
/**
 * Stays that last longer than a page: what a device keeps of a user's visits until the one report of all of them.
 *
 * A stay is one episode of several visits (`episode.visits`). An app that is closed between visits gives its client a
 * {@link StayMemory} and goes on with `client.resumeStay`. It is kept in a {@link Store}, such as the browser's database, where
 * the user can see it ({@link StayMemory.show}) and erase it. It is data at rest about the user.
 *
 * Formal guarantee. A stay is reported at most once, whatever happens to the app: where reports are noised on the device,
 * the stay is taken, as one indivisible act, and erased before the report is formed. So of several pages that have the same
 * stay open one reports it, and no second report with other noise can be formed after a crash. In the joint model the same
 * trajectory may be sent again, and the service counts it once. A stay that the user has erased is not reported, also by a page
 * that has it open. Between visits nothing is sent.
 *
 * A stay has to be finished before its ticket expires. By then the service waits for it no longer, so it is not reported:
 * `episode.reason` and `episode.note` say so, and the user is served on. That is a matter of the clock and of when the user comes,
 * which are public, not of what they do.
 */

import type { Store } from "./budget.js";
import { DefaultStore } from "./default_store.js";
import { randomName } from "./wire/randomness.js";

/** Why a stay is not reported: the service waits for it no longer. */
export const EXPIRED = "ticket-expired";

/** Why a stay is not reported: the user has erased it, or another page has reported it. */
export const NOT_KEPT = "stay-not-kept";

/** What the service says when it will never take the report of a stay. */
export const OVER: readonly string[] = ["episode-expired", "round-over"];

export const REMEDY = "the operator should give a `ticket_lifetime` above the length of a stay";

/** One stay: how it was admitted, and what was seen in its finished visits. */
export interface KeptStay {
  readonly opened: Readonly<Record<string, unknown>>;
  readonly states: readonly number[];
  readonly actions: readonly number[];
  readonly rewards: readonly number[];
}

export class StayMemory {
  /** `scope` keeps apps on one device apart; the app chooses it. */
  constructor(private readonly store: Store = new DefaultStore(), private readonly scope: string = "stay") {}

  /** Remember a stay that begins, in the place of what was kept before. */
  async keep(user: string, stay: KeptStay): Promise<void> {
    await this.store.put(this.key(user), JSON.stringify(stay));
  }

  /** Remember one more finished visit; nothing if the stay is not kept any more: what was erased stays so. */
  async goOn(user: string, stay: KeptStay): Promise<void> {
    const episode = String(stay.opened["episode"]);
    if (!(await this.holds(user, episode))) return;
    await this.keep(user, stay);
    // Erased or taken between these two: what was just written goes again.
    if ((await this.store.get(this.taken(user, episode))) !== null) await this.release(user, episode);
  }

  /** A user's open stay; null without one. What was taken to be reported before a crash is erased. */
  async recall(user: string): Promise<KeptStay | null> {
    const kept = await this.show(user);
    if (kept === null || (await this.holds(user, String(kept.opened["episode"])))) return kept;
    await this.erase(user);
    return null;
  }

  /** Whether the stay with this id is kept, and was not taken. */
  async holds(user: string, episode: string): Promise<boolean> {
    const kept = await this.show(user);
    return kept !== null && kept.opened["episode"] === episode && (await this.store.get(this.taken(user, episode))) === null;
  }

  /** Forget the stay with this id to report it; false if it is not kept any more, and may not be reported. */
  async take(user: string, episode: string): Promise<boolean> {
    if (!(await this.holds(user, episode))) return false;
    const mine = randomName();
    const taken = (await this.store.claim(this.taken(user, episode), mine)) === mine;
    await this.release(user, episode);
    return taken;
  }

  /** Forget the stay with this id, if it is the one that is kept. */
  async release(user: string, episode: string): Promise<void> {
    if ((await this.show(user))?.opened["episode"] === episode) await this.erase(user);
  }

  /** What is kept of a user's open stay; null if nothing is. */
  async show(user: string): Promise<KeptStay | null> {
    const kept = await this.store.get(this.key(user));
    return kept ? JSON.parse(kept) : null;
  }

  /** Forget a user's stay; it is not reported then, also by a page that is writing one more visit just now. */
  async erase(user: string): Promise<void> {
    const kept = await this.show(user);
    if (kept !== null) await this.store.claim(this.taken(user, String(kept.opened["episode"])), randomName());
    await this.store.put(this.key(user), "");
  }

  /** Where it is noted that a stay was taken, to be reported or to be forgotten. */
  private taken(user: string, episode: string): string {
    return JSON.stringify(["stay taken", this.scope, user, episode]);
  }

  private key(user: string): string {
    return JSON.stringify(["stay", this.scope, user]);
  }
}

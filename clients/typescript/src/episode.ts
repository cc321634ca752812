// SPDX-License-Identifier: Apache-2.0
/**
 * One user's episode on their device: act, observe, and at the end send what the trust model allows, once.
 *
 * Nothing but actions' requests (if the server acts) leaves before the last step. What is sent at the end is formed once
 * and kept: a retry sends the same bytes, so noise is never drawn twice for one episode, which would let the two be
 * averaged. Before it is sent it takes a place in the device's own budget (`budget.ts`), whatever the service says.
 *
 * What a user did never stops an episode: rewards and states out of range are clipped, since an exception would abandon it
 * and the service would see that nothing came. For the same reason an episode that is left early sends an empty submission
 * where the service may not know.
 */

import { Clipped, Raw } from "./boundary.js";
import { BudgetSpent } from "./budget.js";
import type { Client } from "./client.js";
import { ServiceError } from "./problems.js";
import { EXPIRED, type KeptStay, NOT_KEPT, OVER, REMEDY } from "./stays.js";
import type { Receipt, Submission } from "./submission.js";
import type { Billboard } from "./wire/billboard.js";
import type { Belief } from "./wire/forms/form.js";
import { readFlag, readInteger, readNumber, readText } from "./wire/content.js";
import { InvalidInput } from "./wire/errors.js";
import { randomName } from "./wire/randomness.js";
import { type Trajectory, clipIndex, clipReward } from "./wire/trajectory.js";

/** What an app may say of a state or a reward; what is missing or no number is clipped like any other value. */
type Given = number | null | undefined;

export type Status = "new" | "open" | "counted" | "sent" | "served" | "empty" | "abandoned";

/** Why a user is not learned from although the service would: this device has counted them. */
export const BUDGET_SPENT = "device-budget-spent";

/** A stay that is to be reported is not kept on this device any more: nothing was formed. */
export class StayNotKept extends InvalidInput {
  override name = "StayNotKept";

  constructor() {
    const remedy = "serve the user without a report: the stay was erased, or another page has reported it";
    super("stay", "not kept on this device", "kept until it is reported", remedy);
  }
}

/** One episode; `client.play` opens it and submits it at the end, or do so by yourself. */
export class Episode {
  /**
   * `open`, `counted` (learned from), `sent` (in the shuffler's hands), `served` (finished, but not learned from), `empty`
   * (an empty submission was sent) or `abandoned`.
   */
  status: Status = "new";
  /** The policy version they are served. This and the next four are known once it is open. */
  version = -1;
  /** Number of steps of one visit. */
  horizon = -1;
  /** Visits of their stay, all of which are reported once; 1 where every episode is reported. */
  visits = 1;
  /** Whether they will be learned from, and if not, `reason` why. */
  learning = false;
  reason: string | null = null;
  /** Theirs in their round, 0-based, which may decide what they are served of it; null if they are not learned from. */
  place: number | null = null;
  /**
   * How many states and rewards were out of range so far, and were taken for the nearest that are not. This is about the
   * user: it is for tests on the device, and must not leave it.
   */
  clipped = 0;
  /** With what probability the last action was chosen: it follows from what is published and from their place. */
  probability: number | null = null;
  /** What the service answered, if it was counted. */
  receipt: Receipt | null = null;
  /** Said of an episode that was left early, and of a stay that is not reported. */
  note: string | null = null;

  private token = "";
  private round = -1;
  private reference: number | null = null;
  private restores = 0;
  private billboard: Billboard | null = null;
  private known: Belief | null = null;
  private states: Clipped<number>[] = [];
  private actions: number[] = [];
  private rewards: Clipped<number>[] = [];
  private observed = 0;
  private forming: Promise<Submission> | null = null;
  private empty = false;
  private admission: Readonly<Record<string, unknown>> = {};
  private expiresAt: number | null = null;
  private resuming = false;
  /** Whether this episode has taken its user's place in the budget before a restart. */
  private placed = false;

  /** Made by `client.episode`. `id` is chosen here, so that opening may be repeated safely. */
  constructor(private readonly client: Client, readonly user: string, readonly id: string = randomName()) {}

  /**
   * Ask the service to admit them; safe to call again after a failure.
   *
   * Throws InvalidInput if the service's trust model or noise is not what the client demands (they were not named to it),
   * ServiceError or Unreachable if it refused or did not answer.
   */
  async open(): Promise<this> {
    if (this.status !== "new") {
      throw new InvalidInput("episode", this.status, "new", "start another one with client.episode(user)");
    }
    await this.client.requireTrustworthy();
    return this.opened(await this.client.open(this.user, this.id));
  }

  /** Take the service's answer to the user's admission. */
  async opened(opened: Readonly<Record<string, unknown>>): Promise<this> {
    await this.client.requireRules(opened);
    await this.admitted(opened);
    if (this.client.stays !== null && this.visits > 1) await this.client.stays.keep(this.user, this.finishedVisits());
    return this;
  }

  /** Go on with a stay after its finished visits, as they were kept. */
  async resumed(kept: KeptStay): Promise<this> {
    this.resuming = true;
    await this.admitted(kept.opened);
    const visits = Math.floor(kept.actions.length / this.horizon);
    this.states = kept.states.slice(0, visits * (this.horizon + 1)).map((state) => this.clippedState(new Raw(state)));
    this.actions = kept.actions.slice(0, visits * this.horizon);
    this.rewards = kept.rewards.slice(0, visits * this.horizon).map((one) => new Raw<Given>(one).clip(clipReward));
    for (const [step, action] of this.actions.entries()) {
      const place = step + Math.floor(step / this.horizon);
      this.learn(this.states[place]!, action, this.rewards[step]!, this.states[place + 1]!);
    }
    this.observed = visits * this.horizon;
    return this;
  }

  private async admitted(opened: Readonly<Record<string, unknown>>): Promise<void> {
    const { client } = this;
    this.admission = opened;
    const trust = await client.trust();
    if (opened["trust"] !== trust) {
      const bound = `${trust}, as the service said before`;
      throw new InvalidInput("trust", opened["trust"], bound, "do not send; start again");
    }
    const version = readInteger(opened, "version");
    if (client.act === "device" || trust !== "joint") {
      this.billboard = await client.billboard(version);
      this.known = await client.belief(this.billboard, this.user);
      this.visits = await client.visits(this.billboard);
    }
    this.token = readText(opened, "token");
    this.version = version;
    this.horizon = readInteger(opened, "horizon", 1);
    if (this.billboard !== null && this.billboard.horizon !== this.horizon) {
      const bound = `${this.billboard.horizon}, the billboard's`;
      throw new InvalidInput("horizon", this.horizon, bound, "do not send; ask the service's operator");
    }
    if (readFlag(opened, "learning")) await this.enter(opened);
    else this.reason = String(opened["reason"]);
    this.expiresAt = opened["expires_at"] == null ? null : readNumber(opened, "expires_at");
    this.requireTime();
    this.status = "open";
  }

  /**
   * What this device believes of its own user by now: the probability of each kind, the blend last, or the expected vector
   * of tastes; null where users act by the policy alone. It is about the user: it is for showing it to them, and must not leave the device.
   */
  get belief(): Float64Array | null {
    return this.known?.summary ?? null;
  }

  /** How many steps have been observed. */
  get step(): number {
    return this.observed;
  }

  /** Whether all H steps of all visits have been observed. */
  get complete(): boolean {
    return this.observed === this.horizon * this.visits;
  }

  /** The 0-based visit that the next step belongs to. */
  get visit(): number {
    return Math.floor(this.observed / this.horizon);
  }

  /** Whether this is a stay that is kept on the device and has visits to come. */
  get goesOn(): boolean {
    return this.client.stays !== null && this.visits > 1 && !this.complete;
  }

  /**
   * The action in `state`, by the policy version they are served. Asked again in the same step, it is the same. In a stay the
   * first action after H steps begins the next visit, in whatever state that begins.
   */
  async act(state: Given): Promise<number> {
    this.requireOpen();
    const here = this.clippedState(new Raw(state));
    if (this.complete) {
      throw new InvalidInput("step", this.step, `below ${this.horizon * this.visits}`, "the episode is over");
    }
    const last = this.states.at(-1);
    // The app's mistake, not the user's: it has told the device both.
    const begins = this.states.length === this.visit * (this.horizon + 1);
    if (!begins && last !== undefined && Clipped.allOf([here, last]).onDevice(([now, before]) => now !== before)) {
      throw new InvalidInput("state", "another one", "the one that was observed last", "act where they are");
    }
    if (begins) this.states.push(here);
    if (this.actions.length === this.step) {
      const [action, probability] = await here.onDevice((inside) => this.choose(inside));
      if (this.actions.length === this.step) {
        this.actions.push(action);
        this.probability = probability;
      }
    }
    return this.actions.at(-1)!;
  }

  /**
   * What followed the last action: its reward, clipped to [0, 1], and the state it led to.
   *
   * What is missing or no number counts as 0, and a fraction of a state is dropped: nothing here is refused.
   */
  observe(reward: Given, nextState: Given): void {
    this.requireOpen();
    if (this.actions.length === this.step) {
      throw new InvalidInput("observation", "without an action", "after act()", "call act(state) first");
    }
    const inside = new Raw(reward).clip(this.counted(clipReward));
    const there = this.clippedState(new Raw(nextState));
    this.learn(this.states.at(-1)!, this.actions.at(-1)!, inside, there);
    this.rewards.push(inside);
    this.states.push(there);
    this.observed++;
  }

  /** End it without submitting anything, which the service can see; {@link submitEmpty} does not show it. */
  abandon(): void {
    if (this.status !== "new" && this.status !== "open") return;
    this.status = "abandoned";
    this.forget();
  }

  /**
   * Send what the trust model allows; null if they are not learned from. `client.play` does this at its end.
   *
   * After a failure it may be called again: the same bytes are sent, with the same noise.
   */
  async submit(): Promise<Receipt | null> {
    if (this.over) return this.receipt;
    this.requireOpen();
    if (!this.complete && !this.empty) {
      throw new InvalidInput("steps", this.step, `${this.horizon * this.visits} in all`, "observe every step first");
    }
    return this.send();
  }

  /**
   * End it, at whatever step, by sending what shows nothing of it: leaving looks like staying.
   *
   * Once a submission has been formed there is no other: a second one, with other noise, could be averaged with it.
   */
  async submitEmpty(): Promise<Receipt | null> {
    if (this.over) return this.receipt;
    this.requireOpen();
    this.empty ||= this.forming === null;
    return this.send();
  }

  /**
   * What is sent at the end; formed, and in the local model noised, when first asked for, and then kept.
   *
   * Throws {@link BudgetSpent} if this device has counted the user already.
   */
  async submission(): Promise<Submission> {
    if (this.forming === null) {
      this.requireOpen();
      if (!((this.complete || this.empty) && this.learning)) {
        throw new InvalidInput("episode", "not complete, or not learned from", "both", "see .step and .learning");
      }
      this.forming = this.form();
      // What was lost before anything was formed, such as an answer of the service, may be tried again.
      this.forming.catch((problem) => {
        if (!(problem instanceof BudgetSpent || problem instanceof StayNotKept)) this.forming = null;
      });
    }
    return this.forming;
  }

  // -- inside -----------------------------------------------------------------------------------------------------------

  /** Their place, as the service gave it; none if this device has counted them. */
  private async enter(opened: Readonly<Record<string, unknown>>): Promise<void> {
    const { budget } = this.client;
    const round = readInteger(opened, "round");
    const kept = await budget.placeOf(this.user, this.id);
    // The trajectory of a kept stay is the same again, and the service counts it once.
    this.placed = kept !== null && this.resuming && (await this.client.trust()) === "joint";
    if (kept?.submission) {
      this.forming = Promise.resolve(kept.submission); // formed before a restart, and sent as it is
    } else if (!this.placed && (kept !== null || !(await budget.allows(this.user, round)))) {
      this.reason = BUDGET_SPENT;
      return;
    }
    this.learning = true;
    this.round = round;
    this.place = readInteger(opened, "place");
    this.reference = opened["reference"] == null ? null : readInteger(opened, "reference");
    this.restores = opened["restores"] === undefined ? 0 : readInteger(opened, "restores");
  }

  private async form(): Promise<Submission> {
    const { token, version, round, place } = this;
    const seen = this.empty ? null : this.seen();
    // Public, and first: if the service does not answer, nothing was erased.
    const billboard = await this.client.formedUnder(version, this.reference);
    await this.takeVisits();
    const played = { episode: this.id, token, version, round, place: place ?? -1, seen, restores: this.restores };
    const formed = await this.client.form(played, billboard);
    // Nothing has left yet: if the place is gone, what was formed is forgotten.
    if (!this.placed) await this.client.budget.take(this.user, formed, round);
    return formed;
  }

  /** What was observed, and what was done. */
  private seen(): Clipped<Trajectory> {
    const states = Clipped.allOf(this.states).onDevice((values) => values);
    const rewards = Clipped.allOf(this.rewards).onDevice((values) => values);
    return new Clipped({ states, actions: [...this.actions], rewards, place: this.place });
  }

  private async send(): Promise<Receipt | null> {
    if (this.forming === null) this.requireTime();
    if (this.learning) {
      try {
        const submission = await this.submission();
        this.receipt = await this.client.send(submission);
        await this.client.budget.settle(this.user, this.id);
        this.status = this.empty ? "empty" : submission.kind === "messages" ? "sent" : "counted";
      } catch (problem) {
        if (problem instanceof ServiceError && this.visits > 1 && OVER.includes(problem.problem)) {
          await this.eraseVisits();
          this.note = `the stay is not reported, and kept on this device no longer; ${REMEDY}`;
        }
        if (!(problem instanceof BudgetSpent || problem instanceof StayNotKept)) throw problem;
        this.learning = false;
        this.reason = problem instanceof BudgetSpent ? BUDGET_SPENT : NOT_KEPT;
      }
    }
    if (!this.learning) this.status = "served";
    await this.keep();
    await this.eraseVisits();
    this.forget();
    return this.receipt;
  }

  /** An action, and with what probability it was chosen. */
  private async choose(state: number): Promise<[number, number]> {
    if (this.known !== null) return [this.known.act(this.step % this.horizon, state), 1];
    if (this.billboard !== null) {
      const step = this.step % this.horizon;
      const action = this.billboard.choose(step, state, this.place);
      return [action, this.billboard.probability(step, state, this.place, action)];
    }
    const content = { token: this.token, step: this.step, state };
    const path = `/v1/episodes/${this.id}/actions`;
    const answer = await this.client.connection.post(path, content, "/v1/episodes/{episode}/actions");
    return [readInteger(answer, "action"), readNumber(answer, "probability")];
  }

  private clippedState(state: Raw<Given>): Clipped<number> {
    // Without a billboard, in the joint model, the number of states is unknown here: the service clips to it.
    return state.clip(this.counted((given) => clipIndex(given, this.billboard?.states ?? 2 ** 31)));
  }

  /** The clip, which notes for tests on the device whether it changed anything. */
  private counted(clip: (given: Given) => number): (given: Given) => number {
    return (given) => {
      const inside = clip(given);
      if (inside !== given) this.clipped++;
      return inside;
    };
  }

  private get over(): boolean {
    return this.status === "counted" || this.status === "sent" || this.status === "served" || this.status === "empty";
  }

  private requireOpen(): void {
    if (this.status !== "open") {
      throw new InvalidInput("episode", this.status, "open", "await episode.open(), or use client.play(user, …)");
    }
  }

  /** Remember what this visit told about the user, if the app asked for that; after what is sent was sent. */
  private async keep(): Promise<void> {
    const { memory } = this.client;
    if (memory === null || this.known === null || !this.complete) return;
    await memory.keep(this.user, (await this.client.model()).digest, this.known.likelihoods);
  }

  /** Let the belief take one step, where there is one. */
  private learn(here: Clipped<number>, action: number, earned: Clipped<number>, there: Clipped<number>): void {
    const { known } = this;
    if (known === null) return;
    Clipped.allOf([here, earned, there]).onDevice(([state, reward, following]) => {
      known.observe(state!, action, reward!, following!);
    });
  }

  /** Keep the finished visits of a stay on this device, if the app asked for that; `client.play` does it after each. */
  async keepVisits(): Promise<void> {
    if (this.client.stays !== null && this.visits > 1) await this.client.stays.goOn(this.user, this.finishedVisits());
  }

  private finishedVisits(): KeptStay {
    const steps = this.visit * this.horizon;
    return this.seen().onDevice(({ states, rewards }) => ({
      opened: this.admission,
      states: states.slice(0, steps + this.visit), actions: this.actions.slice(0, steps), rewards: rewards.slice(0, steps),
    }));
  }

  /** Take a kept stay to report it, where noise is drawn for it; elsewhere it is kept until it is counted. */
  private async takeVisits(): Promise<void> {
    const { stays } = this.client;
    if (stays === null || this.visits === 1) return;
    const joint = (await this.client.trust()) === "joint";
    if (!(await (joint ? stays.holds(this.user, this.id) : stays.take(this.user, this.id)))) throw new StayNotKept();
  }

  /** Report nothing of a stay whose ticket has expired by this device's clock, and say so. */
  private requireTime(): void {
    if (!this.learning || this.visits === 1 || this.expiresAt === null || this.expiresAt >= Date.now() / 1000) return;
    const when = new Date(1000 * Math.max(this.expiresAt, 0)).toISOString();
    this.learning = false;
    this.reason = EXPIRED;
    this.note = `the ticket of this stay expired at ${when} by this device's clock: nothing of it is reported, and the user is `
      + `served on; ${REMEDY}`;
  }

  private async eraseVisits(): Promise<void> {
    if (this.visits > 1) await this.client.stays?.release(this.user, this.id);
  }

  /** Raw data are kept no longer than they are needed. */
  private forget(): void {
    this.states = [];
    this.actions = [];
    this.rewards = [];
    this.known = null;
  }
}

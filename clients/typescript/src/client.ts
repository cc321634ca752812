// SPDX-License-Identifier: Apache-2.0
/** A device's or an app's way to the service: users' episodes, with policies and model fetched once and kept. */

import type { BeliefMemory } from "./belief_memory.js";
import { Budget, type Store } from "./budget.js";
import { Connection, type ConnectionOptions } from "./connection.js";
import { DefaultStore } from "./default_store.js";
import { Episode } from "./episode.js";
import { LARGEST_GROUP, MicroBatcher, type MicroBatching } from "./micro_batching.js";
import { type MessageReceiver, requireShuffle } from "./messages.js";
import { Names } from "./names.js";
import { ServiceError } from "./problems.js";
import type { StayMemory } from "./stays.js";
import {
  type Played, type Receipt, type Submission, type Trust, privateSubmission, trajectorySubmission,
} from "./submission.js";
import type { Ticket } from "./tickets.js";
import { readIntegers } from "./wire/arrays.js";
import { Billboard } from "./wire/billboard.js";
import { readInteger, readText } from "./wire/content.js";
import { InvalidInput } from "./wire/errors.js";
import { requireVersion } from "./wire/forms/form.js";
import type { Belief } from "./wire/forms/form.js";
import { Model } from "./wire/model.js";
import { requirePromise } from "./wire/promise.js";
import { randomName } from "./wire/randomness.js";

const TRUSTS: readonly unknown[] = ["joint", "shuffle", "local"] satisfies Trust[];

/** Billboards kept at a time; users of older versions fetch theirs again. */
const VERSIONS_KEPT = 8;

/** Answers after which the same submission will never be taken: unknown, in conflict with another, expired. */
const NEVER = [404, 409, 410];

export interface ClientOptions extends ConnectionOptions {
  /**
   * `device` (the default) chooses actions here from the published policy; `server` asks for each, which shows the service
   * every state and is refused outside the joint model, and where users act on a belief about themselves.
   */
  readonly act?: "device" | "server";
  /**
   * Demand this trust model; by default whatever the service says. A device that was promised the local model should demand
   * it: otherwise a service that says `joint` is sent raw trajectories.
   */
  readonly trust?: Trust;
  /**
   * In the local model, demand that all reports that the budget allows a user (`contributions`) are together
   * (ε, δ)-private; by default any noise will do. The device works it out itself. It cannot with a shuffler: others flip
   * the coins.
   */
  readonly epsilon?: number;
  /** 1e-5 by default. */
  readonly delta?: number;
  /** In the shuffle model, who gets an episode's messages. With one, the client demands the shuffle model. */
  readonly shuffler?: MessageReceiver;
  /**
   * Where the device keeps its own budget: by default the browser's database, or in Node the files of its user. A
   * `MemoryStore` forgets when the process ends: it is for simulated users and tests, not for people.
   */
  readonly store?: Store;
  /** What the budget is for; by default the service's address. Never take it from what a service says. */
  readonly scope?: string;
  /**
   * Where users act on a belief about themselves, keeps it on this device between visits; by default it is forgotten with
   * the episode. Nothing of it is sent.
   */
  readonly memory?: BeliefMemory;
  /**
   * Where a user's visits are reported once, keeps finished visits on this device until then, so that the app may be closed
   * in between; see {@link Client.resumeStay}.
   */
  readonly stays?: StayMemory;
  /** How often one user may report from this device, whatever a service says; 1 by default. */
  readonly contributions?: number;
  /** How many of them for one round; any number by default. */
  readonly perRound?: number;
  /** By how many rounds theirs differ at least; 1 by default. */
  readonly gap?: number;
  /**
   * Have requests that are made within a moment sent together: for a backend that serves many users at once. By default
   * each is sent by itself.
   */
  readonly microBatching?: MicroBatching;
}

/** Talks to one service. `key` is the app's key; null where the app's own backend adds it on the way. */
export class Client {
  readonly act: "device" | "server";
  readonly connection: Connection;
  readonly budget: Budget;
  readonly memory: BeliefMemory | null;
  readonly stays: StayMemory | null;
  private readonly demanded: Trust | null;
  private readonly epsilon: number | null;
  private readonly delta: number;
  private readonly shuffler: MessageReceiver | null;
  private readonly batcher: MicroBatcher | null;
  private readonly billboards = new Map<number, Billboard>();
  private readonly once = new Map<string, Promise<unknown>>();

  constructor(url: string, key: string | null, options: ClientOptions = {}) {
    const { act = "device", trust = null, epsilon = null, delta = 1e-5, shuffler = null, contributions = 1 } = options;
    if (act !== "device" && act !== "server") {
      throw new InvalidInput("act", act, "'device' or 'server'", "device is the default");
    }
    if (epsilon !== null && !(epsilon > 0 && Number.isFinite(epsilon))) {
      throw new InvalidInput("epsilon", epsilon, "a finite number above 0", "give the ε that was promised");
    }
    if (!(delta > 0 && delta < 1)) throw new InvalidInput("delta", delta, "in (0, 1)", "give the δ that was promised");
    if (trust !== null && !TRUSTS.includes(trust)) {
      throw new InvalidInput("trust", trust, `one of ${TRUSTS.join(", ")}`, "demand one of them, or none");
    }
    if (shuffler !== null && trust !== null && trust !== "shuffle") {
      throw new InvalidInput("shuffler", "given", `none with trust ${trust}`, "the service gets everything there");
    }
    this.act = act;
    this.memory = options.memory ?? null;
    this.stays = options.stays ?? null;
    this.connection = new Connection(url, key, options);
    this.batcher = options.microBatching === undefined ? null : new MicroBatcher(this.connection, options.microBatching);
    const pattern = { contributions, perRound: options.perRound ?? contributions, gap: options.gap ?? 1 };
    this.budget = new Budget(options.store ?? new DefaultStore(), options.scope ?? this.connection.url, pattern);
    this.demanded = shuffler === null ? trust : "shuffle";
    [this.epsilon, this.delta, this.shuffler] = [epsilon, delta, shuffler];
  }

  /** An episode of `user`, still to be opened; an id of your own (32 hexadecimal digits) makes a restart safe too. */
  episode(user: string, id?: string): Episode {
    return new Episode(this, user, id);
  }

  /** The open stay of `user` that this device keeps, after its finished visits; null without one. */
  async resumeStay(user: string): Promise<Episode | null> {
    const kept = (await this.stays?.recall(user)) ?? null;
    if (kept === null) return null;
    await this.requireTrustworthy();
    return new Episode(this, user, readText(kept.opened, "episode")).resumed(kept);
  }

  /**
   * Open an episode of `user`, let `steps` act and observe, and submit it.
   *
   * If `steps` ends early or throws, nothing of the episode is submitted: in the local and the shuffle model an empty
   * submission is sent instead, so that the service does not see that they left; in the joint model nothing is, and their
   * place is used up. `episode.note` then says so, and what `steps` threw is thrown on. A stay that is kept on the device (`stays`) goes on:
   * `steps` is one visit, and the last one submits.
   */
  async play(user: string, steps: (episode: Episode) => Promise<void>): Promise<Episode> {
    const episode = (await this.resumeStay(user)) ?? (await this.episode(user).open());
    try {
      await steps(episode);
    } catch (problem) {
      await this.leave(episode);
      throw problem;
    }
    if (episode.status !== "open") return episode;
    await episode.keepVisits();
    if (episode.complete) await episode.submit();
    else await this.leave(episode);
    return episode;
  }

  /**
   * Tickets for users who will play later, in their order, or why one was refused; for an app's backend. A device with a
   * ticket makes one request, its report. Hand tickets out independently of what users do, and before they play.
   */
  async admit(users: readonly string[]): Promise<(Ticket | ServiceError)[]> {
    await this.requireDemanded();
    const tickets: (Ticket | ServiceError)[] = [];
    for (let first = 0; first < users.length; first += LARGEST_GROUP) {
      const part = users.slice(first, first + LARGEST_GROUP).map((user) => ({ user, episode: randomName() }));
      const answers = (await this.connection.post("/v1/groups/episodes", { users: part }))["opened"];
      if (!Array.isArray(answers) || answers.length !== part.length) {
        throw new ServiceError(200, { title: `not ${part.length} answers to ${part.length} members of a group` });
      }
      for (const [index, named] of part.entries()) tickets.push(await this.ticket(named, answers[index]));
    }
    return tickets;
  }

  /**
   * The episode of a ticket, already open. What it needs is published. A stay that this device keeps goes on after its finished
   * visits if it is the ticket's own.
   */
  async begin(ticket: Ticket): Promise<Episode> {
    await this.requireTrustworthy();
    const id = readText(ticket.opened, "episode");
    const kept = (await this.stays?.recall(ticket.user)) ?? null;
    const episode = this.episode(ticket.user, id);
    return kept !== null && readText(kept.opened, "episode") === id ? episode.resumed(kept) : episode.opened(ticket.opened);
  }

  /** Send what an episode formed, now or after a restart; sending twice counts once. Messages go to the shuffler alone. */
  async send(submission: Submission): Promise<Receipt> {
    const { episode, kind, content } = submission;
    if (kind === "messages") return this.handOver(submission);
    const path = `/v1/episodes/${episode}/${kind}`;
    const alone = () => this.connection.post(path, content, `/v1/episodes/{episode}/${kind}`);
    const answer = await this.together(kind, { episode, ...content }, alone);
    const [counted, status] = [readText(answer, "episode"), readText(answer, "status")];
    const reference = "reference" in content ? readInteger(content, "reference") : null;
    return { episode: counted, status, version: readInteger(answer, "version"), reference };
  }

  /** The service's answer to a user who comes with an episode. */
  async open(user: string, episode: string): Promise<Record<string, unknown>> {
    return this.together("open", { user, episode }, () => this.connection.post("/v1/episodes", { user, episode }));
  }

  /**
   * Send again, byte for byte, the reports of `user` that were formed here and never acknowledged: after a page was
   * closed, or an app restarted. Those that the service will never take are given up.
   */
  async resume(user: string): Promise<Receipt[]> {
    const receipts: Receipt[] = [];
    for (const submission of await this.budget.pending(user)) {
      try {
        receipts.push(await this.send(submission));
      } catch (problem) {
        if (!(problem instanceof ServiceError && NEVER.includes(problem.status))) throw problem;
      }
      await this.budget.settle(user, submission.episode);
    }
    return receipts;
  }

  // -- what the service publishes ---------------------------------------------------------------------------------------

  /** The public status: users admitted, versions, privacy promised and spent. */
  async status(): Promise<Record<string, unknown>> {
    return this.connection.get("/v1/status");
  }

  /** The trust model of the deployment, asked for once. */
  async trust(): Promise<Trust> {
    return (await this.firstStatus())["trust"] as Trust;
  }

  /** The public model, fetched once: it cannot change during a deployment. */
  async model(): Promise<Model> {
    return this.remembered("model", async () => Model.read(await this.connection.get("/v1/model")));
  }

  /** What states and actions are called, fetched once. */
  async names(): Promise<Names> {
    return this.remembered("names", async () => Names.read(await this.connection.get("/v1/names")));
  }

  /** One version of the policy; those used last are kept, as they cannot change either. */
  async billboard(version: number): Promise<Billboard> {
    const board = this.billboards.get(version) ?? (await this.fetchBillboard(version));
    this.billboards.delete(version);
    this.billboards.set(version, board); // now the newest
    while (this.billboards.size > VERSIONS_KEPT) this.billboards.delete(this.billboards.keys().next().value!);
    return board;
  }

  /** What a user who is served `billboard` acts on at first; null where users act by the policy alone. */
  async belief(billboard: Billboard, user: string | null = null): Promise<Belief | null> {
    if (!billboard.remembers) return null;
    const model = await this.model();
    const known = user === null ? null : await this.memory?.recall(user, model.digest);
    return model.rules.form.belief?.(model, billboard, known ?? null) ?? null;
  }

  /**
   * V, of one stay, which is one report. A joint service whose users may act by the policy alone has none, and its model is
   * not fetched.
   */
  async visits(billboard: Billboard): Promise<number> {
    const joint = (await this.trust()) === "joint";
    const needed = !joint || billboard.remembers || (await this.firstStatus())["device_acts"] === true;
    return needed ? (await this.model()).rules.visits : 1;
  }

  /** Check the service's trust model, and what its rules promise, before a user is named to it. */
  async requireTrustworthy(): Promise<void> {
    const trust = await this.requireDemanded();
    if (!TRUSTS.includes(trust)) {
      throw new InvalidInput("trust", trust, `one of ${TRUSTS.join(", ")}`, "use a newer client");
    }
    if (this.act === "server" && (await this.firstStatus())["device_acts"] === true) {
      const remedy = "let the client act: a server would have to be shown the whole episode for every action";
      throw new InvalidInput("act", "server", "device where users act on a belief about themselves or report a whole stay", remedy);
    }
    if (trust === "joint") return;
    if (this.act === "server") {
      const remedy = "asking for actions would show every state";
      throw new InvalidInput("act", "server", `device in the ${trust} model`, remedy);
    }
    if (trust === "local") {
      const reports = Math.max(1, this.budget.contributions);
      await this.remembered("promise", async () => {
        await this.budget.requireUsable();
        requirePromise(await this.model(), this.epsilon, this.delta, reports);
      });
      return;
    }
    this.requireShuffler().requireStarted?.(); // else places are used up for nothing
    if (this.epsilon !== null) {
      const remedy = "a device cannot see whether others flip coins";
      throw new InvalidInput("epsilon", this.epsilon, "none in the shuffle model", remedy);
    }
    requireShuffle(await this.model());
  }

  /**
   * Check that a report of a user who was `opened` is formed and noised by the rules of their deployment.
   *
   * A client may outlive a deployment at its address, or be given the model of an old one by a cache on the way: it fetches the
   * model once more then, and examines it like the first.
   */
  async requireRules(opened: Readonly<Record<string, unknown>>): Promise<void> {
    const rules = opened["rules"] == null ? "" : readText(opened, "rules");
    if (rules === "" || (await this.trust()) === "joint" || rules === (await this.model()).rules.digest) return;
    for (const published of ["model", "promise"]) this.once.delete(published);
    this.billboards.clear();
    await this.requireTrustworthy();
    const { digest } = (await this.model()).rules;
    if (digest !== rules) {
      const remedy = "do not send; a cache on the way has another deployment's model";
      throw new InvalidInput("report.digest", digest, `${rules}, as the service said to the user`, remedy);
    }
  }

  /** What an episode sends at its end, in the deployment's trust model; fresh noise or coins at every call. */
  async form(played: Played, billboard: Billboard | null): Promise<Submission> {
    const trust = await this.trust();
    if (trust === "joint") return trajectorySubmission(played);
    if (billboard === null) throw new InvalidInput("billboard", "missing", "what it is formed under", "ask for it first");
    return privateSubmission(trust, await this.model(), billboard, played);
  }

  /** What a submission of now is formed under; null in the joint model, where the service forms it. */
  async formedUnder(served: number, ownReference: number | null): Promise<Billboard | null> {
    const trust = await this.trust();
    return trust === "joint" ? null : this.reference(served, trust === "shuffle" ? ownReference : null);
  }

  // -- inside -----------------------------------------------------------------------------------------------------------

  private async requireDemanded(): Promise<Trust> {
    const trust = await this.trust();
    if (this.demanded !== null && trust !== this.demanded) {
      throw new InvalidInput("trust", trust, `${this.demanded}, as demanded`, "do not send; ask its operator");
    }
    return trust;
  }

  private async ticket(named: { user: string; episode: string }, answer: unknown): Promise<Ticket | ServiceError> {
    const opened = answer as Record<string, unknown>;
    if (!("type" in opened)) return { user: named.user, opened };
    const problem = ServiceError.read(Number(opened["status"]), JSON.stringify(opened), null);
    if (!problem.passing) return problem;
    try { // alone, with the patience that a single request has
      return { user: named.user, opened: await this.connection.post("/v1/episodes", named) };
    } catch (refusal) {
      if (refusal instanceof ServiceError) return refusal;
      throw refusal;
    }
  }

  private async together(
    kind: string, member: Readonly<Record<string, unknown>>, alone: () => Promise<Record<string, unknown>>,
  ): Promise<Record<string, unknown>> {
    return this.batcher === null ? alone() : this.batcher.ask(kind, member, alone);
  }

  /**
   * What a contribution of now is formed under: the version that its user was `served`, or a round's reference.
   *
   * With a shuffler that is the reference of their own round, elsewhere of the round that is open now. After the last round
   * nothing counts, and anything will do.
   */
  private async reference(served: number, ownReference: number | null): Promise<Billboard> {
    if ((await this.model()).rules.form.formedUnder === "served") return this.billboard(served);
    if (ownReference !== null) return this.billboard(ownReference);
    const current = await this.connection.get("/v1/round");
    return this.billboard(current["reference"] == null ? served : readInteger(current, "reference"));
  }

  private firstStatus(): Promise<Record<string, unknown>> {
    return this.remembered("status", () => this.status());
  }

  private async fetchBillboard(version: number): Promise<Billboard> {
    const board = Billboard.read(await this.connection.get(`/v1/billboards/${version}`, "/v1/billboards/{version}"));
    if (board.version !== version) {
      throw new InvalidInput("billboard.version", board.version, String(version), "ask the service's operator");
    }
    if (board.remembers || (await this.trust()) !== "joint") {
      const model = await this.model();
      if (board.model !== model.digest) {
        const remedy = "make a new Client: the model changed";
        throw new InvalidInput("billboard.model", board.model, model.digest, remedy);
      }
      const { form } = model.rules;
      if (form.requireBelief !== undefined) form.requireBelief(model, board);
      else requireVersion(model, board);
      board.requireSizes(model.sizes);
    }
    return board;
  }

  private async handOver(submission: Submission): Promise<Receipt> {
    const { episode, content } = submission;
    const { shape } = (await this.model()).rules.noiseScale;
    const ones = readIntegers("ones", content["ones"], shape);
    const messages = readIntegers("messages", content["messages"], shape);
    const [round, place] = [readInteger(content, "round"), readInteger(content, "place")];
    const restores = content["restores"] === undefined ? 0 : readInteger(content, "restores");
    await this.requireShuffler()(round, place, ones, messages, restores);
    return { episode, status: "sent", version: readInteger(content, "version"), reference: null };
  }

  private requireShuffler(): MessageReceiver {
    if (this.shuffler === null) {
      throw new InvalidInput("shuffler", "missing", "given in the shuffle model", "make the Client with a shuffler");
    }
    return this.shuffler;
  }

  /** End an episode early. Whatever goes wrong on the way must not hide why they left. */
  private async leave(episode: Episode): Promise<void> {
    if (episode.status !== "open" || episode.goesOn) return;
    let sent = "nothing was submitted";
    try {
      if ((await this.trust()) !== "joint") {
        await episode.submitEmpty();
        sent = "an empty submission was sent";
      }
    } catch (failure) {
      sent = `an empty submission failed (${(failure as Error).name}): nothing was submitted`;
    }
    episode.abandon();
    episode.note = `episode ${episode.id} was left after ${episode.step} of ${episode.horizon * episode.visits} steps; ${sent}`;
  }

  /** What `compute` gave, once; a failure is not remembered. */
  private remembered<T>(name: string, compute: () => Promise<T>): Promise<T> {
    const known = this.once.get(name) as Promise<T> | undefined;
    if (known !== undefined) return known;
    const asked = compute();
    this.once.set(name, asked);
    asked.catch(() => this.once.delete(name));
    return asked;
  }
}

// SPDX-License-Identifier: Apache-2.0
/**
 * Requests of many users in few: those that are made within a moment go to the service as one group. For a backend.
 *
 * Requests of a kind wait for the next tick of a clock, `seconds` apart, and are sent together then, `most` in a request.
 * Every request resolves to what it would have resolved to by itself, or rejects with it. The service answers each member by
 * itself; one whose answer is a passing problem asks again alone, and if a whole group is refused each member asks alone.
 * Retries are safe: a member carries its episode's id.
 *
 * When a request is sent depends on when it was made, and on no other request. A report counts in the round that is open when
 * it comes: a group that left as soon as it is full would let one user's report decide in which round the others' count. So a
 * full group waits for the tick as well, and the next one of the same tick leaves beside it.
 */

import type { Connection } from "./connection.js";
import { ServiceError } from "./problems.js";
import { InvalidInput } from "./wire/errors.js";

/** How requests wait for each other. */
export interface MicroBatching {
  /** Between two ticks, which is as long as a request waits at most; 0.01 by default. */
  readonly seconds?: number;
  /** Members of a group, at most; 64 by default. */
  readonly most?: number;
}

type Content = Readonly<Record<string, unknown>>;
type Answer = Record<string, unknown>;

/** Where members of a kind go together, and what they and their answers are called there. The rest goes by itself. */
const ROUTES: Readonly<Record<string, readonly [path: string, members: string, answers: string]>> = {
  open: ["/v1/groups/episodes", "users", "opened"],
  trajectory: ["/v1/groups/trajectories", "trajectories", "receipts"],
  report: ["/v1/groups/reports", "reports", "receipts"],
};

/** Members of a group that the service takes. */
export const LARGEST_GROUP = 256;

/** Members that wait for the tick `due`. The promise gives null where each is to ask alone. */
interface Group {
  readonly due: number;
  readonly members: Content[];
  readonly answers: Promise<Answer[] | null>;
}

/** Sends together what is asked for within a moment. */
export class MicroBatcher {
  private readonly seconds: number;
  private readonly most: number;
  private readonly waiting = new Map<string, Group>();
  private readonly began: number;

  /** `clock` counts seconds and makes the ticks. */
  constructor(
    private readonly connection: Pick<Connection, "post">, { seconds = 0.01, most = 64 }: MicroBatching,
    private readonly clock: () => number = () => performance.now() / 1000,
  ) {
    if (!(seconds >= 0 && seconds <= 1)) {
      throw new InvalidInput("microBatching.seconds", seconds, "in [0, 1]", "0.01 is the default");
    }
    if (!(Number.isInteger(most) && most >= 2 && most <= LARGEST_GROUP)) {
      throw new InvalidInput("microBatching.most", most, `an integer in 2..${LARGEST_GROUP}`, "64 is the default");
    }
    [this.seconds, this.most, this.began] = [seconds, most, clock()];
  }

  /** The service's answer to `member`; `alone` is the same request by itself. */
  async ask(kind: string, member: Content, alone: () => Promise<Answer>): Promise<Answer> {
    if (!(kind in ROUTES)) return alone();
    const group = this.taking(kind);
    const place = group.members.push(member) - 1;
    const answer = (await group.answers)?.[place];
    if (answer === undefined) return alone();
    if (!("type" in answer)) return answer;
    const status = typeof answer["status"] === "number" ? answer["status"] : 500;
    const problem = ServiceError.read(status, JSON.stringify(answer), null);
    if (problem.passing) return alone();
    throw problem;
  }

  /** The group that takes members of a kind now. */
  private taking(kind: string): Group {
    const now = this.clock();
    const there = this.waiting.get(kind);
    if (there !== undefined && now < there.due && there.members.length < this.most) return there;
    const members: Content[] = [];
    const due = this.tickAfter(now);
    const answers = new Promise<void>((resolve) => setTimeout(resolve, Math.ceil(1000 * (due - now)))).then(() => {
      if (this.waiting.get(kind) === group) this.waiting.delete(kind);
      return members.length > 1 ? this.send(kind, members) : null;
    });
    const group: Group = { due, members, answers };
    this.waiting.set(kind, group);
    return group;
  }

  /** The first tick after `now`, however many wait for it. */
  private tickAfter(now: number): number {
    if (this.seconds === 0) return now;
    return this.began + this.seconds * (Math.floor((now - this.began) / this.seconds) + 1);
  }

  private async send(kind: string, members: readonly Content[]): Promise<Answer[] | null> {
    const [path, field, answered] = ROUTES[kind]!;
    let answers: unknown;
    try {
      answers = (await this.connection.post(path, { [field]: members }))[answered];
    } catch (problem) {
      if (problem instanceof ServiceError && !problem.passing) return null; // refused as a whole: each asks alone
      throw problem;
    }
    if (!Array.isArray(answers) || answers.length !== members.length) return null;
    return answers.every((answer) => typeof answer === "object" && answer !== null) ? (answers as Answer[]) : null;
  }
}

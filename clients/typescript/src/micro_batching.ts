// SPDX-License-Identifier: Apache-2.0
/**
 * Requests of many users in few: those that are made within a moment go to the service as one group. For a backend.
 *
 * The first request of a kind waits for others, for `seconds` at most and until there are `most`, and is sent with them.
 * Every request resolves to what it would have resolved to by itself, or rejects with it. The service answers each member by
 * itself; one whose answer is a passing problem asks again alone, and if a whole group is refused each member asks alone.
 * Which requests go together depends on when they are made, and on nothing that a user did. Retries are safe: a member carries
 * its episode's id.
 */

import type { Connection } from "./connection.js";
import { ServiceError } from "./problems.js";
import { InvalidInput } from "./wire/errors.js";

/** How requests wait for each other. */
export interface MicroBatching {
  /** That the first of a group waits for others, at most; 0.01 by default. */
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

/** Members that wait; `send` lets them go. The promise gives null where each is to ask alone. */
interface Group {
  readonly members: Content[];
  readonly answers: Promise<Answer[] | null>;
  readonly send: () => void;
}

/** Sends together what is asked for within a moment. */
export class MicroBatcher {
  private readonly seconds: number;
  private readonly most: number;
  private readonly waiting = new Map<string, Group>();

  constructor(private readonly connection: Pick<Connection, "post">, { seconds = 0.01, most = 64 }: MicroBatching) {
    if (!(seconds >= 0 && seconds <= 1)) {
      throw new InvalidInput("microBatching.seconds", seconds, "in [0, 1]", "0.01 is the default");
    }
    if (!(Number.isInteger(most) && most >= 2 && most <= LARGEST_GROUP)) {
      throw new InvalidInput("microBatching.most", most, `an integer in 2..${LARGEST_GROUP}`, "64 is the default");
    }
    [this.seconds, this.most] = [seconds, most];
  }

  /** The service's answer to `member`; `alone` is the same request by itself. */
  async ask(kind: string, member: Content, alone: () => Promise<Answer>): Promise<Answer> {
    if (!(kind in ROUTES)) return alone();
    const group = this.waiting.get(kind) ?? this.begin(kind);
    const place = group.members.push(member) - 1;
    if (group.members.length >= this.most) group.send();
    const answer = (await group.answers)?.[place];
    if (answer === undefined) return alone();
    if (!("type" in answer)) return answer;
    const status = typeof answer["status"] === "number" ? answer["status"] : 500;
    const problem = ServiceError.read(status, JSON.stringify(answer), null);
    if (problem.passing) return alone();
    throw problem;
  }

  private begin(kind: string): Group {
    const members: Content[] = [];
    let go = () => {};
    const going = new Promise<void>((resolve) => (go = resolve));
    const timer = setTimeout(() => go(), 1000 * this.seconds);
    const answers = going.then(() => {
      clearTimeout(timer);
      return members.length > 1 ? this.send(kind, members) : null;
    });
    const send = () => {
      if (this.waiting.get(kind) === group) this.waiting.delete(kind);
      go();
    };
    const group: Group = { members, answers, send };
    void going.then(send);
    this.waiting.set(kind, group);
    return group;
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

// SPDX-License-Identifier: Apache-2.0
/**
 * What an episode sends at its end, by trust model: formed once and kept, so that a retry sends the same bytes.
 *
 * An *empty* submission shows nothing of the episode: noise alone in the local model, coins alone in the shuffle model, a
 * contribution of zero in the joint model. The server cannot tell it from any other (in the local and the shuffle model as
 * little as it can tell any two users apart), so leaving looks like staying.
 */

import type { Clipped } from "./boundary.js";
import { formMessages } from "./messages.js";
import { noisedReport } from "./report.js";
import { toJson } from "./wire/arrays.js";
import type { Billboard } from "./wire/billboard.js";
import { InvalidInput } from "./wire/errors.js";
import type { Model } from "./wire/model.js";
import type { Trajectory } from "./wire/trajectory.js";

export type Trust = "joint" | "shuffle" | "local";

/** What an episode sends at its end, ready to be sent again; plain JSON. */
export interface Submission {
  readonly episode: string;
  readonly kind: "trajectory" | "empty" | "report" | "messages";
  /** For the service; `messages` are for the shuffler, and the service must not see them. */
  readonly content: Readonly<Record<string, unknown>>;
}

/** The service has counted the episode, or the shuffler has its messages. */
export interface Receipt {
  readonly episode: string;
  readonly status: string;
  /** The policy that the user was served. */
  readonly version: number;
  /**
   * The version that a report was formed under, null of other submissions. A report of a form that refers to rounds adds
   * nothing if the round that counts it refers to another version by then.
   */
  readonly reference: number | null;
}

/** What a submission is made of: where it belongs, what it is formed under, and what was seen (null shows nothing). */
export interface Played {
  readonly episode: string;
  readonly token: string;
  readonly version: number;
  readonly round: number;
  readonly place: number;
  readonly seen: Clipped<Trajectory> | null;
  /** How often the service's store had been restored when its user came. */
  readonly restores: number;
}

/** Joint model: the trajectory, or word that there is none to see. */
export function trajectorySubmission({ episode, token, seen }: Played): Submission {
  if (seen === null) return { episode, kind: "empty", content: { token } };
  const { states, actions, rewards } = seen.release((shown) => shown).value; // this trust model's server may see it
  return { episode, kind: "trajectory", content: { token, states, actions, rewards } };
}

/** Local and shuffle model: what is formed under `billboard`, noised, or for the shuffler. */
export function privateSubmission(trust: Trust, model: Model, billboard: Billboard, played: Played): Submission {
  const { episode, token, version, round, place, seen, restores } = played;
  if (trust === "local") {
    const report = toJson(noisedReport(model, billboard, seen));
    return { episode, kind: "report", content: { token, report, reference: billboard.version } };
  }
  if (trust !== "shuffle") throw new InvalidInput("trust", trust, "local or shuffle", "send the trajectory");
  const sent = formMessages(model, billboard, seen, round, place);
  // No token and no name: whatever could tie the numbers to a person stays here.
  const content = { round, place, version, restores, ones: toJson(sent.ones), messages: toJson(sent.messages) };
  return { episode, kind: "messages", content };
}

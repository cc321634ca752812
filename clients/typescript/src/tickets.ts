// SPDX-License-Identifier: Apache-2.0
/**
 * Admissions that an app's backend takes in bulk and hands to devices, which then make one request each: the report.
 *
 * The promise is that of the two-request protocol if tickets are handed out independently of data: by a list, by the
 * calendar, or when a user opens the app before the episode (docs/proofs/one-request.md). Never hand one out because an
 * earlier one was used or was not, nor at the time of the report.
 */

/** An admission of one user, plain JSON. It allows one report for that user: send it to the user's device alone. */
export interface Ticket {
  readonly user: string;
  /** The service's answer to the admission. */
  readonly opened: Readonly<Record<string, unknown>>;
}

// SPDX-License-Identifier: Apache-2.0
/** The forms that a contribution can have, by the name that a deployment's rules give. */

import { InvalidInput } from "../errors.js";
import { counts } from "./counts.js";
import { factors } from "./factors.js";
import type { Form } from "./form.js";
import { kinds } from "./kinds.js";
import { kindsPlanned } from "./kinds_planned.js";
import { regressions } from "./regressions.js";
import { score } from "./score.js";
import { scoreResidual } from "./score_residual.js";
import { scoreStart } from "./score_start.js";

export const FORMS: ReadonlyMap<unknown, Form> = new Map(
  [regressions, counts, score, scoreStart, scoreResidual, kinds, kindsPlanned, factors].map((form: Form) => [form.name, form]),
);

/** The form of this name. */
export function formNamed(name: unknown): Form {
  const form = FORMS.get(name);
  if (form === undefined) {
    throw new InvalidInput("report.form", name, `one of ${[...FORMS.keys()].join(", ")}`, "use a newer client");
  }
  return form;
}

// SPDX-License-Identifier: Apache-2.0
/**
 * Users of the TypeScript client, for tests: reads a job as JSON from the standard input, writes one line per user.
 *
 * The job: `url`, `key`, `options` of the client, `store` (a directory), `shuffler` (the key of the
 * shuffler in this process, if there is one), and `users`: `name`, `states`, `rewards`, and `leaves` (after how many steps, or null).
 * A line: what the episode says of itself, its actions, the submission, and, which no device would tell, its exact steps.
 */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const part = (name) => import(pathToFileURL(join(process.argv[2], name)).href);
const { Client, Connection, Shuffler } = await part("index.js");
const { FileStore } = await part("node.js");

const job = JSON.parse(readFileSync(0, "utf8"));
const mixing = job.shuffler ? new Shuffler(new Connection(job.url, job.shuffler), 0) : undefined;
const routes = [];
const client = new Client(job.url, job.key, {
  ...job.options,
  ...(mixing ? { shuffler: mixing.take } : {}),
  store: new FileStore(job.store),
  observer: (route, _seconds, status) => routes.push(`${route} ${status}`),
});

await mixing?.postDue(); // it takes no message before it has looked
for (const { name, states, rewards, leaves } of job.users) {
  routes.length = 0;
  const actions = [];
  const episode = await client.play(name, async (playing) => {
    for (let step = 0; step < playing.horizon && step !== leaves; step++) {
      actions.push(await playing.act(states[step]));
      playing.observe(rewards[step], states[step + 1]);
    }
  });
  await mixing?.postDue();
  const { id, status, version, place, learning, reason, note, receipt } = episode;
  const submission = learning ? await episode.submission() : null;
  let steps = null;
  if (submission?.kind === "report") {
    const board = await client.billboard(submission.content.reference);
    const seen = { states, actions, rewards, place };
    if (leaves === null) steps = Array.from((await client.model()).steps(board, seen).data, String);
  }
  const said = { id, status, version, place, learning, reason, note, receipt, actions, submission, steps, routes };
  console.log(JSON.stringify(said));
}

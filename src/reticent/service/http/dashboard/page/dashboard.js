// SPDX-License-Identifier: Apache-2.0
// The dashboard: reads published numbers, draws them, and follows the service's event stream. See docs/dashboard.md.
// Everything it asks for is public by the service's promise; nothing is computed here from anything else.

const KEY = "reticent-key";
const STATES_PER_PAGE = 20;
const VERSIONS_SHOWN = 12;
const LEDGER_READ = 10000;
const LEDGER_ROWS = 7;
const RATE_WINDOW = 120; // seconds
const COLOURS = ["#7db4f0", "#f5b25c", "#6fcf97", "#f29bc1", "#f2e05c", "#b8a1f0", "#62d0cc", "#f58b7a"];

const $ = (id) => document.getElementById(id);
const diagnostics = new Map(); // by version; they never change
const samples = []; // [seconds, users admitted], as this page has seen them
let status = null, ledger = null, board = null, names = null, firstState = 0;

// -- numbers as people read them --------------------------------------------------------------------------------------

const whole = (n) => n.toLocaleString("en");
const short = (x) => Number(x.toPrecision(3)).toString();
const users = (n) => `${whole(n)} user${n === 1 ? "" : "s"}`;

function duration(seconds) {
  for (const [unit, size] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
    if (seconds >= 1.5 * size) return `about ${Math.round(seconds / size)} ${unit}s`;
  }
  return seconds >= 50 ? "about a minute" : "less than a minute";
}

function chance(delta) {
  return delta > 0 ? `1 in ${whole(Math.round(1 / delta))}` : "0";
}

// -- asking -----------------------------------------------------------------------------------------------------------

class Unauthorized extends Error {}

async function ask(path, options = {}) {
  const key = sessionStorage.getItem(KEY);
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  const answer = await fetch(path, { ...options, headers });
  if (answer.status === 401) throw new Unauthorized();
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer;
}

const read = async (path) => (await ask(path)).json();

function array({ dtype, shape, data }) {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const kind = { "<f8": Float64Array, "<i4": Int32Array }[dtype];
  return { shape, numbers: new kind(bytes.buffer) };
}

async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const fields = Object.fromEntries(block.split("\n").map((line) => line.split(/: (.*)/s, 2)));
      if (fields.event) yield { event: fields.event, data: JSON.parse(fields.data) };
    }
  }
}

// -- the live loop ----------------------------------------------------------------------------------------------------

async function follow() {
  let wait = 1;
  for (;;) {
    try {
      const stream = await ask("/v1/events", { cache: "no-store" });
      ledger = null; // releases may have been missed; from here on the stream brings them
      for await (const { event, data } of events(stream)) {
        if (event === "status") await update(data);
        if (event === "release" && ledger) {
          ledger.entries[data.round - 1] = data;
          drawReleases();
        }
        say("live", "Live");
        wait = 1;
      }
    } catch (error) {
      if (error instanceof Unauthorized) return askForKey();
    }
    say("lost", "Connection lost, trying again");
    await new Promise((resolve) => setTimeout(resolve, 1000 * wait));
    wait = Math.min(15, 2 * wait);
  }
}

function say(state, text) {
  if ($("connection").dataset.state === state) return;
  $("connection").dataset.state = state;
  $("connection").textContent = text;
}

function askForKey() {
  const tried = sessionStorage.getItem(KEY);
  sessionStorage.removeItem(KEY);
  say("waiting", "Waiting for a key");
  $("numbers").hidden = true;
  $("key").hidden = false;
  $("key-problem").textContent = tried ? "The service does not know this key." : "";
  $("key-field").focus();
}

$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(KEY, $("key-field").value.trim());
  $("key-field").value = "";
  $("key").hidden = true;
  follow();
});

// A counter that releases after every user plans as many releases as there are users: of those the first are shown.
async function readLedger() {
  const found = await read("/v1/ledger");
  while (found.next !== null && found.entries.length < LEDGER_READ) {
    const more = await read(`/v1/ledger?after=${found.next}`);
    found.entries.push(...more.entries);
    found.next = more.next;
  }
  return found;
}

async function update(now) {
  const newVersion = !board || board.version !== now.served_version;
  const before = status;
  status = now;
  count(now.admitted);
  ledger ??= await readLedger();
  names ??= await read("/v1/names");
  if (newVersion) board = await read(`/v1/billboards/${now.served_version}`);
  $("numbers").hidden = false;
  drawStanding();
  drawReleases();
  if (newVersion) {
    drawPolicy();
    loadInsights(now.served_version);
  }
  if (before && newVersion) announce(`Policy version ${now.served_version} is published, after ${users(now.admitted)}.`);
  if (before && before.finished !== now.finished) announce($("banner").textContent);
}

function announce(text) {
  $("announce").textContent = text;
}

// -- where the deployment stands --------------------------------------------------------------------------------------

function count(admitted) {
  samples.push([performance.now() / 1000, admitted]);
  while (samples.length > 2 && samples[1][0] < samples.at(-1)[0] - RATE_WINDOW) samples.shift();
}

function rate() {
  const [from, to] = [samples[0], samples.at(-1)];
  const seconds = to[0] - from[0];
  return seconds >= 2 ? (to[1] - from[1]) / seconds : 0;
}

function until(count) {
  const each = rate();
  return each > 0 ? `, in ${duration((count - status.admitted) / each)} at the present rate` : "";
}

function meter(id, value, most, text) {
  const shown = most > 0 ? Math.min(1, value / most) : 0;
  $(id).setAttribute("aria-valuemax", most);
  $(id).setAttribute("aria-valuenow", value);
  $(id).setAttribute("aria-valuetext", text);
  $(id).firstElementChild.style.width = `${100 * shown}%`;
}

function drawStanding() {
  const s = status;
  document.title = `v${s.served_version} · ${s.world ?? "reticent"} · reticent`;
  $("deployment").textContent = `${s.world ?? "own model"} · ${s.agent} · ${s.trust} model`;
  drawBanner();
  drawPromise();

  $("budget-spent").textContent = `ε ${short(s.epsilon_spent)}`;
  $("budget-promised").textContent = `of ${short(s.epsilon)} promised · δ ${s.delta}`;
  meter("budget-meter", s.epsilon_spent, s.epsilon, `epsilon ${short(s.epsilon_spent)} of ${short(s.epsilon)}`);
  $("budget-note").textContent = forecast();

  $("users-admitted").textContent = whole(s.admitted);
  $("users-planned").textContent = `of ${whole(s.episodes)} planned`;
  meter("users-meter", s.admitted, s.episodes, `${whole(s.admitted)} of ${users(s.episodes)}`);
  const perMinute = 60 * rate();
  $("users-note").textContent = !s.learning
    ? "Every user who comes now is served, and not learned from."
    : perMinute > 0
      ? `${short(perMinute)} a minute while this page is open: the last place is taken${until(s.episodes).slice(1)}.`
      : "No user has come since this page was opened.";

  $("version-served").textContent = `v${s.served_version}`;
  $("version-planned").textContent = `of ${whole(s.releases)}`;
  meter("version-meter", s.served_version, s.releases, `version ${s.served_version} of ${s.releases}`);
  $("version-note").textContent = nextVersion();
  $("control").hidden = s.control_share === null;
  $("control").textContent =
    `${short(100 * s.control_share)} % of every round’s places are controls: they are served v${s.control_version} for ever.`;
}

function drawBanner() {
  const s = status, banner = $("banner");
  const text = s.finished
    ? `Finished: the policy learned from ${users(s.episodes)} is final. Nothing more will be spent.`
    : s.learning
      ? ""
      : "All places are taken: new users are served but not learned from. The last round is waiting for its end.";
  banner.hidden = !text;
  banner.dataset.kind = s.finished ? "finished" : "frozen";
  if (banner.textContent !== text) banner.textContent = text; // said once, not with every user
}

function drawPromise() {
  const s = status;
  const here = s.contributions > 1 ? `in up to ${s.contributions} episodes here` : "here";
  const seen = s.trust === "local" ? "no report that leaves your device" : "nothing that others can see of this service";
  const instead = ledger.adjacency === "replace" ? "you had done something else entirely" : "you had not come at all";
  const factor = whole(Number(short(Math.exp(s.epsilon))));
  $("promise-plain").textContent =
    `Whatever you do ${here}, ${seen} becomes more than ${factor} times as likely as if ${instead}, ` +
    `give or take a chance of ${chance(s.delta)}.`;
  $("promise-exact").textContent = s.promise;
  const canaries = s.canaries;
  $("canaries").hidden = !canaries;
  if (canaries) {
    const verdict = canaries.alarm ? "the noise is smaller than promised" : "the noise is as large as promised";
    $("canaries").textContent =
      `Canaries: ${verdict}, by ${whole(canaries.numbers)} numbers that hide no user. An alarm is false with probability ` +
      `${canaries.alpha} at most, ever; a tenth too little noise raises one within ${whole(canaries.found_within)} releases.`;
  }
}

function forecast() {
  const entries = ledger.entries, s = status, last = entries.at(-1);
  const once = s.trust === "local" ? "a report is private before it is sent" : "each user is in one release only";
  if (s.finished || s.version >= s.releases) return "Every planned release has been made; nothing more will be spent.";
  const final = entries.find((entry) => entry.epsilon >= last.epsilon * (1 - 1e-9));
  if (final.round <= s.version) {
    return `All that will ever be spent: ${once}, so later releases add nothing to any user’s total.`;
  }
  const whenSpent = `release ${whole(final.round)}, after ${users(final.episode)}${until(final.episode)}`;
  const total = short(last.epsilon) === short(s.epsilon) ? "The rest" : `ε ${short(last.epsilon)} in all`;
  if (final.round === 1) return `${total} is spent by ${whenSpent}. Later ones add nothing: ${once}.`;
  return `${total} will be spent by ${whenSpent}.`;
}

function nextVersion() {
  const s = status;
  if (s.served_version < s.version) return "The next version is being planned.";
  if (s.version >= s.releases) return "This is the final policy.";
  const due = ledger.entries[s.version]?.episode ?? s.episodes;
  const missing = Math.max(0, due - s.admitted);
  return missing
    ? `Next after ${whole(missing)} more ${missing === 1 ? "user" : "users"}${until(due)}.`
    : "The round is full; it ends when the next user comes or the operator’s clock says so.";
}

// -- drawing ----------------------------------------------------------------------------------------------------------

function svg(name, attributes = {}, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}

function canvas(id, height, label) {
  const width = Math.max(240, $(id).clientWidth);
  const drawn = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": label });
  $(id).replaceChildren(drawn);
  return { drawn, width, add: (...given) => drawn.appendChild(svg(...given)) };
}

// Round numbers, three to six of them, from 0 to at least the largest.
function ticks(largest) {
  const rough = largest / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  return Array.from({ length: Math.ceil(largest / step - 1e-9) + 1 }, (_, index) => Number((index * step).toPrecision(6)));
}

// A chart's frame: grid lines with their numbers, the two axes' names, and where a value lies.
function chart(id, height, label, largest, upward, along) {
  const made = canvas(id, height, label);
  const box = { left: 44, right: made.width - 12, top: 24, bottom: height - 40 };
  const scale = ticks(largest);
  const y = (value) => box.bottom - (box.bottom - box.top) * value / scale.at(-1);
  for (const tick of scale) {
    made.add("line", { class: "axis", x1: box.left, x2: box.right, y1: y(tick), y2: y(tick) });
    made.add("text", { x: box.left - 8, y: y(tick) + 4, "text-anchor": "end" }, short(tick));
  }
  made.add("text", { x: 0, y: 10 }, upward);
  made.add("text", { x: box.right, y: height - 4, "text-anchor": "end" }, along);
  const below = (x, text, anchor = "middle") => made.add("text", { x, y: box.bottom + 17, "text-anchor": anchor }, text);
  return { add: made.add, box, y, below };
}

function drawReleases() {
  if (!ledger || !status) return;
  const entries = ledger.entries, s = status;
  const made = entries.filter((entry) => entry.released).length;
  $("releases-figure").textContent = `${whole(made)} of ${whole(entries.length)} planned releases made. ` +
    "The plan was fixed before the first user; only the clock moves.";
  const { add, box, y, below } = chart("releases-chart", 200,
    `Epsilon per user after each planned release against users admitted: ${made} of ${entries.length} made, ` +
    `${short(s.epsilon_spent)} of ${short(s.epsilon)} spent, ${users(s.admitted)} admitted.`,
    1.02 * Math.max(s.epsilon, entries.at(-1).epsilon), "ε per user", "users admitted");
  const x = (n) => box.left + (box.right - box.left) * n / s.episodes;
  for (const tick of ticks(s.episodes).filter((n) => n <= s.episodes)) {
    below(x(tick), whole(tick), tick === 0 ? "start" : tick === s.episodes ? "end" : "middle");
  }
  add("line", { class: "limit", x1: box.left, x2: box.right, y1: y(s.epsilon), y2: y(s.epsilon) });
  add("text", { x: box.right, y: y(s.epsilon) - 9, "text-anchor": "end" }, `promised: ${short(s.epsilon)}`);
  const path = (from, to, start) =>
    start + entries.slice(from, to).filter((entry) => entry.epsilon !== entries[entry.round - 2]?.epsilon)
      .map((entry) => ` H${x(entry.episode)} V${y(entry.epsilon)}`).join("");
  const reached = made ? entries[made - 1] : { episode: 0, epsilon: 0 };
  const rest = path(made, entries.length, `M${x(reached.episode)} ${y(reached.epsilon)}`);
  add("path", { class: "planned", d: `${rest} H${x(s.episodes)}` });
  add("path", { class: "step", d: path(0, made, `M${x(0)} ${y(0)}`) + ` H${x(Math.max(s.admitted, reached.episode))}` });
  add("line", { class: "now", x1: x(s.admitted), x2: x(s.admitted), y1: box.top - 4, y2: box.bottom });
  add("text", { x: Math.max(x(s.admitted), box.left + 60), y: box.top - 8, "text-anchor": "middle" }, "now");
  if (entries.length <= 60) {
    for (const entry of entries) {
      const mark = add("circle", { class: entry.released ? "made" : "coming", cx: x(entry.episode), cy: y(entry.epsilon), r: 4.5 });
      mark.appendChild(svg("title", {}, `Release ${entry.round}, after ${users(entry.episode)}: ε ${short(entry.epsilon)}`));
    }
  }
  drawLedger(entries, made);
}

function drawLedger(entries, made) {
  const first = Math.max(0, Math.min(made - LEDGER_ROWS + 2, entries.length - LEDGER_ROWS));
  const rows = entries.slice(first, first + LEDGER_ROWS).map((entry) => {
    const row = document.createElement("tr");
    row.dataset.released = entry.released;
    const digest = document.createElement("code");
    digest.textContent = entry.digest ? entry.digest.slice(0, 8) : "";
    if (entry.digest) digest.title = `SHA-256 of the released sums: ${entry.digest}`;
    for (const content of [entry.round, whole(entry.episode), short(entry.epsilon), entry.digest ? digest : "planned"]) {
      const cell = document.createElement("td");
      cell.append(content);
      row.append(cell);
    }
    return row;
  });
  $("ledger-caption").textContent = rows.length < entries.length
    ? `Releases ${whole(first + 1)} to ${whole(first + rows.length)} of ${whole(entries.length)}; all are at /v1/ledger.`
    : "";
  $("ledger").tBodies[0].replaceChildren(...rows);
}

// -- value and signal -------------------------------------------------------------------------------------------------

// Multiples of a power of two, and the newest: a new version changes one of them, not all.
function versionsShown(newest) {
  let stride = 1;
  while (newest / stride > VERSIONS_SHOWN - 1) stride *= 2;
  const chosen = Array.from({ length: Math.floor(newest / stride) + 1 }, (_, index) => index * stride);
  return newest % stride ? [...chosen, newest] : chosen;
}

async function loadInsights(newest) {
  for (const version of versionsShown(newest).reverse()) { // the newest first: it is what people look for
    if (!diagnostics.has(version)) {
      try {
        diagnostics.set(version, await read(`/v1/diagnostics/${version}`));
      } catch {
        return; // the stream's loop says what is wrong, and comes back here with the next version
      }
    }
    if (board.version !== newest) return;
    drawInsights();
  }
}

function drawInsights() {
  const now = board && diagnostics.get(board.version);
  if (!now) return;
  drawValue(now);
  drawSignal(now);
  drawFit(now);
}

// Releases are foretold by what was learned before them; a blend that users are not misses by more than noise explains.
function drawFit(now) {
  const { fit } = now;
  if (!fit) {
    $("fit-figure").textContent = "Not known yet: it takes a second release, and an agent that foretells releases.";
    return;
  }
  const strong = document.createElement("strong");
  const [verdict, remedy] = fit.probability < 0.01
    ? ["No.", "Users are no blend of the candidates, or they have changed: fit the model again."]
    : fit.probability < 0.05
      ? ["Doubtful.", "Look again after the next release."]
      : ["Nothing speaks against it.", "A small misfit may go unnoticed."];
  strong.textContent = verdict;
  $("fit-figure").replaceChildren(strong, ` Misfit ${short(fit.statistic)} where ${fit.degrees} are expected ` +
    `(probability ${short(fit.probability)}). ${remedy} ${now.residual ? now.residual.sentence : ""}`);
}

function drawValue(now) {
  const { value } = now;
  if (!value) {
    $("value-figure").textContent = "This agent publishes no estimate of what its policy is worth.";
    $("value-proven").textContent = "";
    $("value-chart").replaceChildren();
    return;
  }
  const strong = document.createElement("strong");
  strong.textContent = short(value.estimate);
  const doubted = value.deviation === null
    ? `the agent reckons with ${short(value.cautious)} to ${short(value.optimistic)}`
    : `give or take ${short(value.deviation)}, one posterior standard deviation`;
  const explorers = value.explorers === null ? "" : `; ${short(value.explorers)} for those who explore`;
  $("value-figure").replaceChildren(strong, ` of at most ${short(value.largest)} reward per user; ${doubted}${explorers}`);
  $("value-doubt").textContent = value.deviation === null
    ? "the agent’s own doubt: its bonus taken away, and added"
    : "the agent’s own doubt: one posterior standard deviation down, and up";
  const proven = value.proven_low !== null;
  $("value-proven").parentElement.hidden = !proven;
  $("value-proven").textContent = proven
    ? `proven interval, noise included: right for all versions at once with probability ${short(100 * value.confidence)} %, ` +
      "if the model is right"
    : "";
  const shown = versionsShown(now.version).map((version) => diagnostics.get(version)).filter(Boolean);
  const { add, box, y, below } = chart("value-chart", 226,
    `Estimated reward of a new user by policy version. Version ${now.version}: estimate ${short(value.estimate)}, ` +
    `agent's doubt ${short(value.cautious)} to ${short(value.optimistic)}` +
    (proven ? `, proven ${short(value.proven_low)} to ${short(value.proven_high)}.` : "."),
    value.largest, "reward per user", "policy version");
  const slot = (box.right - box.left) / Math.max(shown.length, 4);
  shown.forEach((one, index) => {
    const x = box.left + slot * (index + 0.5), v = one.value;
    if (proven) {
      add("line", { class: "thin", x1: x, x2: x, y1: y(v.proven_low), y2: y(v.proven_high) });
      for (const end of [v.proven_low, v.proven_high]) {
        add("line", { class: "thin", x1: x - 5, x2: x + 5, y1: y(end), y2: y(end) });
      }
    }
    add("line", { class: "thick", x1: x, x2: x, y1: y(v.cautious), y2: y(v.optimistic) });
    const dot = add("circle", { class: "dot", cx: x, cy: y(v.estimate), r: 5 });
    const doubt = `${short(v.cautious)} to ${short(v.optimistic)}`;
    dot.appendChild(svg("title", {}, `Version ${one.version}, from ${users(one.users)}: ${short(v.estimate)} (${doubt})`));
    below(x, `v${one.version}`);
  });
}

function drawSignal(now) {
  const { signal } = now;
  if (!signal) {
    $("signal-figure").textContent = now.version > 0
      ? "This agent publishes noisy counts, and no ratio of signal to noise."
      : "Nothing has been released yet. The first release shows how far users are heard above the noise.";
    $("signal-chart").replaceChildren();
    return;
  }
  const together = [signal.transition_together, signal.reward_together].filter((n) => n !== null);
  const strong = document.createElement("strong");
  strong.textContent = `${short(Math.min(...together))}×`;
  $("signal-figure").replaceChildren(strong, Math.min(...together) < 1.5
    ? " the noise, all steps together: nothing is heard above it yet"
    : signal.pooled
      ? " the noise, all steps together, which is how the agent uses them"
      : " the noise, all steps together; the agent learns every step by itself");
  const steps = Math.max(signal.transition.length, signal.reward.length), addedUp = steps === 1;
  const where = (h) => addedUp ? "All steps" : `Step ${h + 1}`;
  const numbers = [...signal.transition, ...signal.reward].filter((n) => n !== null);
  const said = (n) => n === null ? "not released" : short(n);
  const { add, box, y, below } = chart("signal-chart", 226,
    "Signal-to-noise ratio by step. " + Array.from({ length: steps }, (_, h) =>
      `${where(h)}: transitions ${said(signal.transition[h] ?? null)}, rewards ${said(signal.reward[h] ?? null)}`).join("; "),
    Math.max(2, ...numbers), "times the noise", addedUp ? "all steps added up" : "step of the episode");
  const slot = (box.right - box.left) / steps;
  const bar = Math.min(18, slot * 0.36), every = Math.ceil(22 / slot);
  for (let h = 0; h < steps; h++) {
    const middle = box.left + slot * (h + 0.5);
    const pair = [["bar-a", signal.transition[h], middle - bar - 0.5], ["bar-b", signal.reward[h], middle + 0.5]];
    for (const [name, number, x] of pair) {
      if (number === null || number === undefined) continue;
      const size = { x, y: y(number), width: bar, height: y(0) - y(number), rx: Math.min(2, bar / 4) };
      add("rect", { class: name, ...size }).appendChild(svg("title", {}, `${where(h)}: ${short(number)} times the noise`));
    }
    if (!addedUp && h % every === 0) below(middle, h + 1);
  }
  add("line", { class: "unit", x1: box.left, x2: box.right, y1: y(1), y2: y(1) });
}

// -- names, and the policy --------------------------------------------------------------------------------------------

const stateName = (state) => names?.states?.[state] ?? `state ${state}`;
const actionName = (action) => names?.actions?.[action] ?? `action ${action}`;
// Whether a cell of the policy says the action's name: where all names are short, and not too many are side by side.
const spelled = (steps) => !!names?.actions && steps <= 12 && names.actions.every((name) => name.length <= 12);

function colour(action) {
  return action < COLOURS.length ? COLOURS[action] : `hsl(${(action * 137.5) % 360} 65% 72%)`;
}

function choices() {
  const { shape, numbers } = array(board.policy);
  const [steps, states, actions = 0] = shape;
  const action = new Int32Array(steps * states), likely = new Float64Array(steps * states).fill(1);
  for (let cell = 0; cell < steps * states; cell++) {
    if (!actions) {
      action[cell] = numbers[cell];
    } else {
      const row = numbers.subarray(cell * actions, (cell + 1) * actions);
      likely[cell] = Math.max(...row);
      action[cell] = row.indexOf(likely[cell]);
    }
  }
  return { action, likely, steps, states, random: actions > 0 };
}

function drawPolicy() {
  const { action, likely, steps, states, random } = choices();
  firstState = Math.min(firstState, Math.floor((states - 1) / STATES_PER_PAGE) * STATES_PER_PAGE);
  const last = Math.min(states, firstState + STATES_PER_PAGE);
  const inWords = spelled(steps);
  drawLegend(action, inWords);
  $("map").classList.toggle("spelled", inWords);
  $("map-caption").textContent =
    `Version ${board.version}: which action a user is given, by state (rows) and step (columns).` +
    (random ? " Shown is the likeliest action; the paler the cell, the less likely it is." : "");
  const head = document.createElement("tr");
  const corner = document.createElement("td");
  corner.className = "corner";
  corner.textContent = "step";
  head.append(corner, ...Array.from({ length: steps }, (_, h) => heading("col", `${h + 1}`, `step ${h + 1}`)));
  const rows = [];
  for (let state = firstState; state < last; state++) {
    const row = document.createElement("tr");
    row.append(heading("row", stateName(state)));
    for (let h = 0; h < steps; h++) {
      const cell = document.createElement("td"), at = h * states + state;
      cell.textContent = inWords ? actionName(action[at]) : action[at];
      cell.title = `step ${h + 1}, ${stateName(state)}: ${actionName(action[at])}` + (random ? `, probability ${short(likely[at])}` : "");
      cell.style.setProperty("--action", colour(action[at]));
      cell.style.setProperty("--likely", random ? Math.max(0.12, likely[at]).toFixed(3) : 1);
      row.append(cell);
    }
    rows.push(row);
  }
  $("map").tHead.replaceChildren(head);
  $("map").tBodies[0].replaceChildren(...rows);
  $("map-pages").hidden = states <= STATES_PER_PAGE;
  $("map-where").textContent = `states ${firstState}–${last - 1} of ${whole(states)}`;
  $("map-back").disabled = firstState === 0;
  $("map-on").disabled = last === states;
}

function heading(scope, text, label) {
  const made = document.createElement("th");
  made.scope = scope;
  made.textContent = text;
  if (label) made.setAttribute("aria-label", label);
  return made;
}

function drawLegend(action, inWords) {
  const counts = new Array(board.actions).fill(0);
  for (const one of action) counts[one]++;
  const items = counts.map((count, one) => [count, one]).filter(([count]) => count || board.actions <= COLOURS.length);
  $("map-legend").replaceChildren(...items.map(([count, one]) => {
    const item = document.createElement("li"), mark = document.createElement("i");
    mark.className = "mark action";
    mark.style.setProperty("--action", colour(one));
    const label = names?.actions && !inWords ? `${one} ${actionName(one)}` : actionName(one);
    item.append(mark, `${label}: ${Math.round(100 * count / action.length)} % of cells`);
    return item;
  }));
}

for (const [id, move] of [["map-back", -STATES_PER_PAGE], ["map-on", STATES_PER_PAGE]]) {
  $(id).addEventListener("click", () => {
    firstState += move;
    drawPolicy();
    $(id).focus();
  });
}

setInterval(() => { // no user coming is news too: the rate falls
  if (!status) return;
  count(status.admitted);
  drawStanding();
}, 5000);

new ResizeObserver(() => requestAnimationFrame(() => {
  if (!status) return;
  drawReleases();
  drawInsights();
})).observe(document.querySelector("main"));

follow();

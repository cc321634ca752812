// SPDX-License-Identifier: Apache-2.0
/**
 * A visitor of this page is a user in the local model: their browser acts by the published policy, keeps their day to itself,
 * and sends one noised report, once, whatever the service says.
 *
 * The world is `mobile-health`: four levels of activity times four of burden, and three messages.
 */

import { BUDGET_SPENT, Client } from "./client/index.js";
import { readIntegers } from "./client/wire/index.js";

const ACTIVITIES = ["idle", "a little active", "moderately active", "vigorously active"];
const BURDENS = ["fresh", "prompted", "weary", "fed up"];
const MESSAGES = [
  { name: "nothing", text: "The app leaves you alone." },
  { name: "a gentle prompt", text: "“How about a short walk around the block?”" },
  { name: "a strong prompt", text: "“Up you get! Twenty minutes at a good pace, starting now.”" },
];
const TIMES = ["8:00", "10:30", "13:00", "15:30", "18:00", "20:30"];
const FIRST = 1 * BURDENS.length + 0; // a little active, fresh
const SVG = "http://www.w3.org/2000/svg";

const at = (id) => document.getElementById(id);
const visitor = localStorage.getItem("visitor") ?? crypto.randomUUID();
localStorage.setItem("visitor", visitor);
const { epsilon, delta } = document.body.dataset;
const client = new Client(location.origin, null, { trust: "local", epsilon: Number(epsilon), delta: Number(delta) });
const day = [];
let episode, state;

/** How good the moment is: activity, the goal, ease of mind, and silence where no message was needed. */
function rewardOf(here, action) {
  const [activity, burden] = [Math.floor(here / BURDENS.length), here % BURDENS.length];
  return 0.35 * (activity / 3) + 0.4 * (activity === 3) + 0.2 * (1 - burden / 3) + 0.05 * [1, 0.6, 0][action];
}

function stateName(here) {
  return `${ACTIVITIES[Math.floor(here / BURDENS.length)]}, ${BURDENS[here % BURDENS.length]}`;
}

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
  return made;
}

function choices(name, labels) {
  at(name).replaceChildren(...labels.map((label, value) => {
    const choice = element("label", "");
    choice.append(element("input", "", { type: "radio", name, value, required: "" }), label);
    return choice;
  }));
}

async function prepare() {
  const model = await client.model();
  if (model.sizes.states !== 16 || model.sizes.actions !== 3 || model.sizes.horizon !== TIMES.length) {
    at("promise").textContent = "This page is made for the world mobile-health; the service has another one.";
    return;
  }
  await client.requireTrustworthy();
  await client.resume(visitor); // what a closed page did not get through
  const { admitted, served_version: version } = await client.status();
  at("promise").textContent =
    `Checked in your browser: one report reveals at most ε = ${epsilon} at δ = ${delta}, to any reader. ` +
    `${admitted} people have taken part; the policy is version ${version}.`;
  choices("activity", ACTIVITIES);
  choices("burden", BURDENS);
  at("begin").hidden = false;
}

async function begin() {
  at("begin").hidden = true;
  episode = await client.episode(visitor).open();
  state = FIRST;
  at("day").hidden = false;
  await moment();
}

async function moment() {
  const action = await episode.act(state);
  day.push({ time: TIMES[episode.step], state, action });
  at("clock").replaceChildren(
    ...TIMES.map((_, step) => element("li", "", step <= episode.step ? { class: "past" } : {})),
  );
  at("moment").textContent = `${TIMES[episode.step]} · you are ${stateName(state)}`;
  at("message").textContent = MESSAGES[action].text;
  at("answer").reset();
  at("moment").focus();
}

async function next() {
  const given = new FormData(at("answer"));
  const following = Number(given.get("activity")) * BURDENS.length + Number(given.get("burden"));
  episode.observe(rewardOf(state, day.at(-1).action), following);
  state = following;
  if (!episode.complete) return moment();
  await episode.submit();
  return show();
}

async function leave() {
  await episode.submitEmpty();
  return show();
}

async function show() {
  at("day").hidden = true;
  at("result").hidden = false;
  at("result").dataset.status = episode.status;
  at("stays").replaceChildren(...day.map((one) => {
    const row = element("tr", "");
    row.append(element("td", one.time), element("td", stateName(one.state)), element("td", MESSAGES[one.action].name));
    return row;
  }));
  if (episode.learning) await showReport();
  else showNothing();
  at("outcome").focus();
}

function showNothing() {
  at("outcome").textContent = "You were served, and nothing was sent";
  at("explanation").textContent = episode.reason === BUDGET_SPENT
    ? "Your browser has sent a report before, and sends no second one, although the service asked for it."
    : "The service has learned from you before, or from all the people it was to learn from.";
  at("left").textContent = "Nothing but your visitor’s name, a random one.";
  at("chart").remove();
}

async function showReport() {
  const { content } = await episode.submission();
  const { rules } = await client.model();
  const report = readIntegers("report", content.report, rules.noiseScale.shape);
  const numbers = Array.from(report.data, (steps) => Number(steps) * rules.grid);
  at("outcome").textContent = episode.status === "empty" ? "You left, and it hardly shows" : "Your day was counted";
  at("explanation").textContent = episode.status === "empty"
    ? "A report of noise alone was sent, so that leaving looks like staying."
    : "The app learns from you together with everyone else. How little it learns about you alone is the promise above.";
  at("left").textContent = `One report of ${numbers.length} numbers, each with noise of standard deviation ` +
    `${rules.noiseScale.data[0].toPrecision(3)} that your browser drew.`;
  at("legend").textContent =
    "Bars: the numbers that were sent. Grey band: as far as your day can move any of them, 1 at most; the rest is noise.";
  draw(numbers);
}

/** One bar for each number, from the middle line; few numbers are written beside their bars. */
function draw(numbers) {
  const [width, middle, tall, largest] = [320, 80, 58, Math.max(1, ...numbers.map(Math.abs))];
  const shape = (name, attributes, text = "") => {
    const made = document.createElementNS(SVG, name);
    made.textContent = text;
    Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
    at("chart").append(made);
  };
  const [band, step] = [Math.max(1, tall / largest), width / numbers.length];
  shape("rect", { class: "person", x: 0, y: middle - band, width, height: 2 * band });
  numbers.forEach((number, place) => {
    const height = Math.max(1, (tall * Math.abs(number)) / largest);
    const y = number > 0 ? middle - height : middle;
    shape("rect", { class: "number", x: (place + 0.15) * step, y, width: 0.7 * step, height });
    if (numbers.length > 12) return;
    const beside = number > 0 ? y - 5 : y + height + 13;
    shape("text", { x: (place + 0.5) * step, y: beside, "text-anchor": "middle" }, number.toFixed(1));
  });
  shape("line", { class: "axis", x1: 0, x2: width, y1: middle, y2: middle });
}

/** Say what went wrong; what was formed is kept, and is sent when the page is opened again. */
function failed(problem) {
  at("promise").textContent = problem.message;
  at("promise").dataset.failed = problem.name;
}

at("begin").addEventListener("click", () => begin().catch(failed));
at("leave").addEventListener("click", () => leave().catch(failed));
at("answer").addEventListener("submit", (event) => {
  event.preventDefault();
  next().catch(failed);
});
prepare().catch(failed);

// SPDX-License-Identifier: Apache-2.0
// The interactive page: reads the curves that the page carries, answers, and draws them. No library, no request.
"use strict";

(() => {
  const data = JSON.parse(document.getElementById("explore-curves").textContent);
  const form = document.getElementById("explore-form");
  const slider = document.getElementById("explore-users");
  const chart = document.getElementById("explore-chart");
  const put = (name, text) => { document.getElementById(`explore-${name}`).textContent = text; };

  const WORLDS = {
    "mobile-health": "An app that helps people to move more: six times a day a strong prompt, a gentle one, or none.",
    tutor: "A lesson of eight exercises in arithmetic: what next, how hard, and when to rest.",
  };
  const TRUSTS = {
    joint: "The server sees raw data; hidden is what others are shown and what is published.",
    shuffle: "Only the user sees raw data; a mixer shuffles one-bit messages before anyone reads them.",
    local: "Only the user sees raw data; what leaves the device is noised already.",
  };
  const FROM = {
    joint: "He may be anybody but the server.",
    shuffle: "He may be the server, if the mixer mixes.",
    local: "He may be the server.",
  };

  const grouped = (value) => Math.round(value).toLocaleString("en-US");
  const digits = (value) => (value >= 100 ? grouped(value) : String(Number(value.toPrecision(2))));
  const about = (users) => grouped(Number(users.toPrecision(2)));
  const percent = (share) => {
    if (share < 0.0001) return "below 0.01\u00a0%";
    return `${share >= 0.1 ? Math.round(100 * share) : Number((100 * share).toPrecision(2))}\u00a0%`;
  };
  const median = (many, place) => many.median[place];

  function chosen() {
    const values = new FormData(form);
    const [world, trust, epsilon, show] = ["world", "trust", "epsilon", "show"].map((name) => values.get(name));
    const here = data.worlds[world];
    return {
      world, trust, epsilon, show,
      place: Number(slider.value),
      users: data.points[Number(slider.value)],
      curve: here.curves[`${trust},${epsilon}`],
      floor: here.curves.none,
      random: here.random,
      attacker: data.attacker[`${trust},${epsilon}`],
    };
  }

  function answer(now) {
    const { place, curve, floor, users } = now;
    const most = data.settings.users;
    put("world", WORLDS[now.world]);
    put("trust", TRUSTS[now.trust]);
    put("count", `about ${about(users)} users`);
    slider.setAttribute("aria-valuetext", `about ${about(users)} users`);

    const lost = median(curve.regret, place);
    put("regret", digits(lost));
    put("regret-note", `nine in ten runs: ${digits(curve.regret.low[place])} to ${digits(curve.regret.high[place])}; ` +
      `without privacy ${digits(median(floor.regret, place))}, acting at random ${digits(now.random * users)}`);
    put("gap", percent(median(curve.gap, place)));
    put("gap-note", `of what acting at random loses; nine in ten runs: ${percent(curve.gap.low[place])} to ` +
      `${percent(curve.gap.high[place])}; without privacy ${percent(median(floor.gap, place))}`);

    const until = curve.until;
    const needed = (value) => (value === null ? `more than ${grouped(most)}` : grouped(value));
    put("until", needed(until.median));
    put("until-note", `in half of the runs; in nine of ten ${needed(until.high)}; without privacy ${needed(floor.until.median)}` +
      (until.median === null || until.median > users ? `. Not reached with ${about(users)} users` : ""));

    const right = `at most ${Number((100 * now.attacker.right).toFixed(1))}\u00a0%`;
    put("right", right);
    put("right-note", `of the time, against 50 % by tossing a coin. Accusing one innocent in a hundred, he finds at most ` +
      `${percent(now.attacker.found)} of the true stories. ${FROM[now.trust]}`);
    put("said", `${now.world}, ${now.trust}, ε ${now.epsilon}, about ${about(users)} users: regret ${digits(lost)}, gap ` +
      `${percent(median(curve.gap, place))}, an attacker's best guess right ${right} of the time.`);
  }

  // -- the picture -----------------------------------------------------------------------------------------------------

  const SVG = "http://www.w3.org/2000/svg";
  const make = (parent, name, attributes, text) => {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    return parent.appendChild(node);
  };
  const decades = (low, high) => {
    const all = [];
    for (let power = Math.ceil(Math.log10(low) - 1e-9); 10 ** power <= high * (1 + 1e-9); power++) all.push(10 ** power);
    return all;
  };

  function draw(now) {
    const isGap = now.show === "gap";
    const curve = now.curve[now.show], floor = now.floor[now.show], points = data.points;
    const random = points.map((users) => (isGap ? 1 : now.random * users));
    const width = Math.max(280, chart.clientWidth), height = Math.round(Math.min(420, Math.max(260, 0.6 * width)));
    const left = 64, right = 16, top = 28, bottom = 46;
    // The same axes for every choice in a world, so that pictures can be compared.
    const low = isGap ? 1e-4 : now.random * points[0] / 2, high = isGap ? 2 : 2 * now.random * points[points.length - 1];
    const from = Math.log(points[0]), to = Math.log(points[points.length - 1]);
    const x = (users) => left + (width - left - right) * (Math.log(users) - from) / (to - from);
    const inside = (value) => Math.min(high, Math.max(low, value));
    const y = (value) => top + (height - top - bottom) * (Math.log(high) - Math.log(inside(value))) / (Math.log(high) - Math.log(low));
    const path = (values) => values.map((value, i) => `${i ? "L" : "M"}${x(points[i]).toFixed(1)} ${y(value).toFixed(1)}`).join("");

    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("role", "img");
    const what = isGap ? "Gap to the best policy" : "Regret so far";
    svg.setAttribute("aria-label", `${what} against users, both on logarithmic axes, for ${now.world}, ${now.trust} trust, ` +
      `ε ${now.epsilon}: median of ${data.settings.seeds} runs, the band of nine in ten of them, the same learner without ` +
      "privacy, and acting at random. The table below has the numbers.");
    for (const value of decades(low, high)) {
      make(svg, "path", { class: "explore-grid", d: `M${left} ${y(value)}H${width - right}` });
      const said = isGap ? `${Number((100 * value).toPrecision(3))} %` : grouped(value);
      make(svg, "text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, said);
    }
    for (const users of decades(points[0], points[points.length - 1])) {
      make(svg, "path", { class: "explore-grid", d: `M${x(users)} ${top}V${height - bottom}` });
      const anchor = users === points[points.length - 1] ? "end" : "middle";
      make(svg, "text", { x: x(users), y: height - bottom + 18, "text-anchor": anchor }, width < 480 && users >= 1000 ? `${grouped(users / 1000)}k` : grouped(users));
    }
    make(svg, "text", { x: left + (width - left - right) / 2, y: height - 6, "text-anchor": "middle" }, "users so far");
    make(svg, "text", { x: 4, y: 14 }, isGap ? "gap (100 % is acting at random)" : "regret (reward lost so far)");

    const back = [...points.keys()].reverse().map((i) => `L${x(points[i]).toFixed(1)} ${y(curve.low[i]).toFixed(1)}`).join("");
    make(svg, "path", { class: "explore-band", d: `${path(curve.high)}${back}Z` });
    make(svg, "path", { class: "explore-random", d: path(random) });
    make(svg, "path", { class: "explore-floor", d: path(floor.median) });
    make(svg, "path", { class: "explore-private", d: path(curve.median) });
    make(svg, "path", { class: "explore-here", d: `M${x(now.users)} ${top}V${height - bottom}` });
    make(svg, "circle", { cx: x(now.users), cy: y(curve.median[now.place]), r: 5 });
    svg.addEventListener("click", (event) => {
      const box = svg.getBoundingClientRect();
      const at = from + (to - from) * (((event.clientX - box.left) * width) / box.width - left) / (width - left - right);
      const away = points.map((users) => Math.abs(Math.log(users) - at));
      slider.value = String(away.indexOf(Math.min(...away)));
      show();
    });
    chart.replaceChildren(svg);
  }

  function tabulate(now) {
    const said = now.show === "gap" ? percent : digits;
    const curve = now.curve[now.show], floor = now.floor[now.show];
    const last = data.points.length - 1;
    const places = [...data.points.keys()].filter((i) => (last - i) % 6 === 0);
    const cells = (tag, texts, scope) => {
      const row = document.createElement("tr");
      texts.forEach((text, i) => {
        const cell = row.appendChild(document.createElement(scope || i === 0 ? "th" : tag));
        if (cell.tagName === "TH") cell.scope = scope || "row";
        cell.textContent = text;
      });
      return row;
    };
    const caption = document.createElement("caption");
    caption.textContent = `${now.show === "gap" ? "Gap" : "Regret"}: ${now.world}, ${now.trust} trust, ε ${now.epsilon}`;
    const head = document.createElement("thead"), body = document.createElement("tbody");
    head.append(cells("th", ["users", "median", "5 %", "95 %", "without privacy"], "col"));
    for (const i of places) {
      body.append(cells("td", [grouped(data.points[i]), ...[curve.median[i], curve.low[i], curve.high[i], floor.median[i]].map(said)]));
    }
    document.getElementById("explore-table").replaceChildren(caption, head, body);
  }

  function show() {
    const now = chosen();
    answer(now);
    draw(now);
    tabulate(now);
  }

  slider.max = String(data.points.length - 1);
  const start = data.points.map((users) => Math.abs(Math.log(users / 20000)));
  slider.value = String(start.indexOf(Math.min(...start)));
  form.hidden = false;
  document.getElementById("explore-result").hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("explore").addEventListener("input", show);
  let wide = 0;
  new ResizeObserver(() => {
    if (chart.clientWidth !== wide) {
      wide = chart.clientWidth;
      draw(chosen());
    }
  }).observe(chart);
  show();
})();

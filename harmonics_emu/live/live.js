"use strict";
// Asks for the run's state twice a second and shows it. Names go in as text, never as markup.
const EVERY_MS = 500, WHEN_OVER_MS = 5000, SVG = "http://www.w3.org/2000/svg";
const at = (id) => document.getElementById(id);
const text = (node, value) => { if (node.textContent !== value) node.textContent = value; };

const time = (seconds) => seconds === null || seconds === undefined ? "-"
  : seconds < 1 ? `${(1000 * seconds).toPrecision(3)} ms` : `${seconds.toPrecision(seconds < 100 ? 3 : 5)} s`;
const part = (value) => `${Math.round(100 * value)} %`;
const rate = (bps) => bps >= 1e9 ? `${bps / 1e9} Gbit/s` : bps >= 1e6 ? `${bps / 1e6} Mbit/s` : `${bps / 1e3} kbit/s`;

// Rows are kept by name, so that what a reader has selected or focused stays.
const rows = new Map();
const rowOf = (table, name, kinds) => {
  const key = `${table} ${name}`;
  if (rows.has(key)) return rows.get(key);
  const row = document.createElement("tr");
  for (const [place, kind] of kinds.entries()) {
    const cell = document.createElement(place === 0 ? "th" : "td");
    if (place === 0) cell.scope = "row";
    if (kind === "number") cell.className = "number";
    if (kind === "meter") {
      const meter = document.createElement("div");
      meter.className = "meter";
      meter.setAttribute("role", "meter");
      meter.setAttribute("aria-valuemin", "0");
      meter.setAttribute("aria-valuemax", "100");
      meter.setAttribute("aria-label", name);
      meter.append(document.createElement("i"));
      cell.append(meter);
    }
    if (kind === "spark") {
      const spark = document.createElementNS(SVG, "svg");
      spark.setAttribute("class", "spark");
      spark.setAttribute("viewBox", "0 0 100 20");
      spark.setAttribute("preserveAspectRatio", "none");
      spark.setAttribute("role", "img");
      spark.append(document.createElementNS(SVG, "line"), document.createElementNS(SVG, "polyline"));
      cell.append(spark);
    }
    row.append(cell);
  }
  rows.set(key, row);
  return row;
};
const fill = (meter, value) => {
  const width = 100 * Math.max(0, Math.min(1, value));
  meter.firstChild.style.width = `${width}%`;
  meter.setAttribute("aria-valuenow", String(Math.round(width)));
};
const draw = (spark, values, most, mark, label) => {
  const [line, curve] = spark.children;
  const height = (value) => (19 - 18 * Math.min(1, value / most)).toFixed(2);
  curve.setAttribute("points", values.map((value, i) => `${(100 * i / Math.max(1, values.length - 1)).toFixed(2)},${height(value)}`).join(" "));
  const level = mark === null ? 30 : height(mark);
  for (const [key, value] of Object.entries({x1: 0, x2: 100, y1: level, y2: level})) line.setAttribute(key, String(value));
  spark.setAttribute("aria-label", label);
};
const put = (table, wanted) => {
  const body = at(table).tBodies[0];
  if (wanted.length !== body.rows.length || wanted.some((row, i) => row !== body.rows[i])) body.replaceChildren(...wanted);
};
const list = (node, values) => {
  if (values.length === node.children.length && values.every((value, i) => value === node.children[i].textContent)) return;
  node.replaceChildren(...values.map((value) => { const item = document.createElement("li"); item.textContent = value; return item; }));
};

const JOB = ["name", "meter", "number", "text", "number", "number", "number", "number", "spark"];
const showJob = (job) => {
  const row = rowOf("jobs", job.name, JOB), cells = row.cells;
  text(cells[0], job.name);
  fill(cells[1].firstChild, job.total ? job.done / job.total : 0);
  text(cells[2], `${job.done}/${job.total}`);
  text(cells[3], job.state);
  text(cells[4], job.level === null ? "-" : String(job.level));
  const recent = job.recent_s, last = recent.length ? recent[recent.length - 1] : null;
  text(cells[5], time(last));
  text(cells[6], job.counted ? time(job.iteration_sum_s / job.counted) : "-");
  text(cells[7], time(job.isolated_s));
  const most = Math.max(...recent, job.isolated_s ?? 0, 1e-9);
  draw(cells[8].firstChild, recent, most, job.isolated_s, `the latest ${recent.length} iterations, the longest ${time(most)}`);
  return row;
};
const LINK = ["name", "meter", "number", "number", "spark"];
const showLink = (link) => {
  const row = rowOf("links", link.name, LINK), cells = row.cells;
  text(cells[0], link.name);
  fill(cells[1].firstChild, link.use);
  text(cells[2], part(link.use));
  text(cells[3], rate(link.rate_bps));
  draw(cells[4].firstChild, link.recent, 1, null, `use before, now ${part(link.use)}`);
  return row;
};
const show = (run) => {
  const over = run.verdict !== null;
  document.title = `${run.scenario} under ${run.policy}`;
  text(at("title"), document.title);
  text(at("about"), `${run.engine === "emulate" ? "Emulated" : "Simulated"}, seed ${run.seed}, ${time(run.time_s)} since time zero` +
    (run.S === null ? "" : `, S ${run.S.toFixed(2)}`));
  const shown = over ? `${run.state}: ${run.verdict}` : run.state;
  text(at("state"), shown);
  at("state").className = `badge ${over ? run.verdict.replace(" ", "-") : run.state}`;
  text(at("phase"), run.state === "silent" ? `The run has said nothing ${run.silent_s === null ? "yet" : `for ${Math.round(run.silent_s)} s`}.` : run.phase === run.state ? "" : run.phase);
  list(at("reasons"), run.reasons);
  put("jobs", run.jobs.map(showJob));
  put("links", run.links.map(showLink));
  text(at("more-jobs"), run.jobs_left_out ? `${run.jobs_left_out} more jobs are not listed.` : "");
  text(at("more-links"), run.links.length ? (run.links_left_out ? `${run.links_left_out} more links carry less.` : "") : "No link was sampled.");
  list(at("notices"), run.notices);
  return over;
};
let updates = 0;
const update = async () => {
  let next = EVERY_MS;
  try {
    const answer = await fetch("state.json", {cache: "no-store"});
    if (!answer.ok) throw new Error(String(answer.status));
    if (show(await answer.json())) next = WHEN_OVER_MS;
    document.body.dataset.updates = String(++updates);
  } catch {
    text(at("state"), "no answer");
    at("state").className = "badge lost";
    text(at("phase"), "harmonics-emu serve does not answer: it may have been ended.");
  }
  setTimeout(update, next);
};
update();

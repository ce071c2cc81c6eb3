"use strict";
// Zooms and moves the timelines: buttons, or + - and the arrow keys while a timeline has the focus.
const LEAST_SPAN_S = 0.005, TICKS = 6;
for (const timeline of document.querySelectorAll(".timeline")) {
  const end = Number(timeline.dataset.end);
  let from = 0, to = Number(timeline.dataset.to);
  const show = () => {
    for (const lane of timeline.querySelectorAll("svg")) lane.setAttribute("viewBox", `${from} 0 ${to - from} 1`);
    const decimals = Math.max(0, Math.min(4, Math.ceil(-Math.log10((to - from) / TICKS))));
    const ticks = [];
    for (let i = 0; i < TICKS; i++) {
      const tick = document.createElement("span");
      tick.textContent = `${(from + (to - from) * i / (TICKS - 1)).toFixed(decimals)} s`;
      tick.style.left = `${100 * i / (TICKS - 1)}%`;
      ticks.push(tick);
    }
    timeline.querySelector(".axis").replaceChildren(...ticks);
  };
  const look = (begin, span) => {
    span = Math.min(end, Math.max(LEAST_SPAN_S, span));
    from = Math.min(Math.max(0, begin), end - span);
    to = from + span;
    show();
  };
  const moves = {
    in: () => look(from + (to - from) / 4, (to - from) / 2),
    out: () => look(from - (to - from) / 2, (to - from) * 2),
    back: () => look(from - (to - from) / 2, to - from),
    on: () => look(from + (to - from) / 2, to - from),
    all: () => look(0, end),
  };
  for (const button of timeline.querySelectorAll("button[data-move]")) button.addEventListener("click", moves[button.dataset.move]);
  const keys = {"+": "in", "=": "in", "-": "out", ArrowLeft: "back", ArrowRight: "on", "0": "all"};
  timeline.addEventListener("keydown", (event) => {
    if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    moves[keys[event.key]]();
  });
}

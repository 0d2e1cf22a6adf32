// Beside the chat: the newest turn, step by step, as the gateway reports it, and the button that kills the gateway.

import { swatch, timeOf } from "./account.js";
import { make } from "./bubbles.js";

const $ = (id) => document.getElementById(id);

export class Live {
  constructor(onKill) {
    $("kill").addEventListener("click", onKill);
  }

  gateway({ text }) {
    if ($("gateway").textContent !== text) $("gateway").textContent = text; // read out when it changes
  }

  // Rows stay what they are while they grow: only so can a bar move smoothly.
  turn({ steps, whole, is_over: isOver } = { steps: [], whole: 0 }) {
    const rows = $("steps").children;
    while (rows.length > steps.length) rows[rows.length - 1].remove();
    while (rows.length < steps.length) $("steps").append(emptyRow());
    steps.forEach((step, n) => fill(rows[n], step, whole));
    $("live").classList.toggle("running", Boolean(steps.length) && !isOver);
    $("whole").textContent = whole ? `${timeOf(whole)} ${isOver ? "in all, stored and delivered" : "so far"}` : "";
  }
}

function emptyRow() {
  const row = make("li", "");
  const track = make("span", "track");
  track.append(swatch(0));
  row.append(make("span", "what"), track, make("b", ""));
  return row;
}

function fill(row, [name, kind, begin, end], whole) {
  const [what, track, figure] = row.children;
  what.textContent = name;
  figure.textContent = timeOf(end - begin);
  const bar = track.lastChild;
  bar.className = `kind-${kind}`;
  bar.style.left = `${(100 * begin) / whole}%`;
  bar.style.width = `${(100 * (end - begin)) / whole}%`;
}

// Stops what refreshes itself while the tab is not seen or a text of it is selected, keeps the
// focus and where tables were scrolled to, and says how old it is while the gateway does not answer. Asks before
// acts that say so, and leaves empty filters out of addresses.
"use strict";

function isRead(part) {
  const selection = document.getSelection();
  return !selection.isCollapsed && part.contains(selection.anchorNode);
}

document.addEventListener("htmx:beforeRequest", (event) => {
  const part = event.target;
  if (part.matches(".live") && (document.hidden || isRead(part))) event.preventDefault();
});

let scrolled = [];
let focused = null;

document.addEventListener("htmx:beforeSwap", (event) => {
  if (!event.target.matches(".live")) return;
  const active = document.activeElement;
  focused = event.target.contains(active) && [active.closest(".wide")?.id, active.getAttribute("href")];
  scrolled = [...event.target.querySelectorAll(".wide")].map((table) => [table.id, table.scrollLeft]);
});

document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  for (const part of document.querySelectorAll(".live")) htmx.trigger(part, "seen");
});

const outage = document.createElement("p");
outage.className = "error";
outage.setAttribute("role", "alert");
let answeredAt = new Date();

function showOutage(event) {
  if (outage.isConnected || !event.target.matches(".live")) return;
  const time = answeredAt.toLocaleTimeString("en-GB", { timeZone: document.body.dataset.zone });
  outage.textContent = `The gateway does not answer. What you see is from ${time}.`;
  event.target.before(outage);
}

for (const name of ["htmx:sendError", "htmx:timeout", "htmx:responseError"]) {
  document.addEventListener(name, showOutage);
}

document.addEventListener("htmx:afterSwap", (event) => {
  if (!event.target.matches(".live")) return;
  answeredAt = new Date();
  outage.remove();
  for (const [id, left] of scrolled) document.getElementById(id)?.scrollTo({ left });
  if (!focused) return;
  const links = (document.getElementById(focused[0]) ?? event.target).querySelectorAll("a");
  [...links].find((link) => link.getAttribute("href") === focused[1])?.focus();
});

document.addEventListener("submit", (event) => {
  const question = event.target.dataset.question;
  if (question && !window.confirm(question)) event.preventDefault();
});

document.addEventListener("formdata", (event) => {
  if (!event.target.matches(".filters")) return;
  for (const [name, value] of [...event.formData]) if (!value) event.formData.delete(name);
});

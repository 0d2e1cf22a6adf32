// Stops what refreshes itself while the tab is not seen and says how old it is while the gateway
// does not answer, asks before acts that say so, and leaves empty filters out of addresses.
"use strict";

document.addEventListener("htmx:beforeRequest", (event) => {
  if (document.hidden && event.target.matches(".live")) event.preventDefault();
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
});

document.addEventListener("submit", (event) => {
  const question = event.target.dataset.question;
  if (question && !window.confirm(question)) event.preventDefault();
});

document.addEventListener("formdata", (event) => {
  if (!event.target.matches(".filters")) return;
  for (const [name, value] of [...event.formData]) if (!value) event.formData.delete(name);
});

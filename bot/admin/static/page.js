// Stops what refreshes itself while the tab is not seen, asks before acts that say so, and
// leaves empty filters out of addresses.
"use strict";

document.addEventListener("htmx:beforeRequest", (event) => {
  if (document.hidden && event.target.matches(".live")) event.preventDefault();
});

document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  for (const part of document.querySelectorAll(".live")) htmx.trigger(part, "seen");
});

document.addEventListener("submit", (event) => {
  const question = event.target.dataset.question;
  if (question && !window.confirm(question)) event.preventDefault();
});

document.addEventListener("formdata", (event) => {
  if (!event.target.matches(".filters")) return;
  for (const [name, value] of [...event.formData]) if (!value) event.formData.delete(name);
});

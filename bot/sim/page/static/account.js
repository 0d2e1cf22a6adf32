// Where an answer's seconds went, below it: one bar in proportion, the figures, and what the server counted.

const MIN_SHOWN = 0.0005; // seconds; less would be shown as nought

export function accountOf(account) {
  const box = document.createElement("div");
  box.className = "account";
  box.append(brief(account, box), bar(account), list(account), counts(account.tokens));
  return box;
}

export function timeOf(seconds) {
  return seconds < 0.0995 ? `${(seconds * 1000).toFixed(0)} ms` : `${seconds.toFixed(2)} s`;
}

export function swatch(kind) {
  const made = document.createElement("i");
  made.className = `kind-${kind}`;
  return made;
}

// On a phone: one line, which opens the rest.
function brief(account, box) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = "brief";
  made.textContent = account.summary;
  made.ariaExpanded = "false";
  made.addEventListener("click", () => (made.ariaExpanded = String(box.classList.toggle("open"))));
  return made;
}

function bar(account) {
  const made = document.createElement("div");
  made.className = "bar-of";
  for (const { kind, seconds } of account.seconds) {
    const piece = swatch(kind);
    piece.style.flexGrow = (100 * seconds) / account.whole;
    made.append(piece);
  }
  return made;
}

function list(account) {
  const made = document.createElement("ul");
  made.append(item(null, "in all", account.whole, "from the message fetched to the whole answer delivered"));
  for (const { kind, name, seconds, why } of account.seconds) {
    if (seconds >= MIN_SHOWN) made.append(item(kind, name, seconds, why));
  }
  return made;
}

function item(kind, name, seconds, why) {
  const made = document.createElement("li");
  made.title = why;
  const figure = document.createElement("b");
  if (kind !== null) made.append(swatch(kind));
  figure.textContent = timeOf(seconds);
  made.append(kind === null ? "" : `${name} `, figure, kind === null ? ` ${name}` : "");
  return made;
}

function counts(text) {
  const made = document.createElement("ul");
  made.className = "counts";
  for (const part of text.split(" · ")) {
    const item = document.createElement("li");
    item.textContent = part;
    made.append(item);
  }
  return made;
}

// Where an answer's seconds went, below it: one bar in proportion, the figures, and what the server counted.

const MIN_SHOWN = 0.0005; // seconds; less would be shown as nought

export function accountOf(account) {
  const box = document.createElement("div");
  box.className = "account";
  box.append(bar(account), list(account), counts(account.tokens));
  return box;
}

function bar(account) {
  const made = document.createElement("div");
  made.className = "bar-of";
  for (const { kind, seconds } of account.seconds) {
    const piece = document.createElement("i");
    piece.className = `kind-${kind}`;
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
  if (kind !== null) {
    const dot = document.createElement("i");
    dot.className = `kind-${kind}`;
    made.append(dot);
  }
  figure.textContent = seconds < 0.0995 ? `${(seconds * 1000).toFixed(0)} ms` : `${seconds.toFixed(2)} s`;
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

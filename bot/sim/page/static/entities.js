// A message's text with its entities as DOM nodes. Content only ever becomes text nodes and checked addresses.

const TAGS = { bold: "strong", italic: "em", underline: "u", strikethrough: "s", code: "code" };
const BLOCKS = new Set(["pre", "blockquote", "expandable_blockquote"]);
const PROTOCOLS = new Set(["http:", "https:", "tg:", "mailto:"]);

const COMMAND = /(?<![^\s(])\/[a-z0-9_]{1,32}\b/gi;
const ADDRESS = /\bhttps?:\/\/[^\s<>"]+/gi;

// Offsets are UTF-16 units, as JavaScript counts them.
export function nodesOf(text, entities, onCommand) {
  const all = [...entities, ...found(text, entities)];
  const sorted = all.sort((a, b) => a.offset - b.offset || b.length - a.length);
  return range(text, sorted, 0, text.length, onCommand);
}

// Telegram finds commands and addresses in what a bot writes, too, and lets people tap them.
function found(text, entities) {
  const isTaken = (at) => entities.some((other) => other.offset <= at && at < other.offset + other.length);
  const all = (type, pattern) => [...text.matchAll(pattern)].map((match) => ({ type, match }));
  return [...all("bot_command", COMMAND), ...all("url", ADDRESS)]
    .filter(({ match }) => !isTaken(match.index))
    .map(({ type, match }) => ({ type, offset: match.index, length: addressLength(match[0]) }));
}

// Punctuation at the end belongs to the sentence, and so does a bracket that is not opened in the address.
function addressLength(text) {
  const surplus = { ")": count(text, ")") - count(text, "("), "]": count(text, "]") - count(text, "[") };
  let length = text.length;
  while (".,:;!?".includes(text[length - 1]) || surplus[text[length - 1]]-- > 0) length--;
  return length;
}

const count = (text, character) => text.split(character).length - 1;

function range(text, entities, from, to, onCommand) {
  const nodes = [];
  let at = from;
  for (let n = 0; n < entities.length; n++) {
    const entity = entities[n];
    const begin = Math.max(entity.offset, at);
    const end = Math.min(entity.offset + entity.length, to);
    if (begin >= end) continue;
    if (begin > at) nodes.push(text.slice(at, begin));
    const inner = entities.slice(n + 1).filter((other) => other.offset < end);
    nodes.push(element(entity, text.slice(begin, end), range(text, inner, begin, end, onCommand), onCommand));
    at = end;
  }
  if (at < to) nodes.push(text.slice(at, to));
  return withoutBreaks(nodes);
}

// A block begins and ends its own line; the line breaks around it would show as empty ones.
function withoutBreaks(nodes) {
  const isBlock = (node) => node instanceof HTMLElement && node.dataset.block === "yes";
  return nodes.map((node, n) => {
    if (typeof node !== "string") return node;
    let text = node;
    if (isBlock(nodes[n - 1])) text = text.replace(/^\n+/, "");
    if (isBlock(nodes[n + 1])) text = text.replace(/\n+$/, "");
    return text;
  });
}

function element(entity, text, children, onCommand) {
  const made = BLOCKS.has(entity.type) ? block(entity, text, children) : inline(entity, text, onCommand);
  if (!BLOCKS.has(entity.type)) made.append(...children);
  return made;
}

function inline(entity, text, onCommand) {
  if (TAGS[entity.type]) return document.createElement(TAGS[entity.type]);
  if (entity.type === "spoiler") return opening(document.createElement("span"), "spoiler");
  if (entity.type === "bot_command") return command(text, onCommand);
  const address = { text_link: entity.url, url: text, email: `mailto:${text}` }[entity.type];
  return (address && link(address)) || document.createElement("span");
}

function block(entity, text, children) {
  const made = entity.type === "pre" ? pre(entity.language, text, children) : document.createElement("blockquote");
  if (entity.type !== "pre") made.append(...children);
  if (entity.type === "expandable_blockquote") opening(made, "expandable");
  made.dataset.block = "yes";
  return made;
}

function pre(language, text, children) {
  const box = document.createElement("div");
  const head = document.createElement("div");
  const name = document.createElement("span");
  const copy = document.createElement("button");
  const body = document.createElement("pre");
  const code = document.createElement("code");
  box.className = language ? "pre" : "pre bare";
  head.className = "pre-head";
  name.textContent = language || "";
  copy.type = "button";
  copy.textContent = "Copy";
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text);
    copy.textContent = "Copied";
  });
  code.append(...children);
  body.append(code);
  head.append(name, copy);
  box.append(head, body);
  return box;
}

function opening(made, kind) {
  made.classList.add(kind);
  made.addEventListener("click", () => made.classList.toggle("open"));
  return made;
}

function command(text, onCommand) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = "link";
  made.addEventListener("click", () => onCommand(text));
  return made;
}

export function link(address) {
  const whole = /^[a-z][a-z0-9+.-]*:/i.test(address) ? address : `https://${address}`;
  if (!URL.canParse(whole)) return null;
  const target = new URL(whole);
  if (!PROTOCOLS.has(target.protocol)) return null;
  const made = document.createElement("a");
  made.href = target.href;
  made.target = "_blank";
  made.rel = "noopener noreferrer";
  made.title = target.href;
  return made;
}

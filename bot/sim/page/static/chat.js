// The chat: listens to the demo's events, keeps the messages, and hands what is typed and tapped to the server.

import { day, make, rowOf } from "./bubbles.js";
import { Composer } from "./composer.js";
import { Live } from "./live.js";
import { Sign } from "./sign.js";
import { Views } from "./views.js";

const $ = (id) => document.getElementById(id);
const NEAR = 120; // pixels from the end within which the chat follows what comes
const TOAST = 2600; // milliseconds

const messages = new Map();
const rows = new Map();
const accounts = new Map();
const chat = $("chat");
let follows = true;
let scrolledTo = 0;
let toasting = 0;

const sign = new Sign($("sign"), $("status"), () => post("stop", {}), () => settle());
const composer = new Composer({
  send: (text, replyTo) => post("send", { text, reply_to: replyTo }),
  edit: (id, text) => post("edit", { id, text }),
  attach: (file, caption) => post("attach", file, { name: file.name, caption }),
  newestOwn: () => [...messages.values()].filter((one) => one.mine).sort((a, b) => b.id - a.id)[0],
});
const live = new Live(() => post("kill", {}));
const views = new Views(() => listen());
const acts = {
  tap: (id, data) => post("tap", { id, data }),
  quote: (message) => composer.quote(message),
  edit: (message) => composer.edit(message),
  settle: () => settle(),
  say: (text) => post("send", { text }),
  jump: (id) => rows.get(id)?.scrollIntoView({ block: "center", behavior: "smooth" }),
};

async function post(deed, body, params = {}) {
  if (deed !== "tap") follows = true;
  const isFile = body instanceof Blob;
  const answer = await fetch(`${deed}?${new URLSearchParams({ ...params, view: views.shown })}`, {
    method: "POST",
    headers: { "Content-Type": isFile ? "application/octet-stream" : "application/json" },
    body: isFile ? body : JSON.stringify(body),
  }).catch(() => null);
  if (!answer) toast("The demo has ended.");
  else if (!answer.ok) toast(await answer.text());
  return Boolean(answer?.ok);
}

function toast(text) {
  if (!text) return;
  $("toast").textContent = text;
  $("toast").hidden = false;
  clearTimeout(toasting);
  toasting = setTimeout(() => ($("toast").hidden = true), TOAST);
}

// Put a message in its place, or change it where it stands.
function put(message, fresh) {
  const known = messages.get(message.id);
  const whole = { reactions: known?.reactions, ...message, account: accounts.get(message.id) };
  const row = rowOf(whole, acts);
  messages.set(message.id, whole);
  if (rows.has(message.id)) rows.get(message.id).replaceWith(row);
  else {
    const after = [...rows.keys()].find((id) => id > message.id);
    $("messages").insertBefore(row, after ? rows.get(after) : null);
    if (fresh) row.classList.add("fresh");
  }
  rows.set(message.id, row);
}

function settle() {
  const sorted = [...messages.values()].sort((a, b) => a.id - b.id);
  for (const old of $("messages").querySelectorAll(".day")) old.remove();
  sorted.forEach((message, n) => {
    const before = sorted[n - 1];
    const after = sorted[n + 1];
    const row = rows.get(message.id);
    row.classList.toggle("first", before?.name !== message.name);
    row.classList.toggle("last", after?.name !== message.name);
    if (!before || day(before.date) !== day(message.date)) row.before(make("li", "day", day(message.date)));
  });
  const offered = sorted.at(-1)?.buttons.flat().map((key) => key.text) ?? [];
  composer.arrange(offered, sorted.map((message) => message.text.replace(/^You asked: /, "")));
  if (follows) chat.scrollTop = chat.scrollHeight;
  $("down").hidden = follows;
}

function changed(id, change) {
  const known = messages.get(id);
  if (!known) return;
  put({ ...known, ...change }, false);
  settle();
}

function everything(state) {
  messages.clear();
  rows.clear();
  accounts.clear();
  $("messages").replaceChildren();
  for (const { id, ...account } of state.accounts) accounts.set(id, account);
  for (const message of state.messages) put(message, false);
  $("title").textContent = state.title;
  $("messages").classList.toggle("group", state.isGroup);
  composer.offer(state.commands, state.suggestions);
  sign.rest(state.status);
  sign.draft(state.draft);
  live.turn();
  for (const [name, data] of Object.entries(state.shown)) heard[name](data);
  settle();
}

function notice({ line, details, command }) {
  $("notice-line").textContent = line;
  const how = make("p", "", "Real use: ");
  how.append(make("code", "", command));
  $("notice-details").replaceChildren(make("p", "line", line), ...details.map((text) => make("p", "", text)), how);
}

const heard = {
  page(page) {
    notice(page.notice);
    views.offer(page.views);
  },
  all: everything,
  message(message) {
    if (!message.mine) sign.end();
    put(message, true);
    settle();
  },
  edited(message) {
    put(message, false);
    settle();
  },
  deleted({ id }) {
    rows.get(id)?.remove();
    rows.delete(id);
    messages.delete(id);
    settle();
  },
  turn: (turn) => live.turn(turn),
  gateway: (gateway) => live.gateway(gateway),
  draft: ({ draft }) => sign.draft(draft),
  typing: () => sign.typing(),
  commands: ({ commands }) => composer.offerCommands(commands),
  reaction: ({ id, reactions }) => changed(id, { reactions }),
  account({ id, ...account }) {
    accounts.set(id, account);
    changed(id, {});
  },
  answer({ id, text }) {
    for (const key of rows.get(id)?.querySelectorAll(".waiting") ?? []) key.classList.remove("waiting");
    toast(text);
  },
};

// What grows below, such as a picture that is loaded now, is no scrolling: only who goes up stops following.
chat.addEventListener("scroll", () => {
  if (chat.scrollHeight - chat.scrollTop - chat.clientHeight < NEAR) follows = true;
  else if (chat.scrollTop < scrolledTo) follows = false;
  scrolledTo = chat.scrollTop;
  $("down").hidden = follows;
});
$("down").addEventListener("click", () => {
  follows = true;
  settle();
});
new ResizeObserver(() => follows && (chat.scrollTop = chat.scrollHeight)).observe(chat);

let events;

// Show the chosen view from now on.
function listen() {
  events?.close();
  follows = true;
  composer.clear();
  events = new EventSource(`events?view=${views.shown}`);
  for (const [name, hear] of Object.entries(heard)) {
    events.addEventListener(name, (event) => hear(JSON.parse(event.data)));
  }
  events.addEventListener("open", () => sign.here(true));
  events.addEventListener("error", () => sign.here(false));
}

listen();

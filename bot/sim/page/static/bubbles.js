// One message of the chat as DOM: bubble, time, buttons, reactions, and the account of the turn it answers.

import { accountOf } from "./account.js";
import { link, nodesOf } from "./entities.js";

const REPLY = "M10 8V4l-7 7 7 7v-4c5 0 8 1 11 5-1-6-4-11-11-11z";
const EDIT = "M4 20l1-5L16 4l4 4L9 19z";

// `acts`: tap(id, data), quote(message), edit(message), say(text), jump(id), settle().
export function rowOf(message, acts) {
  const row = make("li", message.mine ? "row mine" : "row");
  row.dataset.id = message.id;
  row.append(bubble(message, acts));
  if (message.buttons.length) {
    row.classList.add("with-keys");
    row.append(keys(message, acts));
  }
  if (message.reactions?.length) row.append(reactions(message.reactions));
  if (message.account) row.append(accountOf(message.account));
  return row;
}

export function make(tag, className, text = "") {
  const made = document.createElement(tag);
  made.className = className;
  made.append(text);
  return made;
}

export function quoted(reply) {
  const box = make("button", "reply");
  box.type = "button";
  box.append(make("b", "", reply.name), make("span", "", reply.text || "…"));
  return box;
}

function bubble(message, acts) {
  const box = make("div", "bubble");
  if (!message.mine) box.append(make("b", "name", message.name));
  if (message.reply) {
    const quote = quoted(message.reply);
    quote.addEventListener("click", () => acts.jump(message.reply.id));
    box.append(quote);
  }
  if (message.photo) box.append(photo(message, acts));
  if (message.voice) box.append(voice(message));
  if (message.file) box.append(make("div", "file", message.file));
  const text = make("div", "text");
  text.dir = "auto";
  text.append(...nodesOf(message.text, message.entities, acts.say));
  const stamp = make("time", "stamp", (message.edited ? "edited " : "") + clock(message.date));
  text.dataset.stamp = stamp.textContent;
  box.append(text, stamp, action("Reply", REPLY, () => acts.quote(message)));
  if (message.mine && message.text && !message.photo && !message.file) {
    box.append(action("Edit", EDIT, () => acts.edit(message)));
  }
  return box;
}

function photo(message, acts) {
  const whole = make("a", "photo");
  const image = make("img", "");
  whole.href = image.src = `photos/${encodeURIComponent(message.photo)}`;
  whole.target = "_blank";
  whole.rel = "noopener noreferrer";
  image.alt = message.text || "Photo";
  image.addEventListener("load", acts.settle);
  whole.append(image);
  return whole;
}

function voice(message) {
  const sound = make("audio", "voice");
  sound.controls = true;
  sound.preload = "metadata";
  sound.src = `voices/${encodeURIComponent(message.voice)}`;
  return sound;
}

function action(label, icon, onClick) {
  const button = make("button", `action to-${label.toLowerCase()}`);
  button.type = "button";
  button.ariaLabel = label;
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  svg.setAttribute("viewBox", "0 0 24 24");
  path.setAttribute("d", icon);
  svg.append(path);
  button.append(svg);
  button.addEventListener("click", onClick);
  return button;
}

function keys(message, acts) {
  const box = make("div", "keys");
  for (const line of message.buttons) {
    const row = make("div", "");
    for (const key of line) row.append(keyOf(key, message, acts));
    box.append(row);
  }
  return box;
}

function keyOf(key, message, acts) {
  const made = (key.url && link(key.url)) || make("button", "");
  made.append(key.text);
  if (key.callback_data) {
    made.addEventListener("click", () => {
      made.classList.add("waiting");
      acts.tap(message.id, key.callback_data);
    });
  }
  if (key.copy_text) made.addEventListener("click", () => navigator.clipboard.writeText(key.copy_text.text));
  return made;
}

function reactions(emoji) {
  const box = make("div", "reactions");
  box.append(...emoji.map((one) => make("span", "", one)));
  return box;
}

function clock(date) {
  return new Date(date * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
}

export function day(date) {
  const then = new Date(date * 1000);
  if (then.toDateString() === new Date().toDateString()) return "Today";
  return then.toLocaleDateString([], { day: "numeric", month: "long", year: "numeric" });
}

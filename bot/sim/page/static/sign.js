// The bot's sign of life: a typing bubble, or a draft ("Thinking…") with its Stop, each for as long as Telegram shows it.

import { make } from "./bubbles.js";
import { nodesOf } from "./entities.js";

const TYPING = 5; // seconds

export class Sign {
  #ends = 0;
  #rest = "bot";

  constructor(box, status, onStop, onChange) {
    this.box = box;
    this.status = status;
    this.onStop = onStop;
    this.onChange = onChange;
  }

  draft(draft) {
    if (!draft) return this.end();
    const words = make("span", "words");
    words.append(...(draft.text ? nodesOf(draft.text, draft.entities, () => {}) : ["Thinking…"]));
    this.#show(draft.seconds, words, draft.can_stop, draft.text ? "is writing…" : "is thinking…");
  }

  typing() {
    this.#show(TYPING, make("span", "words"), false, "is typing…");
  }

  end() {
    clearTimeout(this.#ends);
    this.box.hidden = true;
    this.#say(this.#rest, false);
    this.onChange();
  }

  // What is said of the chat while nothing is going on.
  rest(status) {
    this.#rest = status;
    this.end();
  }

  here(isHere) {
    if (!isHere) {
      this.end();
      this.#say("not running any more: start the demo again", true);
    } else if (this.box.hidden) this.#say(this.#rest, false);
  }

  #show(seconds, words, canStop, status) {
    const bubble = make("div", "bubble");
    const dots = make("span", "dots");
    dots.append(make("i", ""), make("i", ""), make("i", ""));
    bubble.append(dots, words);
    if (canStop) {
      const stop = make("button", "halt", "Stop");
      stop.type = "button";
      stop.addEventListener("click", this.onStop);
      bubble.append(stop);
    }
    this.box.replaceChildren(bubble);
    this.box.hidden = false;
    this.#say(status, true);
    clearTimeout(this.#ends);
    this.#ends = setTimeout(() => this.end(), seconds * 1000);
    this.onChange();
  }

  #say(text, busy) {
    this.status.textContent = text;
    this.status.classList.toggle("busy", busy);
  }
}

// Which chat is shown, and as which of its people: a choice of the two, each a row of buttons.

import { make } from "./bubbles.js";

const $ = (id) => document.getElementById(id);

export class Views {
  #views = [];
  #shown = 0;

  constructor(onChange) {
    this.onChange = onChange;
  }

  get shown() {
    return this.#shown;
  }

  offer(views) {
    this.#views = views;
    this.#draw();
  }

  #draw() {
    const { chat, person } = this.#views[this.#shown];
    const chats = [...new Set(this.#views.map((view) => view.chat))];
    const people = [...new Set(this.#views.map((view) => view.person))];
    $("chats").replaceChildren(...chats.map((name) => this.#choice(name, name === chat, name, person)));
    $("people").replaceChildren(...people.map((name) => this.#choice(name, name === person, chat, name)));
  }

  #choice(name, isChosen, chat, person) {
    const button = make("button", "", name);
    button.type = "button";
    button.ariaPressed = String(isChosen);
    button.addEventListener("click", () => {
      this.#shown = this.#views.findIndex((view) => view.chat === chat && view.person === person);
      this.#draw();
      this.onChange();
    });
    return button;
  }
}

// Where a person writes: the text field, the menu of commands, the suggested questions, the message replied to.

import { make, quoted } from "./bubbles.js";

const $ = (id) => document.getElementById(id);

export class Composer {
  #commands = [];
  #quoted = null;
  #chosen = 0;

  constructor(onSend) {
    this.onSend = onSend;
    this.text = $("text");
    this.send = $("composer").querySelector(".send");
    this.text.addEventListener("input", () => this.#changed());
    this.text.addEventListener("keydown", (event) => this.#key(event));
    $("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    $("commands").addEventListener("click", () => {
      this.#show($("menu").hidden ? this.#commands : []);
      this.text.focus();
    });
    $("suggestions").addEventListener("wheel", (event) => {
      if (!event.deltaX) $("suggestions").scrollLeft += event.deltaY;
    }, { passive: true });
    $("quote").querySelector("button").addEventListener("click", () => this.quote(null));
  }

  offer(commands, suggestions) {
    this.#commands = commands;
    $("commands").hidden = !commands.length;
    this.#changed(); // something may have been typed before we knew
    const chips = suggestions.map((question) => {
      const chip = make("button", "", question);
      chip.type = "button";
      chip.addEventListener("click", () => this.onSend(question, null));
      return chip;
    });
    $("suggestions").replaceChildren(...chips);
    $("suggestions").hidden = !chips.length;
  }

  quote(message) {
    this.#quoted = message;
    $("quote").hidden = !message;
    if (!message) return;
    const box = quoted({ name: message.mine ? "Your message" : "Canvasgram", text: message.text });
    $("quote").querySelector(".reply").replaceWith(box);
    this.text.focus();
  }

  async #submit() {
    const text = this.text.value.trim();
    if (!text) return;
    const replyTo = this.#quoted?.id ?? null;
    this.text.value = "";
    this.#changed();
    this.quote(null);
    if (!(await this.onSend(text, replyTo)) && !this.text.value) {
      this.text.value = text;
      this.#changed();
    }
  }

  #key(event) {
    const menu = [...$("menu").querySelectorAll("button")];
    if (event.key === "Escape") this.#show([]);
    else if (menu.length && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      this.#choose(menu, this.#chosen + (event.key === "ArrowDown" ? 1 : -1));
    } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      const typed = menu.some((one) => one.dataset.command === this.text.value.trim());
      if (menu.length && !typed) menu[this.#chosen].click();
      else this.#submit();
    } else if (menu.length && event.key === "Tab") {
      event.preventDefault();
      this.text.value = menu[this.#chosen].dataset.command;
      this.#changed();
    }
  }

  #changed() {
    const text = this.text.value;
    this.send.disabled = !text.trim();
    this.text.style.height = "auto";
    this.text.style.height = `${this.text.scrollHeight}px`;
    const begun = /^\/(\w*)$/.exec(text);
    this.#show(begun ? this.#commands.filter((one) => one.command.startsWith(begun[1])) : []);
  }

  #show(commands) {
    const rows = commands.map((one) => {
      const row = make("li", "");
      const button = make("button", "");
      button.type = "button";
      button.dataset.command = `/${one.command}`;
      button.append(make("b", "", `/${one.command}`), make("span", "", one.description));
      button.addEventListener("click", () => {
        this.text.value = "";
        this.#changed();
        this.onSend(`/${one.command}`, null);
      });
      row.append(button);
      return row;
    });
    $("menu").replaceChildren(...rows);
    $("menu").hidden = !rows.length;
    $("commands").ariaExpanded = String(rows.length > 0);
    this.#choose([...$("menu").querySelectorAll("button")], 0);
  }

  #choose(menu, number) {
    if (!menu.length) return;
    this.#chosen = (number + menu.length) % menu.length;
    menu.forEach((one, n) => one.classList.toggle("chosen", n === this.#chosen));
  }
}

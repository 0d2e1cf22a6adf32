// Where a person writes: the text field, the menu of commands, the suggested questions, the message that is replied
// to or edited, the file that goes with it.

import { make, quoted } from "./bubbles.js";

const $ = (id) => document.getElementById(id);

export class Composer {
  #commands = [];
  #quoted = null;
  #edited = null;
  #attached = null;
  #chosen = 0;

  // `acts`: send(text, replyTo), edit(id, text), attach(file, caption), newestOwn().
  constructor(acts) {
    this.acts = acts;
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
    $("more").addEventListener("click", () => this.#open($("more").ariaExpanded === "false"));
    $("suggestions").addEventListener("focusin", ({ target }) => {
      if (target.offsetTop >= $("suggestions").clientHeight) this.#open(true);
    });
    new ResizeObserver(() => this.#fold()).observe($("suggestions"));
    $("quote").querySelector(":scope > button").addEventListener("click", () => this.#cancel());
    $("attached").querySelector(":scope > button").addEventListener("click", () => this.#hold(null));
    $("attach").addEventListener("click", () => $("file").click());
    $("file").addEventListener("change", () => {
      this.#hold($("file").files[0] ?? null);
      $("file").value = "";
    });
    this.text.addEventListener("paste", (event) => this.#take(event, event.clipboardData));
    document.addEventListener("dragover", (event) => event.preventDefault());
    document.addEventListener("drop", (event) => this.#take(event, event.dataTransfer));
    document.addEventListener("keydown", (event) => event.key === "Escape" && this.#cancel());
  }

  offerCommands(commands) {
    this.#commands = commands;
    $("commands").hidden = !commands.length;
    this.#changed(); // something may have been typed before we knew
  }

  offer(commands, suggestions) {
    this.offerCommands(commands);
    const chips = suggestions.map((question) => {
      const chip = make("button", "", question);
      chip.type = "button";
      chip.addEventListener("click", () => {
        this.#open(false);
        this.acts.send(question, null);
      });
      return chip;
    });
    $("suggestions").replaceChildren(...chips);
    $("examples").hidden = !chips.length;
  }

  // What the newest message offers on its buttons is not offered again; what was asked goes to the end.
  arrange(offered, asked) {
    const chips = [...$("suggestions").children];
    const isAsked = (chip) => asked.includes(chip.textContent);
    for (const chip of chips) chip.hidden = offered.includes(chip.textContent);
    const sorted = [...chips.filter((chip) => !isAsked(chip)), ...chips.filter(isAsked)];
    if (sorted.some((chip, n) => chip !== chips[n])) {
      const wasFocused = chips.includes(document.activeElement);
      $("suggestions").replaceChildren(...sorted);
      if (wasFocused) sorted.find((chip) => !chip.hidden)?.focus();
    }
    this.#fold();
  }

  #open(isOpen) {
    $("more").ariaExpanded = String(isOpen);
    $("suggestions").classList.toggle("all", isOpen);
    $("suggestions").scrollTop = 0;
    this.#fold();
  }

  // The button that shows all examples is there only where they do not fit.
  #fold() {
    const box = $("suggestions");
    $("more").hidden = !box.classList.contains("all") && box.scrollHeight <= box.clientHeight + 4;
  }

  // Another chat is shown: nothing of what was meant for the one before goes there.
  clear() {
    this.text.value = "";
    this.#cancel();
  }

  quote(message) {
    this.#quoted = message;
    this.#edited = null;
    this.#mention(message, message?.mine ? "Your message" : message?.name);
  }

  edit(message) {
    this.#quoted = null;
    this.#edited = message;
    this.text.value = message.text;
    this.#changed();
    this.#mention(message, "Edit message");
  }

  #mention(message, name) {
    $("quote").hidden = !message;
    if (message) $("quote").querySelector(".reply").replaceWith(quoted({ name, text: message.text }));
    this.text.focus();
  }

  #cancel() {
    if (this.#edited) this.text.value = "";
    this.quote(null);
    this.#hold(null);
    this.#changed();
    this.#show([]);
  }

  #take(event, data) {
    if (!data.files.length) return;
    event.preventDefault();
    this.#hold(data.files[0]);
  }

  #hold(file) {
    this.#attached = file;
    $("attached").hidden = !file;
    $("attached").querySelector("span").textContent = file?.name ?? "";
    this.#changed();
    this.text.focus();
  }

  async #submit() {
    const text = this.text.value.trim();
    const [attached, edited, quoted] = [this.#attached, this.#edited, this.#quoted];
    if (!text && (edited || !attached)) return;
    this.text.value = "";
    this.quote(null);
    if (!edited) this.#hold(null); // a file that is chosen during an edit goes with the next message
    let sending;
    if (edited) sending = this.acts.edit(edited.id, text);
    else if (attached) sending = this.acts.attach(attached, text);
    else sending = this.acts.send(text, quoted?.id ?? null);
    if ((await sending) || this.text.value) return;
    if (edited) this.edit(edited);
    else this.quote(quoted);
    this.text.value = text;
    this.#hold(attached);
  }

  #key(event) {
    const menu = [...$("menu").querySelectorAll("button")];
    if (event.key === "ArrowUp" && !this.text.value) this.#editNewest(event);
    else if (menu.length && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      this.#choose(menu, this.#chosen + (event.key === "ArrowDown" ? 1 : -1));
    } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      const typed = menu.some((one) => one.dataset.command === this.text.value.trim());
      if (this.text.value === "/" && menu.length) this.#complete(menu);
      else if (menu.length && !typed) menu[this.#chosen].click();
      else this.#submit();
    } else if (menu.length && event.key === "Tab") {
      event.preventDefault();
      this.#complete(menu);
    }
  }

  #complete(menu) {
    this.text.value = menu[this.#chosen].dataset.command;
    this.#changed();
  }

  #editNewest(event) {
    const newest = this.acts.newestOwn();
    if (!newest?.text || newest.photo || newest.file) return;
    event.preventDefault();
    this.edit(newest);
  }

  #changed() {
    const text = this.text.value;
    this.send.disabled = !text.trim() && (this.#edited || !this.#attached);
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
        this.acts.send(`/${one.command}`, null);
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

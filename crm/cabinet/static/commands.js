// Search and commands by the keyboard: / or Ctrl-K opens them, J, K, E and N move in lists, T plans the next step of
// a record, ? shows the keys. All commands are links and buttons that the page has anyway.
"use strict";

const VISITED = "crm-visited";
const commands = document.getElementById("commands");

// A page without them is seen before the login: the next user does not see what this one has visited.
if (!commands) sessionStorage.removeItem(VISITED);
else {
  const field = commands.querySelector("input");
  const list = commands.querySelector("ul");
  const keys = document.getElementById("keys");

  const visited = () => JSON.parse(sessionStorage.getItem(VISITED) ?? "[]");
  const here = document.querySelector(".page-record h1");
  if (here) {
    const others = visited().filter(([path]) => path !== location.pathname);
    const place = document.querySelector(".head-up").textContent.trim();
    sessionStorage.setItem(VISITED, JSON.stringify([[location.pathname, here.textContent.trim(), place], ...others].slice(0, 8)));
  }
  const add = (text, kind, run) => {
    const item = list.appendChild(document.createElement("li"));
    const button = item.appendChild(document.createElement("button"));
    button.type = "button";
    button.append(text, Object.assign(document.createElement("small"), { textContent: kind }));
    button.addEventListener("click", () => {
      commands.close();
      run();
    });
  };
  const nameOf = (element) => (element.querySelector("span:not(.avatar)") ?? element).textContent.trim();
  const show = async () => {
    latest.commands = null;
    const text = field.value.trim().toLowerCase();
    const isMeant = (name) => name && name.toLowerCase().includes(text);
    list.replaceChildren();
    if (!text) for (const [path, name, place] of visited()) add(name, `${place} · ${commands.dataset.recent}`, () => location.assign(path));
    const seen = new Set();
    for (const [selector, kind] of [
      [".tabs-add a, .head-actions > a, .head-actions .dots-body a", commands.dataset.action],
      [".stages button, .head-actions > form button", commands.dataset.action],
      [".menu-body nav a, .menu-foot a", commands.dataset.page],
    ]) {
      for (const element of document.querySelectorAll(selector)) {
        const name = nameOf(element);
        if (!isMeant(name) || seen.has(name)) continue;
        seen.add(name);
        add(name, kind, () => element.click());
      }
    }
    if (text.length < 2) return;
    const found = await load("commands", `${commands.dataset.search}?q=${encodeURIComponent(field.value)}`);
    const first = list.firstChild;
    for (const group of parse(found ?? "").querySelectorAll("main section")) {
      for (const link of [...group.querySelectorAll(".found li > a")].slice(0, 4)) {
        // The state and the phone tell people of one name apart.
        const [state, phone, facts] = [".pill", ".phone-link", "div:not(.excerpt)"].map((part) => link.parentNode.querySelector(part));
        const about = [group.querySelector("h2"), state, phone ?? facts].filter(Boolean).map((part) => part.textContent.trim());
        add(link.textContent, about.join(" · "), () => location.assign(link.href));
        list.insertBefore(list.lastChild, first);
      }
    }
  };
  const open = () => {
    field.value = "";
    commands.showModal();
    show();
  };
  field.addEventListener("input", show);
  commands.addEventListener("submit", (event) => {
    event.preventDefault();
    list.querySelector("button")?.click();
  });
  commands.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const all = [field, ...list.querySelectorAll("button")];
    all[(all.indexOf(document.activeElement) + step + all.length) % all.length].focus();
  });

  // The records of a list by their links.
  const rows = () => [...document.querySelectorAll(".list-rows tbody tr, .agenda-list li, .deal")]
    .map((row) => row.querySelector("a:not(.call)")).filter(Boolean);
  const moveBy = (step) => {
    const links = rows();
    const at = links.indexOf(document.activeElement);
    (links[at < 0 ? 0 : at + step] ?? document.activeElement).focus();
  };
  const edit = () => {
    const row = rows().includes(document.activeElement) && document.activeElement;
    const form = document.querySelector(".head-actions a[href$='/edit']");
    if (row) location.assign(row.pathname.startsWith(`${commands.dataset.root}/tasks/`) ? row.href : `${row.href}/edit`);
    else form?.click();
  };
  const actions = {
    "/": open,
    "?": () => keys.showModal(),
    j: () => moveBy(1),
    k: () => moveBy(-1),
    e: edit,
    n: () => document.querySelector(".head a.btn-primary, .tabs-add a")?.click(),
    t: () => {
      const day = document.querySelector("#next-step [name=due_day]");
      if (day) return day.focus();
      document.getElementById("compose-task")?.click();
      document.querySelector(".composer-task [name=title]")?.focus();
    },
  };
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      return open();
    }
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    // On another layout another letter is on the same key.
    const codes = { KeyJ: "j", KeyK: "k", KeyE: "e", KeyN: "n", KeyT: "t", Slash: event.shiftKey ? "?" : "/" };
    const action = actions[event.key] ?? actions[codes[event.code]];
    if (!action) return;
    event.preventDefault();
    action();
  });
}

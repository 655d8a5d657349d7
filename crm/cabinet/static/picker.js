// A field with data-pick, the address of its choices, names a record: what matches is a list below it, a combobox of
// WAI-ARIA. The id of what is picked goes into the field that data-id names; data-next is the field after it.
"use strict";

const picker = Object.assign(document.createElement("ul"), { id: "picker", className: "picker-list", role: "listbox" });
const closePicker = () => {
  latest.picker = null;
  picker.previousElementSibling?.setAttribute("aria-expanded", false);
  picker.previousElementSibling?.removeAttribute("aria-activedescendant");
  picker.remove();
};
const focusNext = (field) => document.getElementById(field.dataset.next)?.focus();
const pick = (field, { id, name }) => {
  const place = document.getElementById(field.dataset.id);
  if (place.options) place.add(new Option(name, id)); // of a form that was refused
  [field.value, place.value] = [name, id];
  closePicker();
  field.dispatchEvent(new Event("change", { bubbles: true }));
  focusNext(field);
};
const offer = async (field) => {
  const text = await load("picker", `${field.dataset.pick}?q=${encodeURIComponent(field.value)}`);
  if (text === null) return;
  picker.replaceChildren(...parse(text).querySelectorAll("[role=option]"));
  if (!picker.firstChild) return closePicker();
  picker.ariaLabel = field.ariaLabel ?? field.labels[0].textContent;
  field.after(picker);
  field.setAttribute("aria-expanded", true);
  picker.scrollIntoView({ block: "nearest" });
};
picker.addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps the focus
picker.addEventListener("click", (event) => pick(picker.previousElementSibling, event.target.closest("li").dataset));
const handlers = {
  focusin(field) {
    Object.assign(field, { role: "combobox", ariaAutoComplete: "list", ariaExpanded: false });
    field.setAttribute("aria-controls", picker.id);
    offer(field);
  },
  input(field) {
    const place = document.getElementById(field.dataset.id);
    if (!place.options) place.value = "";
    offer(field);
  },
  focusout: closePicker,
  keydown(field, event) {
    const choices = picker.isConnected ? [...picker.children] : [];
    const at = choices.findIndex((choice) => choice.ariaSelected === "true");
    const next = { ArrowDown: choices[at + 1] ?? choices[0], ArrowUp: choices.at(Math.max(at, 0) - 1) }[event.key];
    for (const choice of next ? choices : []) choice.ariaSelected = choice === next;
    next?.scrollIntoView({ block: "nearest" });
    if (next) field.setAttribute("aria-activedescendant", next.id);
    else if (event.key === "ArrowDown") offer(field);
    else if (event.key === "Enter" && at >= 0) pick(field, choices[at].dataset);
    else if (event.key === "Escape" && choices.length) closePicker();
    else return;
    event.preventDefault();
  },
};
for (const kind of Object.keys(handlers)) {
  document.addEventListener(kind, (event) => event.target.dataset?.pick && handlers[kind](event.target, event));
}

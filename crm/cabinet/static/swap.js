// Links and forms with data-swap="ids" change parts of this page. The answer is the whole page that a browser
// without this script shows; the parts of those ids are taken from it. Only on the page of a record: a form that
// has a page of its own is left as usual.
"use strict";

const hasParts = () => document.querySelector(".page-record");
const swap = async (element, address, options) => {
  element.setAttribute("aria-busy", "true");
  latest.totals = null;
  try {
    const answer = await fetch(address, options);
    const page = parse(await answer.text());
    const parts = element.dataset.swap.split(" ").map((id) => [document.getElementById(id), page.getElementById(id)]);
    // Another page came: a login, an error, a question.
    if (!parts.some(([old, fresh]) => old && fresh)) return element.matches("a") ? location.assign(address) : element.submit();
    for (const [old, fresh] of [...parts, [document.getElementById("messages"), page.getElementById("messages")]]) {
      if (old && fresh) old.replaceWith(document.adoptNode(fresh));
    }
    const part = parts.find(([, fresh]) => fresh)[1];
    const trouble = document.getElementById("trouble");
    (trouble ?? part.querySelector("input:not([type=hidden]), textarea, a"))?.focus({ preventScroll: !trouble });
  } catch {
    element.removeAttribute("data-swap"); // the network failed: the browser itself tries and tells
    if (element.requestSubmit) element.requestSubmit();
    else element.click();
  } finally {
    element.removeAttribute("aria-busy");
  }
};

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.dataset.swap || event.defaultPrevented || !hasParts()) return;
  event.preventDefault();
  if (form.hasAttribute("aria-busy")) return;
  swap(form, form.action, { method: "POST", body: new URLSearchParams(new FormData(form, event.submitter)) });
});
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-swap]");
  if (!link || !hasParts() || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  swap(link, link.href, {});
});

// What a deal's items come to, as the server says while they are typed.
for (const kind of ["input", "change"]) {
  document.addEventListener(kind, async ({ target }) => {
    const form = target.closest("form:has(.items-form)");
    const texts = form && (await load("totals", `${form.action}/totals`, { method: "POST", body: new URLSearchParams(new FormData(form)) }));
    for (const [id, text] of JSON.parse(texts || "[]")) document.getElementById(id)[id.endsWith("price") ? "placeholder" : "textContent"] = text;
  });
}
// What a form makes, as the server draws it while it is typed: a button data-preview="ids" asks for these parts of the
// page. Only a select changes more than the first of them, and a button with a name, which moves an option up.
const preview = async (button, count, submitter) => {
  const fields = new URLSearchParams(new FormData(button.form, submitter));
  const text = await load("preview", button.formAction, { method: "POST", body: fields });
  if (!text) return;
  const page = parse(text);
  for (const id of button.dataset.preview.split(" ").slice(0, count)) {
    document.getElementById(id).replaceWith(page.getElementById(id));
  }
  if (submitter?.value) document.getElementById(`option-${submitter.value - 1}`).focus();
};
document.addEventListener("input", ({ target }) => {
  const button = target.form?.querySelector("[data-preview]:not([name])");
  if (button) preview(button, target.matches("select") ? 3 : 1);
});
document.addEventListener("submit", (event) => {
  if (!event.submitter?.dataset.preview) return;
  event.preventDefault();
  preview(event.submitter, 3, event.submitter);
});
document.addEventListener("keydown", (event) => {
  const field = event.target;
  const step = field.name?.endsWith("-quantity") && { ArrowUp: 1, ArrowDown: -1 }[event.key];
  if (step) {
    const count = Number((field.value || "1").replace(",", ".")) + step;
    if (count > 0) field.value = count.toLocaleString(document.documentElement.lang, { useGrouping: false });
    field.dispatchEvent(new Event("change", { bubbles: true }));
  } else if (event.key === "Enter" && field.dataset.next && field.value && !event.defaultPrevented) focusNext(field);
  else return;
  event.preventDefault();
});

// A menu closes when something else is used, or by Escape.
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("[data-dots][open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});
document.addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && event.target.closest?.("[data-dots][open]");
  if (!menu) return;
  menu.open = false;
  menu.querySelector("summary").focus();
});

// Links and forms with data-swap="ids" change parts of this page. The answer is the whole page that a browser
// without this script shows; the parts of those ids are taken from it. Only on the page of a record: a form that
// has a page of its own is left as usual.
"use strict";

const hasParts = () => document.querySelector(".page-record");
const swap = async (element, address, options) => {
  element.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(address, options);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const parts = element.dataset.swap.split(" ").map((id) => [document.getElementById(id), page.getElementById(id)]);
    // Another page came: a login, an error, a question.
    if (!parts.some(([old, fresh]) => old && fresh)) return element.matches("a") ? location.assign(address) : element.submit();
    for (const [old, fresh] of [...parts, [document.getElementById("messages"), page.getElementById("messages")]]) {
      if (old && fresh) old.replaceWith(document.adoptNode(fresh));
    }
    document.dispatchEvent(new Event("swapped"));
    const part = parts.find(([, fresh]) => fresh)[1];
    (document.getElementById("trouble") ?? part.querySelector("input:not([type=hidden]), textarea, a"))?.focus();
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

// Totals of a deal's items while they are typed; the server computes them again.
document.addEventListener("input", (event) => {
  const table = event.target.closest(".items table");
  const sum = table?.querySelector("[data-sum]");
  if (!sum) return;
  const number = (text) => Number(text.replace(/\s/g, "").replace(",", "."));
  const format = new Intl.NumberFormat(document.documentElement.lang, { style: "currency", currency: sum.dataset.currency, minimumFractionDigits: 0, maximumFractionDigits: 2 });
  let total = 0;
  for (const row of table.tBodies[0].rows) {
    const value = (name) => row.querySelector(`[name$="-${name}"]`)?.value.trim() ?? "";
    const product = [...document.querySelectorAll("#products option")].find((one) => one.value === value("name"));
    if (product && event.target.name.endsWith("-name")) row.querySelector('[name$="-price"]').value = product.dataset.price;
    if (!row.querySelector('[name$="-id"]') && !value("name")) continue;
    const price = number(value("price")) * number(value("quantity") || "1");
    const discount = number(value("discount") || "0");
    const left = value("discount_type") === "percent" ? price * (1 - discount / 100) : price - discount;
    total += left;
    row.querySelector("[data-total]").textContent = Number.isFinite(left) ? format.format(left) : "";
  }
  sum.textContent = Number.isFinite(total) ? format.format(total) : "";
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

// The one script. Pages work without it, apart from drag and drop.
"use strict";

// Copy buttons show themselves where copying works.
for (const button of document.querySelectorAll("[data-copy]")) {
  if (!navigator.clipboard) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).innerText);
    button.textContent = button.dataset.done;
  });
}

// A select that sends its form at once; without the script there is a button.
for (const select of document.querySelectorAll("select[data-send]")) {
  select.addEventListener("change", () => select.form.requestSubmit());
}

document.getElementById("trouble")?.focus();

// The board: a card dropped on another column sends its own form. The server decides; its answer
// is the board as it is then, or the page that says why not.
const board = document.getElementById("board");
if (board) {
  const refused = document.getElementById("board-refused");
  let dragged = null;
  const columnOf = (event) => event.target.closest?.("[data-stage]");
  const mark = (column) => {
    for (const other of board.querySelectorAll(".over")) other.classList.remove("over");
    column?.classList.add("over");
  };
  const arm = () => {
    for (const card of board.querySelectorAll("[data-deal]")) card.draggable = true;
  };
  const renew = (fresh) => {
    const scrolled = [...board.children].map((column) => column.querySelector("[data-deals]").scrollTop);
    board.replaceChildren(...fresh.children);
    [...board.children].forEach((column, at) => {
      column.querySelector("[data-deals]").scrollTop = scrolled[at] ?? 0;
    });
    arm();
  };
  const move = async (card, column) => {
    const [form, list, next] = [card.querySelector("form"), card.parentNode, card.nextSibling];
    const sent = new FormData(form);
    sent.set("stage_id", column.dataset.stage);
    refused.hidden = true;
    column.querySelector("[data-deals]").prepend(card);
    let reason = refused.dataset.offline;
    try {
      const answer = await fetch(form.action, { method: "POST", body: new URLSearchParams(sent) });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (answer.ok) {
        const fresh = page.getElementById("board");
        return fresh ? renew(fresh) : location.reload(); // without a board: logged out meanwhile
      }
      reason = (page.getElementById("trouble") ?? page.querySelector("main p") ?? page.body).textContent;
    } catch {} // no answer
    list.insertBefore(card, next);
    refused.textContent = reason.trim();
    refused.hidden = false;
  };
  board.addEventListener("dragstart", (event) => {
    dragged = event.target.closest?.("[data-deal]");
    if (!dragged) return;
    event.dataTransfer.effectAllowed = "move";
    event.dataTransfer.setData("text/plain", dragged.querySelector("a").textContent);
    dragged.classList.add("dragged");
  });
  board.addEventListener("dragover", (event) => {
    const column = columnOf(event);
    if (!dragged || !column || column.contains(dragged)) return mark(null);
    event.preventDefault();
    mark(column);
  });
  board.addEventListener("drop", (event) => {
    event.preventDefault();
    const column = columnOf(event);
    if (dragged && column && !column.contains(dragged)) move(dragged, column);
  });
  board.addEventListener("dragend", () => {
    dragged?.classList.remove("dragged");
    dragged = null;
    mark(null);
  });
  arm();
}

// A button whose form takes a while says so, and cannot be pressed twice.
for (const button of document.querySelectorAll("button[data-busy]")) {
  const text = button.textContent;
  const show = (busy) => {
    button.disabled = busy;
    button.textContent = busy ? button.dataset.busy : text;
  };
  button.form.addEventListener("submit", () => show(true));
  addEventListener("pageshow", () => show(false)); // back from the next page
}

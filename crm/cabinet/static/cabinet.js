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

// A box that selects all boxes of the page with a name, and buttons.
document.addEventListener("change", ({ target }) => {
  for (const one of document.getElementsByName(target.dataset.all)) one.checked = target.checked;
});
document.addEventListener("click", ({ target }) => {
  if (target.matches("[data-print]")) print();
  if (target.matches("#messages .btn-close")) target.parentNode.remove();
});

document.getElementById("trouble")?.focus();

// Back from a call, its note is offered: on this page if it is the record's, else there.
let called = null;
document.addEventListener("click", (event) => {
  called = event.target.closest("a[data-note]")?.dataset.note ?? called;
});
const offerNote = () => {
  if (!called || document.hidden) return;
  const note = new URL(called, location.href);
  called = null;
  const choice = document.getElementById("compose-call");
  if (!choice || note.pathname !== location.pathname) return location.assign(note);
  choice.checked = true;
  document.querySelector(".composer-call textarea").focus();
};
for (const [target, kind] of [[window, "focus"], [document, "visibilitychange"]]) {
  target.addEventListener(kind, offerNote);
}

// The kind of a new task proposes its title, unless another one is typed.
document.addEventListener("change", (event) => {
  const titles = event.target.name === "type" && event.target.closest("[data-titles]")?.dataset.titles;
  if (!titles) return;
  const known = JSON.parse(titles), title = event.target.form.elements.title;
  if (!title.value || Object.values(known).includes(title.value)) title.value = known[event.target.value] ?? "";
});

// The installed app shows a page of its own when there is no network.
const manifest = document.querySelector("link[rel=manifest]");
if (manifest && matchMedia("(display-mode: standalone)").matches) {
  navigator.serviceWorker?.register(manifest.href.replace("manifest.webmanifest", "worker.js"));
}

// The bell's count and the newest alert, every ten seconds; of a page that is not visible, whose title
// tells the count, every minute.
const bell = document.getElementById("bell");
if (bell) {
  const sound = document.getElementById("bell-sound");
  const heading = document.title;
  let etag = "", turns = 0;
  const beep = () => {
    const audio = new AudioContext(), tone = audio.createOscillator();
    tone.frequency.value = 880;
    tone.connect(audio.destination);
    tone.start();
    tone.stop(audio.currentTime + 0.15);
    tone.onended = () => audio.close();
  };
  if (sound) {
    sound.closest("[hidden]").hidden = false;
    sound.checked = !!localStorage.getItem("bell-sound");
    sound.addEventListener("change", () => {
      localStorage.setItem("bell-sound", sound.checked ? "1" : "");
      if (sound.checked) beep();
    });
  }
  const announce = (id, text) => {
    const message = document.createElement("div"), link = document.createElement("a");
    message.className = "alert alert-info";
    message.setAttribute("role", "status");
    link.href = `${bell.dataset.root}/alerts/${id}`;
    link.textContent = text;
    message.append(link);
    document.getElementById("messages").append(message);
    setTimeout(() => message.remove(), 20_000);
    if (localStorage.getItem("bell-sound")) beep();
  };
  const refresh = async () => {
    if (document.hidden && turns++ % 6) return;
    try {
      const answer = await fetch(`${bell.dataset.root}/bell`, { headers: { "If-None-Match": etag } });
      if (!answer.ok) return;
      const [path, count, alert] = await answer.json();
      const [id, text, since] = alert ?? [0, "", ""];
      const known = sessionStorage.getItem("bell-newest");
      if (known !== null && since > known) announce(id, text);
      if (known === null || since > known) sessionStorage.setItem("bell-newest", since);
      document.title = count ? `(${count}) ${heading}` : heading;
      etag = answer.headers.get("ETag");
      bell.href = bell.dataset.root + path;
      for (const badge of document.querySelectorAll("[data-bell]")) {
        badge.textContent = count;
        badge.hidden = !count;
      }
    } catch {
      // There is no network now, or the session has ended.
    }
  };
  setInterval(refresh, 10_000);
  document.addEventListener("visibilitychange", refresh);
}

const parse = (text) => new DOMParser().parseFromString(text, "text/html");
// The text of an answer while something is typed; null if more was typed meanwhile, or there is no network or login.
const latest = {};
const load = async (use, ...request) => {
  const turn = (latest[use] = {});
  await new Promise((resolve) => setTimeout(resolve, 120));
  const answer = turn === latest[use] && (await fetch(...request).catch(() => null));
  const text = answer?.ok && !answer.redirected ? await answer.text() : null;
  return turn === latest[use] ? text : null;
};

// A form's answer as {ok, page}; null when none came.
const send = async (form, fields) => {
  try {
    const answer = await fetch(form.action, { method: "POST", body: new URLSearchParams(fields) });
    return { ok: answer.ok, page: parse(await answer.text()) };
  } catch {
    return null;
  }
};

// The server's question (#ask of a page) as a dialog: the form that was sent there, or null.
const ask = (section) =>
  new Promise((resolve) => {
    const dialog = document.createElement("dialog");
    let answer = null;
    dialog.setAttribute("aria-labelledby", "ask-title");
    dialog.append(document.adoptNode(section));
    dialog.addEventListener("submit", (event) => {
      event.preventDefault();
      answer = event.target;
      dialog.close();
    });
    dialog.querySelector("[data-cancel]").addEventListener("click", (event) => {
      event.preventDefault();
      dialog.close();
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(answer);
    });
    document.body.append(dialog);
    dialog.showModal();
  });

// Forms whose first answer is a question; nothing changes before it is answered. Without a
// question the browser sends the form itself and shows what came.
for (const form of document.querySelectorAll("form[data-asks]")) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const found = await send(form, new FormData(form, event.submitter));
    const section = found?.page.getElementById("ask");
    const answer = section ? await ask(section) : form;
    if (!answer) return;
    if (answer !== form) {
      answer.hidden = true;
      document.body.append(answer);
    } else if (event.submitter?.name) {
      const { name, value } = event.submitter;
      form.append(Object.assign(document.createElement("input"), { type: "hidden", name, value }));
    }
    answer.submit();
  });
}

const messages = document.getElementById("messages");
const board = document.getElementById("board");

// An entry under the pointer that is dragged: the same element from the press to the drop.
// `over` says where it may be dropped now, `drop` does it; both get the event and the entry.
const dragging = (list, selector, { over, drop, end }) => {
  let pressed = null;
  let dragged = null;
  let held = false;
  const finish = () => {
    dragged?.classList.remove("dragged");
    dragged = null;
    held = false;
    end?.();
  };
  const state = { isHeld: () => held };
  list.addEventListener("pointerdown", (event) => {
    pressed = event.target.closest(selector);
    held = Boolean(pressed);
  });
  for (const kind of ["pointerup", "pointercancel"]) {
    addEventListener(kind, () => dragged || finish());
  }
  list.addEventListener("dragstart", (event) => {
    const entry = event.target.closest?.(selector);
    // The browser looks for what to drag where the pointer was pressed, but looks there later.
    if (!entry || entry !== pressed) return event.preventDefault();
    dragged = entry;
    held = true;
    event.dataTransfer.effectAllowed = "move";
    event.dataTransfer.setData("text/plain", entry.querySelector("a").textContent);
    entry.classList.add("dragged");
  });
  list.addEventListener("dragover", (event) => {
    if (dragged && over(event, dragged)) event.preventDefault();
  });
  list.addEventListener("drop", (event) => {
    event.preventDefault();
    if (dragged) drop(event, dragged);
  });
  addEventListener("dragend", finish);
  return state;
};

// The board: a card dropped on another column sends its own form, as its menu does. The server decides; its answer
// is the board as it is then, or a question, or the page that says why not. Moves are sent one
// after the other. The board is renewed by the last answer, never while a card is held: else
// another card could come under the pointer.
if (board) {
  const refused = document.getElementById("board-refused");
  let moves = Promise.resolve();
  let waiting = 0;
  let latest = null;
  let marked = null;
  const mark = (column) => {
    marked?.classList.remove("over");
    column?.classList.add("over");
    marked = column;
  };
  const columnOf = (event, card) => {
    const column = event.target.closest?.("[data-stage]");
    return column?.contains(card) ? null : column;
  };
  const arm = () => {
    for (const card of board.querySelectorAll("[data-deal]")) card.draggable = true;
  };
  const renew = () => {
    if (!latest || waiting || cards.isHeld()) return;
    const left = board.scrollLeft;
    const tops = [...board.children].map((column) => column.querySelector("[data-deals]").scrollTop);
    board.replaceChildren(...latest.children);
    latest = null;
    [...board.children].forEach((column, at) => {
      column.querySelector("[data-deals]").scrollTop = tops[at] ?? 0;
    });
    board.scrollLeft = left;
    arm();
  };
  const tell = (page) => {
    const told = [...page.querySelectorAll("#messages > *")];
    if (told.length) messages.replaceChildren(...told);
  };
  // Sends a move, and what a question about it was answered. Says why nothing was moved: "" when
  // the question was cancelled, null after a move.
  const moved = async (form, fields) => {
    const found = await send(form, fields);
    if (!found) return refused.dataset.offline;
    const section = found.page.getElementById("ask");
    if (section) {
      const answer = await ask(section);
      return answer ? moved(answer, new FormData(answer)) : "";
    }
    const fresh = found.page.getElementById("board");
    if (fresh) latest = fresh;
    if (!found.ok) {
      const reason = found.page.getElementById("trouble") ?? found.page.querySelector("main p");
      return (reason ?? found.page.body).textContent.trim();
    }
    if (!fresh) location.reload(); // logged out meanwhile
    tell(found.page);
    return null;
  };
  const move = async (card, column, isByMenu) => {
    const [form, list, next] = [card.querySelector("form"), card.parentNode, card.nextSibling];
    const fields = new FormData(form); // with the version that was seen
    fields.set("stage_id", column.dataset.stage);
    column.querySelector("[data-deals]").prepend(card);
    card.draggable = false; // until the answer is there
    waiting += 1;
    const before = moves;
    moves = (async () => {
      await before;
      refused.hidden = true;
      messages.replaceChildren();
      const reason = await moved(form, fields);
      if (reason !== null) {
        list.insertBefore(card, next?.parentNode === list ? next : null);
        card.draggable = true;
      }
      refused.textContent = reason;
      refused.hidden = !reason;
      waiting -= 1;
      renew();
      if (!isByMenu) return;
      const places = [`[data-deal="${card.dataset.deal}"] summary`, `[data-stage="${column.dataset.stage}"] a`];
      places.map((place) => board.querySelector(place)).find(Boolean)?.focus();
    })();
  };
  board.addEventListener("submit", (event) => {
    const column = board.querySelector(`[data-stage="${event.submitter?.value}"]`);
    if (!column) return;
    event.preventDefault();
    event.target.parentNode.open = false;
    move(event.target.closest("[data-deal]"), column, true);
  });
  const cards = dragging(board, "[data-deal]", {
    over(event, card) {
      const column = columnOf(event, card);
      mark(column);
      return column;
    },
    drop(event, card) {
      const column = columnOf(event, card);
      if (column && column === marked) move(card, column);
    },
    end() {
      mark(null);
      renew();
    },
  });
  arm();
}

// A list in an order of one's own: an entry dropped on another takes its place.
for (const list of document.querySelectorAll("[data-order]")) {
  for (const entry of list.children) {
    entry.draggable = true;
    entry.querySelector(".grip").hidden = false;
  }
  const at = (event) => [...list.children].find((entry) => entry.contains(event.target));
  dragging(list, "[data-order] > li", {
    over(event, entry) {
      const other = at(event);
      for (const each of list.children) each.classList.toggle("over", each === other && other !== entry);
      return other && other !== entry;
    },
    drop(event, entry) {
      const position = [...list.children].indexOf(at(event)) + 1;
      if (!position) return;
      const form = entry.querySelector("[data-move]");
      form.append(
        Object.assign(document.createElement("input"), { type: "hidden", name: "position", value: position }),
      );
      form.submit();
    },
    end() {
      for (const each of list.children) each.classList.remove("over");
    },
  });
}

// The next step is this form alone: the logout of a site that embeds the workspace.
document.querySelector("form[data-submit]")?.submit();

// Where the device can share, a button does: a PDF as a file if it takes files, else the address.
for (const button of document.querySelectorAll("[data-share]")) {
  if (!navigator.share) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    const { share: url, title, kind } = button.dataset;
    let what = { title, url: new URL(url, location.href).href };
    try {
      if (kind === "pdf") {
        const type = "application/pdf";
        const files = [new File([await (await fetch(url)).blob()], `${title.replaceAll("/", "-")}.pdf`, { type })];
        if (navigator.canShare?.({ files })) what = { title, files };
        else return location.assign(url);
      }
      await navigator.share(what);
    } catch {
      // Nobody was chosen.
    }
  });
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

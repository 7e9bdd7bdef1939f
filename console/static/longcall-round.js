// The round page: a draft that survives reload, login and a lost connection; nothing here sends an answer.
"use strict";
(() => {
  const form = document.getElementById("answer");
  if (!form) return;
  const key = `longcall-draft:${form.dataset.draft}`;
  const note = document.getElementById("draft-note");
  const store = {
    read: () => { try { return JSON.parse(sessionStorage.getItem(key) || "null"); } catch { return null; } },
    write: (held) => { try { sessionStorage.setItem(key, JSON.stringify(held)); return true; } catch { return false; } },
  };
  const fields = () => [...form.elements].filter((field) => field.name && /^(q\d|comment)/.test(field.name));

  const collect = () => fields().map((field) => [
    field.name,
    field.type === "radio" || field.type === "checkbox" ? field.value : null,
    field.type === "radio" || field.type === "checkbox" ? field.checked : field.value,
  ]);
  const restore = (held) => {
    for (const [name, value, state] of held) {
      for (const field of fields()) {
        if (field.name !== name) continue;
        if (value === null) field.value = state;
        else if (field.value === value) field.checked = state;
      }
    }
  };
  const announce = (text) => { if (note) { note.hidden = false; note.querySelector("span").textContent = text; } };

  // A form that comes back with errors carries what was typed; the draft is for pages that come back empty.
  const held = form.dataset.bound ? null : store.read();
  if (held) {
    restore(held);
    announce(note.dataset.restored);
  }
  let waiting = 0;
  const keep = () => {
    clearTimeout(waiting);
    waiting = 0;
    if (store.write(collect())) announce(note.dataset.kept);
  };
  form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(keep, 400);
  });
  // A reload, a login or a link may come sooner than that.
  window.addEventListener("pagehide", () => { if (waiting) keep(); });

  // ---- the round closed while somebody was typing: the draft stays, the buttons go ----
  const react = () => {
    const state = document.getElementById("round-state");
    const closed = state && state.dataset.open !== "yes";
    const won = closed ? state.dataset.won || "" : "";
    for (const part of form.querySelectorAll(".actbar button, .actbar .note")) part.hidden = closed;
    const compare = document.getElementById("compare");
    if (compare) compare.hidden = !won;
    const winner = document.getElementById("won-note");
    if (winner && winner.textContent !== won) winner.textContent = won;
    const gone = document.getElementById("closed-note");
    if (gone) gone.hidden = !closed;
  };
  document.body.addEventListener("htmx:afterSettle", react);
  react();

  // ---- a double click is one answer ----
  let sent = false;
  form.addEventListener("submit", (event) => {
    if (sent) event.preventDefault();
    sent = true;
    setTimeout(() => { sent = false; }, 3000);
  });

  // ---- several questions: the fields of a question count only where it is answered ----
  for (const box of form.querySelectorAll("[data-question]")) {
    const fold = () => {
      const choice = box.querySelector("[data-choice]:checked");
      const body = box.querySelector("[data-fields]");
      if (choice && body) body.hidden = choice.value !== "accept";
    };
    box.addEventListener("input", (event) => {
      const accept = box.querySelector("[data-choice][value=accept]");
      if (accept && event.target.closest("[data-fields]") && !box.querySelector("[data-choice]:checked")) accept.checked = true;
    });
    box.addEventListener("change", fold);
    fold();
  }
})();

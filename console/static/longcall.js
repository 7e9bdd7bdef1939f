// Small comforts on top of pages that work without them: copy buttons, ticking times, keys, the browser's zone.
"use strict";
(() => {
  const body = document.body;
  const say = (text) => { document.getElementById("say").textContent = text; };

  for (const part of document.querySelectorAll("[data-needs-script]")) part.hidden = false;

  // ---- the browser's own zone, until somebody chooses one ----
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (!body.dataset.zone && zone) {
    document.cookie = `longcall_zone=${encodeURIComponent(zone)}; path=/; max-age=31536000; samesite=lax`;
  }

  // ---- copy ----
  const showCopyButtons = (root) => {
    if (!navigator.clipboard) return;
    for (const button of root.querySelectorAll("button.copy[hidden]")) button.hidden = false;
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.copy");
    if (!button) return;
    navigator.clipboard.writeText(button.dataset.copy).then(() => say(body.dataset.copied));
  });
  showCopyButtons(document);
  document.addEventListener("htmx:load", (event) => showCopyButtons(event.target));

  // ---- a phone's bars of rooms, tabs and states: the one that is open, in sight ----
  const showOpen = (root) => {
    for (const here of root.querySelectorAll(":is(.places, .tabs, .chips) [aria-current]")) {
      const bar = here.closest(".places, .tabs, .chips");
      if (bar.scrollWidth <= bar.clientWidth) continue;
      const [frame, one] = [bar.getBoundingClientRect(), here.getBoundingClientRect()];
      bar.scrollLeft += one.left - frame.left - (bar.clientWidth - one.width) / 2;
    }
  };
  showOpen(document);
  document.addEventListener("htmx:load", (event) => showOpen(event.target));

  // ---- say what has moved, once, to those who listen ----
  const heard = () => document.querySelector("[data-say]")?.dataset.say;
  let lastSaid = heard();
  document.addEventListener("htmx:afterSwap", () => {
    const text = heard();
    if (text && text !== lastSaid) say(text);
    lastSaid = text;
  });

  // ---- ticking times: the same words as the server's ----
  const units = [["D", 86400], ["H", 3600], ["Min", 60], ["S", 1]];
  const words = (seconds) => {
    const parts = [];
    let left = Math.max(0, Math.floor(seconds));
    const largest = units.findIndex(([, size]) => left >= size);
    for (const [unit, size] of units.slice(largest < 0 ? units.length - 1 : largest).slice(0, 2)) {
      const count = Math.floor(left / size);
      left -= count * size;
      if (count || !parts.length) parts.push(`${count}\u00a0${body.dataset[`unit${unit}`]}`);
    }
    return parts.join("\u00a0");
  };
  const coarse = (seconds) => words(seconds >= 60 ? seconds - seconds % 60 : seconds);
  const phrase = {
    rel: (gap) => {
      if (Math.abs(gap) < 1) return body.dataset.now;
      return gap < 0 ? body.dataset.ago.replace("%", coarse(-gap)) : body.dataset.in.replace("%", words(gap));
    },
    due: (gap) => (gap >= 1 ? phrase.rel(gap) : body.dataset.due),
    left: (gap) => (gap < 0 ? body.dataset.over.replace("%", words(-gap)) : words(gap)),
  };
  // The page may stand on a machine whose clock is wrong: count from what the server said, not from our own date.
  const born = performance.now();
  const serverNow = Date.parse(document.querySelector("meta[name=server-now]")?.content || new Date().toISOString());
  const now = () => serverNow + performance.now() - born;
  setInterval(() => {
    if (document.hidden) return;
    for (const time of document.querySelectorAll("time[data-tick]")) {
      const text = phrase[time.dataset.tick]((Date.parse(time.dateTime) - now()) / 1000);
      if (time.textContent !== text) time.textContent = text;
    }
  }, 1000);

  // ---- keys: they move and open, they never decide ----
  const typing = (element) => element.closest("input, textarea, select, [contenteditable]");
  const rows = () => [...document.querySelectorAll("[data-row] a.t, [data-row] a.q")].filter((a) => a.offsetParent);
  const move = (step) => {
    const all = rows();
    if (!all.length) return;
    const at = all.indexOf(document.activeElement);
    all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + step))].focus();
  };
  const place = { h: "home", i: "approvals", o: "operations", r: "reconcile" };
  let afterG = -Infinity;
  const go = (key) => {
    const link = document.querySelector(`.places a[data-place="${place[key]}"]`);
    if (link) link.click();
  };
  document.addEventListener("keydown", (event) => {
    if (body.dataset.keys !== "on" || event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
    if (event.timeStamp - afterG < 1500 && place[event.key]) {
      afterG = -Infinity;
      go(event.key);
      return;
    }
    if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "o" && rows().includes(document.activeElement)) document.activeElement.click();
    else if (event.key === "g") afterG = event.timeStamp;
    else if (event.key === "?") document.querySelector(".places a[data-place=help]")?.click();
    else if (event.key === "/") {
      const search = document.querySelector("input[type=search]");
      if (!search) return;
      event.preventDefault();
      search.focus();
    }
  });
})();

// Live pages: the socket says which operation has moved, the page asks for its fragments again.
// What a person types is never touched: forms stand outside of everything that is swapped.
"use strict";
(() => {
  const body = document.body;
  const SILENCE = 25000; // the server speaks every ten seconds; a socket that is silent for longer is dead
  const SIGNED_OUT = 4401;
  const GATHER = 300;
  const AT_ONCE = 20;
  const seen = new Map();
  let socket = null;
  let failures = 0;
  let lastHeard = 0;
  let gathering = 0;
  let toldAt = 0;
  const pending = new Set();

  const tell = () => {
    gathering = 0;
    toldAt = performance.now();
    for (const name of pending) htmx.trigger(body, name);
    pending.clear();
  };
  // Events are gathered: a burst of a hundred changes asks for a list once, not a hundred times. The first
  // change after a rest is shown at once: somebody may be waiting for it.
  const plan = (name) => {
    pending.add(name);
    if (!gathering) gathering = setTimeout(tell, Math.max(AT_ONCE, toldAt + GATHER - performance.now()));
  };

  const show = (state) => {
    if (body.dataset.live === state) return;
    body.dataset.live = state;
    const banner = document.getElementById("live-lost");
    if (banner) banner.hidden = state !== "lost";
  };

  const hear = (event) => {
    lastHeard = Date.now();
    show("on");
    const told = JSON.parse(event.data);
    if (told.resync) {
      plan("op-any");
      plan("resync");
    } else if (told.op) {
      if ((seen.get(told.op) || 0) >= told.v) return;
      if (seen.size > 5000) seen.clear();
      seen.set(told.op, told.v);
      plan(`op-${told.op}`);
      plan("op-any");
    }
  };

  const connect = () => {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const mine = new WebSocket(`${scheme}//${location.host}/ws/live`);
    socket = mine;
    lastHeard = Date.now();
    mine.addEventListener("open", () => { failures = 0; });
    mine.addEventListener("message", hear);
    mine.addEventListener("close", (event) => {
      if (socket !== mine) return;
      socket = null;
      if (event.code === SIGNED_OUT) {
        // The page's own next request leads to the login and back here; a draft is kept by its page.
        show("lost");
        htmx.trigger(body, "resync");
        return;
      }
      show("lost");
      const wait = Math.min(30000, 500 * 2 ** failures++);
      setTimeout(connect, wait * (0.5 + Math.random()));
    });
  };

  setInterval(() => {
    if (!socket || Date.now() - lastHeard < SILENCE) return;
    // No close event comes from a network that is simply gone.
    const dead = socket;
    socket = null;
    dead.close();
    show("lost");
    setTimeout(connect, 500 * Math.random());
  }, 5000);

  // A fragment that was asked for earlier may arrive later: never let an older version replace a newer one.
  body.addEventListener("htmx:beforeSwap", (event) => {
    const held = Number(event.detail.target?.dataset?.version || 0);
    if (!held || !event.detail.shouldSwap) return;
    const found = /data-version="(\d+)"/.exec(event.detail.serverResponse || "");
    if (found && Number(found[1]) < held) event.detail.shouldSwap = false;
  });

  connect();
})();

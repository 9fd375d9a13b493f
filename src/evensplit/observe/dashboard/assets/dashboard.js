"use strict";
// What htmx does not: times in the reader's zone, the keys of the grid, the story's focus, and whether the server is there.
(() => {
  const SILENCE_MS = 15000;
  const live = () => document.getElementById("live");
  const story = () => document.getElementById("story");
  const zoned = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
  const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });

  function showAges(root) {
    for (const one of root.querySelectorAll("time.ago")) {
      const seconds = Math.max(0, Math.floor((Date.now() - new Date(one.dateTime).getTime()) / 1000));
      const [size, unit] = [[86400, "d"], [3600, "h"], [60, "min"]].find(([size]) => seconds >= 2 * size) ?? [1, "s"];
      if (!Number.isNaN(seconds)) one.textContent = `${Math.floor(seconds / size)} ${unit} ago`;
    }
  }

  function showTimes(root) {
    const today = new Date().toDateString();
    showAges(root);
    for (const one of root.querySelectorAll("time[datetime]:not(.ago)")) {
      const at = new Date(one.dateTime);
      if (!Number.isNaN(at.getTime())) {
        one.textContent = (at.toDateString() === today ? clock : zoned).format(at);
      }
    }
  }

  // Is the server there? It says something every few seconds, news or not.
  let heard = Date.now();
  let lost = false;

  function hear() {
    heard = Date.now();
    if (lost) {
      lost = false;
      document.getElementById("lost").hidden = true;
      document.body.classList.remove("is-lost");
    }
  }

  function lose() {
    if (!lost) {
      lost = true;
      document.getElementById("lost-at").textContent = clock.format(new Date(heard));
      document.getElementById("lost").hidden = false;
      document.body.classList.add("is-lost");
    }
  }

  window.setInterval(() => {
    if (Date.now() - heard > SILENCE_MS) lose();
    showAges(live());
  }, 1000);

  document.addEventListener("htmx:sseOpen", (event) => {
    const source = event.detail.source;
    source.addEventListener("beat", hear);
    source.addEventListener("batch", hear);
    hear();
  });
  document.addEventListener("htmx:sseError", lose);
  document.addEventListener("htmx:sendError", lose);
  document.addEventListener("htmx:responseError", (event) => {
    // Asked for its token again, the page is loaded anew, which says so.
    if (event.detail.xhr.status === 401) window.location.reload();
    else if (event.detail.target === story()) story().textContent = `The history cannot be read: ${event.detail.xhr.status}.`;
  });

  // News are shown where somebody looks, and for what is shown: it says itself what that is, with its source.
  document.addEventListener("htmx:configRequest", (event) => {
    if (event.detail.elt.id !== "tick") return;
    if (document.hidden) event.preventDefault();
    else event.detail.path = document.getElementById("here")?.dataset.address ?? "/";
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) window.htmx.trigger("#tick", "look");
  });

  // What somebody has opened stays open.
  window.Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) =>
    !(name === "open" && node.tagName === "DETAILS") && !(name === "tabindex" && node.classList.contains("cell"));

  document.addEventListener("htmx:afterSwap", (event) => {
    showTimes(event.detail.target);
    // One that comes with the page was not asked for by a key.
    const asked = event.detail.requestConfig?.elt.id !== "story-awaited";
    if (event.detail.target === story() && asked) document.getElementById("story-title")?.focus();
    if (event.detail.target === live()) rove();
  });

  // The grid is one stop for the tab key; inside of it the arrows go on.
  function rove() {
    const cells = live().querySelectorAll("a.cell");
    if (cells.length && !live().querySelector('a.cell[tabindex="0"]')) cells[0].tabIndex = 0;
  }

  function goTo(cell) {
    for (const one of live().querySelectorAll('a.cell[tabindex="0"]')) one.tabIndex = -1;
    cell.tabIndex = 0;
    cell.focus();
  }

  function upOrDown(cells, from, down) {
    const here = from.getBoundingClientRect();
    let best = null;
    let least = Infinity;
    for (const one of cells) {
      const box = one.getBoundingClientRect();
      const away = down ? box.top - here.bottom : here.top - box.bottom;
      if (away < -1) continue;
      const cost = away * 1000 + Math.abs(box.left - here.left);
      if (cost < least) [best, least] = [one, cost];
    }
    return best;
  }

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && document.getElementById("story-close")) {
      closeStory();
      return;
    }
    const from = event.target.closest?.("a.cell");
    if (!from || event.ctrlKey || event.altKey || event.metaKey) return;
    const cells = [...live().querySelectorAll("a.cell")];
    const at = cells.indexOf(from);
    const row = [...from.closest(".row").querySelectorAll("a.cell")];
    const to = {
      ArrowRight: () => cells[at + 1],
      ArrowLeft: () => cells[at - 1],
      ArrowDown: () => upOrDown(cells, from, true),
      ArrowUp: () => upOrDown(cells, from, false),
      Home: () => (event.shiftKey ? cells[0] : row[0]),
      End: () => (event.shiftKey ? cells[cells.length - 1] : row[row.length - 1]),
    }[event.key]?.();
    if (to) {
      goTo(to);
      event.preventDefault();
    }
  });

  // A story is closed where it was opened.
  let opener = "";

  function closeStory() {
    story().replaceChildren();
    const address = new URL(window.location.href);
    address.searchParams.delete("split");
    window.history.replaceState(null, "", address.pathname + address.search);
    document.getElementById(opener)?.focus();
  }

  document.addEventListener("click", (event) => {
    if (event.target.closest("#story-close")) closeStory();
    const cell = event.target.closest("a.cell");
    if (cell) opener = cell.id;
  });

  showTimes(document);
  rove();
})();

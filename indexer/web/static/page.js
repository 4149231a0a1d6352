// Keeps an open page true: when the service says that something changed, the same address is
// fetched again and the sections that differ take the place of the old ones. No reload, no state.
"use strict";
(() => {
  const live = document.getElementById("live");
  const announce = document.getElementById("announce");
  const PAUSE = 250;
  let source = null;
  let timer = 0;
  let fetching = false;
  let again = false;
  let touched = new Set();

  const show = (state, text) => {
    live.dataset.state = state;
    live.textContent = text;
  };

  // -- times, which the service tells in UTC, in the zone of whoever reads them

  const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

  const localTimes = (within) => {
    for (const time of within.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime);
      if (!Number.isNaN(at.getTime())) time.textContent = clock.format(at);
    }
  };
  localTimes(document);

  // -- the stream

  const open = () => {
    if (source || document.hidden) return;
    source = new EventSource("/events");
    let before = false;
    source.onopen = () => {
      show("on", "live");
      // Whatever happened while nobody listened.
      if (before || live.dataset.slept) refresh();
      before = true;
      delete live.dataset.slept;
    };
    source.onerror = () => {
      if (source && source.readyState === EventSource.CLOSED) {
        source = null;
        show("lost", "ended: open the new address");
      } else {
        show("lost", "reconnecting");
      }
    };
    source.addEventListener("change", (event) => {
      const told = JSON.parse(event.data);
      told.paths.forEach((path) => touched.add(path));
      if (told.nodes) announce.textContent = `${told.nodes} changed`;
      refresh();
    });
  };

  // Browsers keep few connections to one host: a hidden page lets go of its own.
  const close = () => {
    if (!source) return;
    source.close();
    source = null;
    live.dataset.slept = "1";
    show("off", "paused");
  };

  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);

  // -- bringing the page up to date

  const refresh = () => {
    if (fetching) {
      again = true;
    } else if (!timer) {
      timer = setTimeout(update, PAUSE);
    }
  };

  const update = async () => {
    timer = 0;
    fetching = true;
    const paths = touched;
    touched = new Set();
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" } });
      if (answer.status === 401) {
        show("lost", "ended: open the new address");
        return;
      }
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      localTimes(fresh);
      if (!answer.ok) {
        // What is on the page is the last that was known; say so rather than show it as true.
        const notice = fresh.querySelector(".notice");
        show("lost", `not now: ${notice ? notice.textContent : answer.status}`);
        return;
      }
      exchange(fresh);
      flash(paths);
      if (source) show("on", "live");
    } catch {
      // The service is away; the stream tells when it is back.
    } finally {
      fetching = false;
      if (again) {
        again = false;
        refresh();
      }
    }
  };

  const exchange = (fresh) => {
    const focus = place(document.activeElement);
    for (const old of document.querySelectorAll("[data-live]")) {
      const next = fresh.getElementById(old.id);
      if (!next) {
        // Gone with its subject; the rest of the page tells.
        old.hidden = true;
      } else if (next.outerHTML !== old.outerHTML) {
        for (const details of old.querySelectorAll("details[open]")) {
          const index = [...old.querySelectorAll("details")].indexOf(details);
          const same = next.querySelectorAll("details")[index];
          if (same) same.open = true;
        }
        old.replaceWith(document.adoptNode(next));
      }
    }
    restore(focus);
  };

  // Where the keyboard was, in words that the new section understands.
  const place = (element) => {
    const section = element && element.closest ? element.closest("[data-live]") : null;
    if (!section || element === section) return null;
    const group = element.closest("svg.map");
    const href = element.getAttribute("href");
    return { section: section.id, group: group && group.classList[1], href };
  };

  const restore = (focus) => {
    if (!focus || document.activeElement !== document.body) return;
    const section = document.getElementById(focus.section);
    if (!section) return;
    const where = focus.group ? section.querySelector(`svg.map.${focus.group}`) : section;
    const links = where ? [...where.querySelectorAll("a")] : [];
    const same = links.find((link) => link.getAttribute("href") === focus.href);
    if (same) same.focus({ preventScroll: true });
  };

  const flash = (paths) => {
    if (!paths.size) return;
    for (const element of document.querySelectorAll("[data-path]")) {
      if (paths.has(element.dataset.path)) {
        element.classList.add("just-changed");
        setTimeout(() => element.classList.remove("just-changed"), 1500);
      }
    }
  };

  // -- the keyboard: arrows go to the nearest tile on that side

  const DIRECTIONS = {
    ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1],
  };

  const middle = (tile) => {
    const box = tile.getBoundingClientRect();
    return [box.x + box.width / 2, box.y + box.height / 2];
  };

  document.addEventListener("keydown", (event) => {
    const tile = event.target.closest ? event.target.closest("a.tile") : null;
    const direction = DIRECTIONS[event.key];
    if (tile && direction && !event.altKey && !event.ctrlKey && !event.metaKey) {
      const [x, y] = middle(tile);
      let best = null;
      let least = Infinity;
      for (const other of tile.closest("svg.map").querySelectorAll("a.tile")) {
        const [ox, oy] = middle(other);
        const along = (ox - x) * direction[0] + (oy - y) * direction[1];
        const aside = Math.abs((ox - x) * direction[1]) + Math.abs((oy - y) * direction[0]);
        const distance = along + 2 * aside;
        if (other !== tile && along > 1 && distance < least) [best, least] = [other, distance];
      }
      if (best) {
        event.preventDefault();
        best.focus();
      }
    } else if (event.key === "/" && !/^(INPUT|TEXTAREA)$/.test(event.target.tagName)) {
      event.preventDefault();
      document.getElementById("q").focus();
    }
  });

  open();
})();

// The page: a head, and a place for what the address names. Each address is shown by one of the pages below.

import { onConnection } from "./api.js";
import { comparePage } from "./compare.js";
import { fill, h, visible } from "./dom.js";
import { header, listenToKeys } from "./header.js";
import { instancePage } from "./instance.js";
import { leaderboardPage } from "./leaderboard.js";
import { matrixPage } from "./matrix.js";
import { trouble } from "./parts.js";
import { applyTheme } from "./prefs.js";
import { readRoute } from "./route.js";
import { runPage } from "./run.js";
import { runsPage } from "./runs.js";
import { applyLanguage, t } from "./words.js";

const PAGES = {
  "/": runsPage,
  "/run": runPage,
  "/instance": instancePage,
  "/compare": comparePage,
  "/leaderboard": leaderboardPage,
  "/matrix": matrixPage,
};

const main = h("main", { id: "main", tabindex: "-1" });
const announced = h("p", { class: "hidden", role: "status", "aria-live": "polite" });
const gone = h("p", { class: "gone", role: "alert", hidden: true });
let shown = { key: null, leave: null, update: null, keys: {} };

/** Show what the address names. What only changed its parameters may be updated where it stands. */
function show({ renew = false } = {}) {
  const route = readRoute(location.hash);
  const make = Object.hasOwn(PAGES, route.path) ? PAGES[route.path] : unknownPage;
  const key = `${route.path} ${make.identity?.(route.query) ?? ""}`;
  leavePlace();
  if (!renew && key === shown.key && shown.update) {
    shown.update(route.query);
    return;
  }
  const first = shown.key === null;
  shown.leave?.abort();
  const leave = new AbortController();
  shown = { key, leave, update: null, keys: {} };
  const place = { main, query: route.query, signal: leave.signal, heading: (title) => heading(title, first || renew) };
  if (!first && !renew) begin(leave.signal);
  try {
    const page = make(place) ?? {};
    shown.update = page.update ?? null;
    shown.keys = page.keys ?? {};
  } catch (error) {
    fill(main, trouble(error, () => show({ renew: true })));
    throw error;
  }
}

/** The page's heading, its title in the window, and where reading begins after a step to another page. */
function heading(title, still) {
  document.title = `${visible(title)} · cts view`;
  const element = h("h1", { tabindex: "-1" });
  if (!still) {
    requestAnimationFrame(() => element.focus({ preventScroll: true }));
  }
  return element;
}

/** A page is read from its beginning, or from where it was left. */
function begin(signal) {
  scrollTo(0, 0);
  if (wasHere()) returnToPlace(main, signal);
}

function unknownPage({ main: place, heading: head }) {
  fill(place, fill(head(t("nowhere")), t("nowhere")), h("p", {}, h("a", { href: "#/" }, t("toRuns"))));
}

/** All that stands around the pages, in the language of the moment. */
function surround() {
  applyLanguage();
  const click = () => (main.querySelector("h1") ?? main).focus();
  const skip = h("button", { type: "button", class: "skip", on: { click } }, t("skip"));
  fill(document.body, skip, header(languageChanged), gone, main, announced);
}

function languageChanged() {
  surround();
  show({ renew: true });
  document.getElementById("language").focus();
}

// --- Where the reader was

const WAIT_MS = 3000;
const places = new Map();
let entry = null;
let last = 0;

history.scrollRestoration = "manual";

/** Note where the reader stands on the page that is being left, and which entry of the history comes up. */
function leavePlace() {
  if (entry !== null) places.set(entry, { top: scrollY, link: document.activeElement?.getAttribute?.("href") ?? null });
  entry = history.state?.entry ?? null;
  if (entry === null) {
    entry = `${Date.now()}.${(last += 1)}`;
    history.replaceState({ entry }, "");
  }
}

/** Whether the reader has been at this entry of the history before. */
const wasHere = () => places.has(entry);

/** Go to where the reader was, as soon as `main` is long enough and has the link again; until then nothing moves. */
function returnToPlace(main, signal) {
  const { top, link } = places.get(entry);
  const watcher = new ResizeObserver(() => {
    const followed = link && [...main.querySelectorAll("a")].find((one) => one.getAttribute("href") === link);
    if (main.offsetTop + main.scrollHeight < top + innerHeight || (link && !followed)) return;
    end();
    scrollTo(0, top);
    if (followed) followed.focus({ preventScroll: true });
  });
  const end = () => { watcher.disconnect(); clearTimeout(timer); };
  const timer = setTimeout(end, WAIT_MS);
  watcher.observe(main);
  signal.addEventListener("abort", end);
  addEventListener("wheel", end, { once: true, passive: true, signal });
}

// --- The beginning

onConnection((isGone) => {
  gone.hidden = !isGone;
  gone.textContent = isGone ? t("gone") : "";
  announced.textContent = isGone ? "" : t("back");
});

addEventListener("hashchange", () => show());
listenToKeys(() => shown.keys);
applyTheme();
surround();
show();

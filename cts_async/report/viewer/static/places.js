// Where the reader was on a page: going back leads there again, and the focus to the link that was followed.

const WAIT_MS = 3000;
const places = new Map();
let entry = null;
let last = 0;

history.scrollRestoration = "manual";

/** Note where the reader stands on the page that is being left, and which entry of the history comes up. */
export function leavePlace() {
  if (entry !== null) places.set(entry, { top: scrollY, link: document.activeElement?.getAttribute?.("href") ?? null });
  entry = history.state?.entry ?? null;
  if (entry === null) {
    entry = `${Date.now()}.${(last += 1)}`;
    history.replaceState({ entry }, "");
  }
}

/** Whether the reader has been at this entry of the history before. */
export const wasHere = () => places.has(entry);

/** Go to where the reader was, as soon as `main` is long enough and has the link again; until then nothing moves. */
export function returnToPlace(main, signal) {
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

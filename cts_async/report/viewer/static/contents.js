// The contents of a page, beside it: where each section is, and which one is being read.

import { h } from "./dom.js";
import { t } from "./words.js";

/** Links to sections, [[id, words], ...] by `address(id)`; what else belongs there follows. */
export function contents(sections, address, signal, ...more) {
  const links = new Map(sections.map(([id, words]) => [id, h("a", { href: address(id) }, words)]));
  requestAnimationFrame(() => signal.aborted || follow(links, signal));
  return h("nav", { class: "contents", "aria-label": t("contents") },
    h("ul", {}, [...links.values()].map((link) => h("li", {}, link))), more);
}

/** Mark the first of the sections that cross the upper third of the window. */
function follow(links, signal) {
  const seen = new Set();
  const watcher = new IntersectionObserver((entries) => {
    entries.forEach(({ target, isIntersecting }) => (isIntersecting ? seen.add(target.id) : seen.delete(target.id)));
    const now = [...links.keys()].find((id) => seen.has(id));
    if (now === undefined) return;
    for (const [id, link] of links) {
      if (id === now) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }, { rootMargin: "-10% 0px -67% 0px" });
  const sections = [...links.keys()].map((id) => document.getElementById(id));
  sections.filter((section) => section !== null).forEach((section) => watcher.observe(section));
  signal.addEventListener("abort", () => watcher.disconnect());
}

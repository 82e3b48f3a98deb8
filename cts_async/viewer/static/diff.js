// What a text has that another one has not, word by word.

import { fill, h, languageOf, untrusted, visible } from "./dom.js";
import { size } from "./format.js";
import { beginning, isLong } from "./longtext.js";
import { t } from "./words.js";

const MAX_PAIRS = 4_000_000; // of words: 16 MB and some 50 ms
const CUT = 900;

/** `text` with the words marked that `other` does not have there; a long one when it is asked for. */
export function marked(text, other) {
  const draw = () => fill(untrusted(text, "div", { class: "text" }), parts(text, other).map(
    ({ words, only }) => (only ? h("mark", {}, visible(words)) : visible(words))));
  if (!isLong(text)) return draw();
  const whole = h("details", {}, h("summary", {}, t("showAll", { size: size(text.length, "") })));
  whole.addEventListener("toggle", () => whole.append(draw()), { once: true });
  return h("div", {}, untrusted(beginning(text, CUT), "p"), whole);
}

/** The text in parts {words, only}; `only` where the other has not these words. Texts too long for that are one part. */
function parts(text, other) {
  const [here, there] = [text, other].map(wordsOf);
  let [start, left, right] = [0, here.length, there.length];
  while (start < left && start < right && here[start] === there[start]) start += 1;
  while (left > start && right > start && here[left - 1] === there[right - 1]) [left, right] = [left - 1, right - 1];
  if ((left - start) * (right - start) > MAX_PAIRS) return [{ words: text, only: false }];
  const common = commonWords(here.slice(start, left), there.slice(start, right));
  const found = [];
  here.forEach((words, at) => {
    const only = at >= start && at < left && !common[at - start] && words.trim() !== "";
    const last = found.at(-1);
    if (last && (last.only === only || words.trim() === "")) last.words += words;
    else found.push({ words, only });
  });
  return found;
}

function wordsOf(text) {
  const words = new Intl.Segmenter(languageOf(text) ?? "en", { granularity: "word" });
  return [...words.segment(text)].map(({ segment }) => segment);
}

/** Which words of `a` are part of a longest common subsequence with `b`. */
function commonWords(a, b) {
  const width = b.length + 1;
  const lengths = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      const at = i * width + j;
      lengths[at] = a[i] === b[j] ? lengths[at + width + 1] + 1 : Math.max(lengths[at + width], lengths[at + 1]);
    }
  }
  const common = a.map(() => false);
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) [common[i], i, j] = [true, i + 1, j + 1];
    else if (lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]) i += 1;
    else j += 1;
  }
  return common;
}

// What can be measured on a rendered page: each function gives a list of faults, one line each, empty where all is well.
(() => {
  const visible = (element) => element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true })
    && element.getBoundingClientRect().width > 1 && element.getBoundingClientRect().height > 1;

  const told = (element) => {
    const words = (element.textContent || element.getAttribute("aria-label") || element.value || "").trim();
    const marks = element.className && element.className.baseVal === undefined ? `.${element.className}` : "";
    return `<${element.localName}${marks}> "${words.replace(/\s+/g, " ").slice(0, 60)}"`;
  };

  // --- Contrast (WCAG 2.2, 1.4.3): of what is seen, whatever notation the style sheet has for its colours.

  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const rgba = (colour) => {
    if (!known.has(colour)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
      known.set(colour, [r, g, b, a / 255]);
    }
    return known.get(colour);
  };
  const over = ([r, g, b, a], below) => [r, g, b].map((value, i) => value * a + below[i] * (1 - a));
  const backgroundOf = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const layer = rgba(getComputedStyle(at).backgroundColor);
      layers.push(layer);
      if (layer[3] === 1) break;
    }
    const canvasColour = matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
    return layers.reverse().reduce((below, layer) => over(layer, below), canvasColour);
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((value) => {
      const part = value / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const opacityOf = (element) => {
    let opacity = 1;
    for (let at = element; at; at = at.parentElement) opacity *= Number(getComputedStyle(at).opacity);
    return opacity;
  };

  const textNodes = function* () {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const element = walker.currentNode.parentElement;
      if (walker.currentNode.data.trim() && visible(element) && !element.closest("noscript, script, style")) {
        yield walker.currentNode;
      }
    }
  };

  const contrast = () => {
    const faults = new Set();
    for (const node of textNodes()) {
      const element = node.parentElement;
      if (element.closest(":disabled, [aria-disabled=true], .subplot .overplot")) continue; // plotly: marks lie below these
      const style = getComputedStyle(element);
      const below = backgroundOf(element);
      const [r, g, b, a] = rgba(element.closest("svg") ? style.fill : style.color);
      const found = ratio(over([r, g, b, a * opacityOf(element)], below), below);
      const size = parseFloat(style.fontSize);
      const needed = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
      if (found < needed - 0.01) faults.add(`${found.toFixed(2)} < ${needed}: ${told(element)}`);
    }
    return [...faults];
  };

  // --- Layout

  const CONTROLS = "a[href], button, input, select, textarea, summary, [role=button], [role=tab], [tabindex='0']";
  const controls = () => [...document.querySelectorAll(CONTROLS)].filter(visible);

  const wide = () => {
    const { scrollWidth, clientWidth } = document.documentElement;
    if (scrollWidth <= clientWidth) return [];
    const sticking = [...document.body.querySelectorAll("*")].filter(
      (element) => visible(element) && element.getBoundingClientRect().right > clientWidth + 1
        && !scrolls(element.parentElement));
    return [`${scrollWidth} > ${clientWidth}`, ...sticking.slice(0, 5).map(told)];
  };
  const scrolls = (element) => {
    for (let at = element; at && at !== document.body; at = at.parentElement) {
      if (getComputedStyle(at).overflowX !== "visible") return true;
    }
    return false;
  };

  const rectsOf = (node) => {
    const range = document.createRange();
    range.selectNodeContents(node);
    return [...range.getClientRects()].filter((rect) => rect.width > 1 && rect.height > 1);
  };
  const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4;
  const clippedOrFloating = (element) => {
    for (let at = element; at && at !== document.body; at = at.parentElement) {
      const { position, overflowX, overflowY, clipPath } = getComputedStyle(at);
      if (["fixed", "sticky"].includes(position) || clipPath !== "none") return true;
      if (overflowX !== "visible" || overflowY !== "visible") return true;
    }
    return false;
  };
  const overlaps = () => {
    const pieces = [];
    for (const node of textNodes()) {
      if (clippedOrFloating(node.parentElement)) continue;
      for (const rect of rectsOf(node)) pieces.push([rect, node.parentElement]);
    }
    pieces.sort((a, b) => a[0].top - b[0].top);
    const faults = new Set();
    for (let i = 0; i < pieces.length; i += 1) {
      for (let j = i + 1; j < pieces.length && pieces[j][0].top < pieces[i][0].bottom; j += 1) {
        const [[a, one], [b, other]] = [pieces[i], pieces[j]];
        if (one !== other && !one.contains(other) && !other.contains(one) && meet(a, b)) {
          faults.add(`${told(one)} over ${told(other)}`);
        }
      }
    }
    return [...faults].slice(0, 10);
  };

  // WCAG 2.2, 2.5.8: 24 by 24 pixels, but for links in running text and what the browser itself draws.
  const small = () => controls()
    .filter((element) => !(element.localName === "a" && getComputedStyle(element).display === "inline"))
    .filter((element) => !["checkbox", "radio", "range"].includes(element.type))
    .filter((element) => {
      const { width, height } = element.getBoundingClientRect();
      return width < 23.5 || height < 23.5;
    })
    .map((element) => {
      const { width, height } = element.getBoundingClientRect();
      return `${width.toFixed(0)}x${height.toFixed(0)}: ${told(element)}`;
    });

  // --- Meaning

  const unlabelled = () => [...document.querySelectorAll("input, select, textarea")]
    .filter((element) => visible(element) && !element.labels.length
      && !element.getAttribute("aria-label") && !element.getAttribute("aria-labelledby"))
    .map(told);

  const tables = () => [...document.querySelectorAll("table")].filter(visible).flatMap((table) => [
    ...(table.caption || table.getAttribute("aria-label") || table.getAttribute("aria-labelledby")
      ? [] : [`no caption: ${told(table)}`]),
    ...[...table.querySelectorAll("thead th")].filter((cell) => cell.scope !== "col" && cell.scope !== "colgroup")
      .map((cell) => `no scope: ${told(cell)}`),
  ]);

  const languages = () => {
    const faults = [];
    if (!document.documentElement.lang) faults.push("the page names no language");
    for (const node of textNodes()) {
      const nearest = node.parentElement.closest("[lang]");
      const han = (node.data.match(/\p{Script=Han}/gu) || []).length;
      if (han > 3 && han > node.data.length / 2 && !(nearest && nearest.lang.startsWith("zh"))) {
        faults.push(told(node.parentElement));
      }
    }
    return faults;
  };

  const moving = () => document.getAnimations()
    .filter((animation) => animation.playState === "running" && animation.effect.getTiming().duration > 1)
    .map((animation) => told(animation.effect.target));

  // A ring around the control, or around the row or label that it stands in.
  const ringed = (element) => {
    for (let at = element; at && at.localName !== "table" && at !== document.body; at = at.parentElement) {
      const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(at);
      if (outlineStyle !== "none" && parseFloat(outlineWidth) >= 1) return true;
      if (at === element && boxShadow !== "none") return true;
    }
    return false;
  };
  const focused = () => {
    const element = document.activeElement;
    if (!element || element === document.body) return null;
    const { top, bottom, width } = element.getBoundingClientRect();
    return {
      told: told(element),
      name: element.getAttribute("aria-label") || element.textContent.trim() || element.id,
      seen: ringed(element) && width > 0 && bottom > 0 && top < innerHeight,
      href: element.getAttribute("href") || "",
      tag: element.localName,
    };
  };

  return { contrast, wide, overlaps, small, unlabelled, tables, languages, moving, focused };
})()

"use strict";
// Draws the page's figures, in the colours of its theme, and opens what is folded around a link's target.
(() => {
  const { figures, themes } = JSON.parse(document.getElementById("figures").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const places = [...document.querySelectorAll("[data-figure]")];
  // Plotly's button that shares a figure would upload it, through a window that no policy holds back.
  const settings = { responsive: true, displaylogo: false, showSendToCloud: false, plotlyServerURL: "" };
  let printing = false;

  const theme = () => themes[dark.matches && !printing ? "dark" : "light"];

  function draw(place) {
    const figure = figures[place.dataset.figure];
    const layout = { ...figure.layout, template: theme(), autosize: true };
    const drawn = Plotly.react(place, figure.data, layout, settings);
    document.getElementById("js-plotly-tester")?.setAttribute("aria-hidden", "true");
    // The place has the figure's text; within it only Plotly's buttons are for the keyboard and screen readers.
    drawn.then(() => {
      for (const part of place.querySelectorAll(".main-svg")) part.setAttribute("aria-hidden", "true");
    });
    return drawn;
  }

  for (const place of places) {
    if (place.dataset.height) place.style.height = `${place.dataset.height}px`;
    requestAnimationFrame(() => draw(place));
  }
  dark.addEventListener("change", () => places.forEach(draw));
  addEventListener("beforeprint", () => {
    printing = true;
    for (const folded of document.querySelectorAll(".table > details")) folded.open = true;
    places.forEach(draw);
  });
  addEventListener("afterprint", () => { printing = false; places.forEach(draw); });

  function unfold() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let node = target; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
    if (target) target.scrollIntoView();
  }
  addEventListener("hashchange", unfold);
  unfold();
})();

"use strict";
// Everything on this page reads without this script. It adds a switch for the theme and lets a legend's names hide
// their platform in the picture below.
(() => {
  const root = document.documentElement;
  const dark = () => matchMedia("(prefers-color-scheme: dark)").matches;
  const theme = document.getElementById("theme");
  if (theme) {
    theme.hidden = false;
    theme.addEventListener("click", () => {
      const now = root.dataset.theme || (dark() ? "dark" : "light");
      root.dataset.theme = now === "dark" ? "light" : "dark";
    });
  }
  for (const figure of document.querySelectorAll("figure")) {
    const drawing = figure.querySelector("svg");
    for (const key of figure.querySelectorAll(".legend li[data-ink]")) {
      if (!drawing) continue;
      const ink = key.dataset.ink;
      const parts = drawing.querySelectorAll(`[stroke="${ink}"],[fill="${ink}"]`);
      key.tabIndex = 0;
      key.setAttribute("role", "button");
      key.setAttribute("aria-pressed", "true");
      const toggle = () => {
        const shown = key.getAttribute("aria-pressed") !== "true";
        key.setAttribute("aria-pressed", String(shown));
        for (const part of parts) part.style.visibility = shown ? "" : "hidden";
      };
      key.addEventListener("click", toggle);
      key.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        toggle();
      });
    }
  }
})();

"use strict";
// Everything on this page reads without this script. It adds a switch for the theme, lets a legend's names hide their platform in
// the picture below, opens the folds that a link leads into, finds figures, and writes out a figure's rounds.
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

  // A place within folds, or one that holds a fold and nothing else to see, is opened and shown.
  const reveal = () => {
    const target = document.getElementById(location.hash.slice(1));
    if (!target) return;
    const own = target.matches("details") ? target : target.querySelector(":scope > details");
    if (own) own.open = true;
    for (let at = target.parentElement; at; at = at.parentElement) if (at.matches("details")) at.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href^='#']");
    if (link && link.hash === location.hash) reveal();
  });
  reveal();
  addEventListener("beforeprint", () => {
    for (const fold of document.querySelectorAll("details")) fold.open = true;
  });

  const find = document.getElementById("find");
  if (find) {
    const section = document.getElementById("figures");
    const found = document.getElementById("found");
    const probes = [...section.querySelectorAll(".probe")].map((fold) => ({
      fold,
      wasOpen: fold.open,
      figures: [...fold.querySelectorAll(".figtable tbody")].map((figure) => ({
        figure,
        rows: [...figure.rows].map((row) => ({
          row,
          text: [fold.id, fold.querySelector("summary").textContent, figure.querySelector("th").textContent,
            row.querySelector("th").textContent, row.id].join(" ").toLowerCase(),
        })),
      })),
    }));
    let searching = false;
    const search = () => {
      const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
      const now = words.length > 0;
      let count = 0;
      for (const probe of probes) {
        if (now && !searching) probe.wasOpen = probe.fold.open;
        let some = false;
        for (const { figure, rows } of probe.figures) {
          let any = false;
          for (const { row, text } of rows) {
            const hit = words.every((word) => text.includes(word));
            row.hidden = !hit;
            any ||= hit;
            count += hit;
          }
          // The first row names the figure.
          if (any && rows.length > 0) rows[0].row.hidden = false;
          figure.hidden = !any;
          some ||= any;
        }
        probe.fold.hidden = now && !some;
        probe.fold.open = now ? some : probe.wasOpen;
      }
      searching = now;
      section.classList.toggle("searching", now);
      found.textContent = now ? `${count} found` : "";
    };
    find.parentElement.hidden = false;
    find.addEventListener("input", search);
    find.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      find.value = "";
      search();
    });
    // Who follows a link wants to see where it leads.
    addEventListener("hashchange", () => {
      if (!searching) return;
      find.value = "";
      search();
      reveal();
    });
  }

  for (const link of document.querySelectorAll("a.rounds")) {
    link.addEventListener("click", () => {
      const row = link.closest("tr");
      const out = link.closest(".probe").querySelector(".values");
      const title = document.createElement("strong");
      title.textContent = row.querySelector(".what").textContent + (row.dataset.unit ? `, ${row.dataset.unit}` : "");
      out.replaceChildren(title);
      for (const line of row.parentElement.rows) {
        const beside = line.querySelector(".beside")?.textContent;
        for (const cell of line.querySelectorAll("td[data-v]")) {
          const text = document.createElement("p");
          text.textContent = `${cell.dataset.label}${beside ? ` ${beside}` : ""}: ${cell.dataset.v}`;
          out.append(text);
        }
      }
      out.hidden = false;
    });
  }
})();

"use strict";
// Filter and search. Without this script the page is complete: everything is there, and unfiltered.
(() => {
  const rows = [...document.querySelectorAll(".r")];
  const chapters = [...document.querySelectorAll(".chapter")];
  const search = document.getElementById("search");
  const level = document.getElementById("level");
  const chapter = document.getElementById("chapter");
  const shown = document.getElementById("shown");
  const none = document.getElementById("none");
  const tiles = [...document.querySelectorAll(".tile")];
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));

  function apply() {
    const outcomes = tiles.filter((tile) => tile.getAttribute("aria-pressed") === "true").map((tile) => tile.dataset.outcome);
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const row of rows) {
      const matches =
        (outcomes.length === 0 || outcomes.includes(row.dataset.outcome)) &&
        (level.value === "" || row.dataset.level === level.value) &&
        (chapter.value === "" || row.dataset.chapter === chapter.value) &&
        words.every((word) => texts.get(row).includes(word));
      row.hidden = !matches;
      count += matches;
    }
    for (const section of chapters) {
      section.hidden = !section.querySelector(".r:not([hidden])");
    }
    shown.textContent = `${count} of ${rows.length} requirements`;
    none.hidden = count > 0;
  }

  function clear() {
    search.value = level.value = chapter.value = "";
    tiles.forEach((tile) => tile.setAttribute("aria-pressed", "false"));
    apply();
  }

  function openTarget() {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target || !target.classList.contains("r")) return;
    if (target.hidden) clear();
    target.open = true;
    target.scrollIntoView({ block: "center" });
  }

  for (const tile of tiles) {
    tile.addEventListener("click", () => {
      tile.setAttribute("aria-pressed", String(tile.getAttribute("aria-pressed") !== "true"));
      apply();
    });
  }
  for (const bar of document.querySelectorAll(".picture g[data-chapter]")) {
    const choose = () => {
      chapter.value = chapter.value === bar.dataset.chapter ? "" : bar.dataset.chapter;
      apply();
    };
    bar.addEventListener("click", choose);
    bar.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(); }
    });
  }
  search.addEventListener("input", apply);
  level.addEventListener("change", apply);
  chapter.addEventListener("change", apply);
  document.getElementById("clear").addEventListener("click", clear);
  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
  });
  window.addEventListener("hashchange", openTarget);
  apply();
  openTarget();
})();

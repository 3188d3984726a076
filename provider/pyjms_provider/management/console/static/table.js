// A table whose rows are updated in place, so that nothing jumps, and focus and selection stay.

import {h, replace, setText} from "./dom.js";

// columns: [{name, label, cell(row) → text or node, number, sort, narrow}]; `key(row)` names a row; `href(row)` is where
// its first cell leads; `order` is the name of the sorted field, with - before it: downwards. `unpickable(row)` says why a row cannot be
// selected, or null.
export function table({caption, columns, key, href = null, onSort = null, select = null, unpickable = () => null, empty = "There is nothing here."}) {
  const rows = new Map();
  const body = h("tbody", {});
  const all = select === null ? null : h("input", {type: "checkbox", "aria-label": "Select all rows"});
  const heads = columns.map((column) => head(column, onSort));
  const nothing = h("p", {class: "empty", hidden: true});
  const element = h("div", {class: "table-frame"},
    h("table", {},
      h("caption", {class: "unseen"}, caption),
      h("thead", {}, h("tr", {}, all === null ? null : h("th", {scope: "col", class: "pick"}, all), heads)),
      body),
    nothing);
  const picked = new Set();

  function pickable() {
    return [...rows].filter(([, row]) => !row.box.disabled).map(([name]) => name);
  }

  function picks() {
    for (const [name, row] of rows) row.box.checked = picked.has(name);
    const names = pickable();
    all.checked = names.length > 0 && names.every((name) => picked.has(name));
    all.disabled = rows.size > 0 && names.length === 0;
    select([...picked]);
  }

  all?.addEventListener("change", () => {
    picked.clear();
    if (all.checked) for (const name of pickable()) picked.add(name);
    picks();
  });

  function make(name, row) {
    const cells = columns.map((column) => h("td", {class: [column.number ? "number" : null, column.narrow ? "narrow" : null].filter(Boolean).join(" ") || null}));
    const why = select === null ? null : unpickable(row);
    const box = select === null ? null : h("input", {type: "checkbox", "aria-label": why ?? `Select ${name}`, title: why, disabled: why !== null});
    box?.addEventListener("change", () => {
      if (box.checked) picked.add(name);
      else picked.delete(name);
      picks();
    });
    const link = href === null ? null : h("a", {href: href(row)});
    if (link !== null) cells[0].append(link);
    const line = h("tr", {}, box === null ? null : h("td", {class: "pick"}, box), cells);
    return {line, box, places: cells.map((cell, index) => (index === 0 && link !== null ? link : cell)), shown: []};
  }

  function fill(made, row) {
    columns.forEach((column, index) => {
      const value = column.cell(row);
      const place = made.places[index];
      if (value instanceof Node) {
        const text = `${value.className ?? ""}${value.textContent}`;
        if (made.shown[index] !== text) replace(place, value);
        made.shown[index] = text;
      } else {
        setText(place, value);
        made.shown[index] = undefined;
      }
    });
  }

  function update(found, order = null) {
    const wanted = new Set(found.map((row) => key(row)));
    for (const [name, made] of rows) {
      if (!wanted.has(name)) {
        made.line.remove();
        rows.delete(name);
        picked.delete(name);
      }
    }
    found.forEach((row, index) => {
      const name = key(row);
      const made = rows.get(name) ?? make(name, row);
      rows.set(name, made);
      fill(made, row);
      if (body.children[index] !== made.line) body.insertBefore(made.line, body.children[index] ?? null);
    });
    nothing.hidden = found.length > 0;
    setText(nothing, typeof empty === "function" ? empty() : empty);
    element.classList.toggle("is-empty", found.length === 0);
    if (select !== null) picks();
    columns.forEach((column, index) => {
      const way = order === column.name ? "ascending" : order === `-${column.name}` ? "descending" : null;
      if (way === null) heads[index].removeAttribute("aria-sort");
      else heads[index].setAttribute("aria-sort", way);
    });
  }

  body.addEventListener("keydown", (event) => {
    const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
    const line = event.target.closest("tr");
    if (step === undefined || line === null || !event.target.matches("a, button")) return;
    const next = body.children[[...body.children].indexOf(line) + step]?.querySelector("a, button");
    if (next) {
      event.preventDefault();
      next.focus();
    }
  });

  return {
    element,
    update,
    picked: () => [...picked],
    rowOf: (name) => rows.get(name)?.line,
    clearPicks: () => {
      picked.clear();
      if (select !== null) picks();
    },
  };
}

function head(column, onSort) {
  const shape = {scope: "col", class: [column.number ? "number" : null, column.narrow ? "narrow" : null].filter(Boolean).join(" ") || null};
  if (onSort === null || column.sort === undefined) return h("th", shape, column.label);
  const button = h("button", {type: "button", class: "sort", on: {click: () => onSort(column)}}, column.label);
  return h("th", shape, button);
}

// Where the pages of a list begin whose pages are of different lengths: messages are fewer on a page where they are long.
export function pageStarts() {
  const starts = [0];
  return {
    now: () => starts.at(-1),
    go(step, shown) {
      if (step > 0) starts.push(starts.at(-1) + shown);
      else if (starts.length > 1) starts.pop();
    },
    reset() { starts.length = 1; },
  };
}

// Which part of many rows is shown, and the way to the others.
export function pager(onGo) {
  const text = h("span", {"aria-live": "off"});
  const back = h("button", {type: "button", class: "quiet", on: {click: () => onGo(-1)}}, "‹ Previous");
  const on = h("button", {type: "button", class: "quiet", on: {click: () => onGo(1)}}, "Next ›");
  const element = h("nav", {class: "pager", "aria-label": "Pages"}, back, text, on);
  return {
    element,
    update({offset, shown, total, hasMore}) {
      const of = total === undefined ? "" : ` of ${total.toLocaleString("en")}`;
      setText(text, shown === 0 ? `0${of}` : `${(offset + 1).toLocaleString("en")} – ${(offset + shown).toLocaleString("en")}${of}`);
      back.disabled = offset === 0;
      on.disabled = !(hasMore ?? offset + shown < total);
    },
  };
}

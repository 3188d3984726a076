// Keys: `g` and a letter lead to a section, `/` to the filter, `n` makes something new, `?` shows them all.

import {h} from "./dom.js";

const OFF = "pyjms-keys-off";
const WAIT_MS = 1500;

let installed = false;
let wentAt = -Infinity;

function isWriting(target) {
  return target instanceof Element && target.closest("input, select, textarea, [contenteditable]") !== null;
}

export function installKeys(views) {
  if (installed) return;
  installed = true;
  const byKey = new Map(Object.entries(views).map(([name, view]) => [view.key, name]));
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || isWriting(event.target)) return;
    if (document.querySelector("dialog[open]") !== null || localStorage.getItem(OFF) === "yes") return;
    const isSecond = event.timeStamp - wentAt < WAIT_MS;
    wentAt = -Infinity;
    if (isSecond && byKey.has(event.key)) {
      event.preventDefault();
      location.hash = `#/${byKey.get(event.key)}`;
    } else if (event.key === "g") {
      wentAt = event.timeStamp;
    } else if (event.key === "/" || event.key === "n" || event.key === "r") {
      const wanted = {"/": "[data-key='filter']", n: "[data-key='new']", r: "[data-key='refresh']"}[event.key];
      const found = document.querySelector(`#main ${wanted}`);
      if (found === null) return;
      event.preventDefault();
      if (event.key === "/") found.focus();
      else found.click();
    } else if (event.key === "?") {
      event.preventDefault();
      showKeys(views);
    }
  });
}

export function showKeys(views) {
  const rows = [
    ...Object.values(views).map((view) => [["g", view.key], view.title]),
    [["/"], "Go to the filter"],
    [["n"], "Make something new here"],
    [["r"], "Refresh"],
    [["↑", "↓"], "The row above, the row below"],
    [["Esc"], "Leave a dialog"],
    [["?"], "These keys"],
  ];
  const off = h("input", {type: "checkbox", checked: localStorage.getItem(OFF) === "yes"});
  off.addEventListener("change", () => localStorage.setItem(OFF, off.checked ? "yes" : "no"));
  const close = h("button", {type: "submit", class: "main"}, "Close");
  const dialog = h("dialog", {"aria-labelledby": "keys-title"},
    h("form", {method: "dialog"},
      h("h2", {id: "keys-title"}, "Keys"),
      h("dl", {class: "keys"}, rows.map(([keys, text]) => [h("dt", {}, keys.map((key) => h("kbd", {}, key))), h("dd", {}, text)])),
      h("label", {}, off, " Keys of one letter are off"),
      h("div", {class: "buttons"}, close)));
  const leave = () => dialog.close();
  addEventListener("hashchange", leave, {once: true});
  dialog.addEventListener("close", () => {
    removeEventListener("hashchange", leave);
    dialog.remove();
  });
  document.body.append(dialog);
  dialog.showModal();
  close.focus();
}

// Questions, answers and short notes.

import {freshId, h, replace} from "./dom.js";

export function problemBox(error) {
  const rows = (error.problems ?? []).map((each) =>
    h("li", {}, each.name ? h("code", {}, each.name) : null, each.name ? ` ${each.text}` : each.text));
  const hasRows = rows.length > 0;
  return h("div", {class: "problem", role: "alert"},
    h("strong", {}, "That did not work. "),
    h("span", {}, hasRows ? error.message.split(":")[0] : error.message),
    hasRows ? h("ul", {}, rows) : null,
    h("code", {class: "code"}, error.code ?? ""));
}

export function note(text, kind = "good") {
  const node = h("div", {class: `note ${kind}`}, text);
  document.getElementById("notes").append(node);
  setTimeout(() => node.remove(), 6000);
}

export function noteError(error) {
  if (error.code === undefined) throw error;
  note(`${error.message} (${error.code})`, "bad");
}

// A dialog belongs to the page that asked: it closes when another one is shown, and ends what it was doing.
function closeWithPage(dialog, control) {
  const leave = () => {
    control.abort();
    dialog.close();
  };
  addEventListener("hashchange", leave, {once: true});
  dialog.addEventListener("close", () => removeEventListener("hashchange", leave));
}

// A dialog whose `act` does the thing; it stays open, with the reason, if that fails. Resolves to what `act` returned, or
// to undefined when the person thought better of it.
export function ask({title, body, confirm, danger = false, act, wide = false, typed = null}) {
  const heading = freshId("dialog");
  const problems = h("div", {});
  const again = typed === null ? null : h("input", {type: "text", autocomplete: "off", "aria-label": `Type ${typed}`});
  const go = h("button", {type: "submit", class: danger ? "danger" : "main", disabled: typed !== null}, confirm);
  const stop = h("button", {type: "button", class: "quiet"}, "Cancel");
  const form = h("form", {novalidate: true},
    h("h2", {id: heading}, title),
    h("div", {class: "dialog-body"}, body,
      typed === null ? null : h("label", {class: "typed"}, "To go on, type ", h("bdi", {class: "name"}, typed), again)),
    problems,
    h("div", {class: "buttons"}, stop, go));
  const dialog = h("dialog", {"aria-labelledby": heading, class: wide ? "wide" : null}, form);
  const control = new AbortController();
  again?.addEventListener("input", () => { go.disabled = again.value !== typed; });
  document.body.append(dialog);
  return new Promise((resolve, reject) => {
    let result;
    let busy = false;
    stop.addEventListener("click", () => (busy ? control.abort() : dialog.close()));
    dialog.addEventListener("cancel", (event) => {
      if (busy) {
        event.preventDefault();
        control.abort();
      }
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(result);
    });
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (busy || go.disabled) return;
      busy = true;
      go.disabled = true;
      replace(problems);
      try {
        result = (await act({signal: control.signal, status: problems})) ?? null;
        dialog.close();
      } catch (error) {
        if (error.code === undefined) {
          dialog.close();
          reject(error);
        } else {
          replace(problems, problemBox(error));
        }
      } finally {
        busy = false;
        go.disabled = again !== null && again.value !== typed;
      }
    });
    closeWithPage(dialog, control);
    dialog.showModal();
    const first = dialog.querySelector(".dialog-body [name=name]") ?? dialog.querySelector(".dialog-body :is(input, select, textarea)");
    (first ?? (danger ? stop : go)).focus();
  });
}

// Shows how far a job is.
export function progressInto(place) {
  const bar = h("progress", {max: "1"});
  const text = h("span", {});
  replace(place, h("p", {class: "progress"}, bar, text));
  return (job) => {
    if (job.total) bar.value = job.done / job.total;
    text.textContent = `${job.done} of ${job.total ?? "?"}`;
  };
}

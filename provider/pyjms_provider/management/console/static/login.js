// Logging in: as the first page, and in a dialog when a session has ended.

import * as api from "./api.js";
import {ask, noteError, problemBox} from "./dialog.js";
import {h, replace} from "./dom.js";

function fields() {
  const name = h("input", {id: "user-name", name: "user_name", type: "text", autocomplete: "username", autocapitalize: "none", spellcheck: "false", required: true});
  const password = h("input", {id: "password", name: "password", type: "password", autocomplete: "current-password", required: true});
  const element = [
    h("div", {class: "field"}, h("label", {for: "user-name"}, "User name"), name),
    h("div", {class: "field"}, h("label", {for: "password"}, "Password"), password),
  ];
  return {element, name, password};
}

export function logInPage(app, onIn) {
  const {element, name, password} = fields();
  const problems = h("div", {});
  const notice = h("p", {class: "notice", hidden: true, dir: "auto"});
  const go = h("button", {type: "submit", class: "main"}, "Log in");
  const form = h("form", {class: "card", novalidate: true}, element, problems, go);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    go.disabled = true;
    try {
      await api.logIn(name.value, password.value);
      await onIn();
    } catch (error) {
      if (error.code === undefined) throw error;
      replace(problems, problemBox(error));
      password.value = "";
      password.focus();
    } finally {
      go.disabled = false;
    }
  });
  document.title = "Log in · pyjms broker";
  replace(app, h("main", {class: "login", id: "main"},
    h("h1", {}, h("img", {src: "/console/icon.svg", alt: "", width: 36, height: 36}), " pyjms broker"), notice, form));
  name.focus();
  api.loginNotice().then((text) => {
    notice.textContent = text ?? "";
    notice.hidden = !text;
  }).catch(noteError);
}

export async function askWho(onIn, text = "Log in as somebody whom the broker knows.") {
  const {element, name, password} = fields();
  const done = await ask({
    title: "Log in",
    body: [h("p", {}, text), element],
    confirm: "Log in",
    act: async () => {
      await api.logIn(name.value, password.value);
      return true;
    },
  });
  if (done === true) await onIn();
  else if (api.who().token !== null) location.reload();
}

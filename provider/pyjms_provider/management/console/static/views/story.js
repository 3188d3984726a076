// What happened to a message, step by step, and where it is now.

import * as api from "../api.js";
import {noteError, problemBox} from "../dialog.js";
import {freshId, h, replace} from "../dom.js";
import * as format from "../format.js";
import {facts} from "../message.js";

const LEVELS = {
  off: "This virtual host writes no stories down. Change its attribute story to ends or all: that counts from its next start.",
  ends: "This virtual host writes down only what leaves without having been consumed (story = ends).",
  all: "This virtual host writes down every step (story = all).",
};
const BY = [["id", "JMSMessageID"], ["correlation_id", "JMSCorrelationID"], ["property", "NAME=VALUE of a property"]];

function stepRows(steps) {
  return h("table", {class: "values steps"},
    h("caption", {class: "unseen"}, "Steps"),
    h("thead", {}, h("tr", {}, ["When", "Where", "State", "What"].map((text) => h("th", {scope: "col"}, text)))),
    h("tbody", {}, steps.map((step) => h("tr", {"data-step": step.what},
      h("td", {class: "time"}, format.time(step.at_ms)),
      h("td", {}, format.name(step.where)),
      h("td", {class: "kind"}, step.state ?? ""),
      h("td", {class: "value"}, h("bdi", {}, step.text))))));
}

function placeText(place) {
  const held = place.session === null ? "" : `, held by session ${place.session}`;
  return `${place.state}, delivered ${format.counted(place.delivery_count, "time")}${held}${place.is_in_memory ? "" : ", on the disk"}`;
}

function told(story) {
  const now = story.now.length === 0
    ? [["Now", "in no queue and no durable subscription"]]
    : story.now.map((place) => [`Now in ${place.where}`, placeText(place)]);
  return h("section", {class: "card story"},
    h("h2", {}, h("bdi", {}, story.message_id ?? "a message without an id")),
    facts([["JMSCorrelationID", story.correlation_id], ...now]),
    story.steps.length === 0 ? h("p", {class: "empty"}, "Nothing was written down of it.") : stepRows(story.steps));
}

function gaps(answer) {
  const found = [h("p", {class: "hint"}, LEVELS[answer.level])];
  if (answer.since_ms !== null) found.push(h("p", {class: "hint"}, `What is kept goes back to ${format.time(answer.since_ms)}.`));
  if (answer.missing > 0) found.push(h("p", {class: "hint"}, `About ${format.counted(answer.missing, "step")} of some messages could not be written down.`));
  if (answer.is_cut) found.push(h("p", {class: "hint"}, "There are more such messages than are shown."));
  return found;
}

export async function storyView({main, names, query, signal}) {
  const host = await api.get("virtual_host", names, {fields: "name,names"}, signal);
  const id = freshId("story");
  const [known, wanted] = BY.map(([name]) => [name, query.get(name)]).find(([, value]) => value) ?? ["id", ""];
  const by = h("select", {id: `${id}-by`}, BY.map(([name, text]) => h("option", {value: name, selected: name === known}, text)));
  const text = h("input", {type: "text", id, "data-key": "filter", value: wanted, spellcheck: "false", autocomplete: "off"});
  const found = h("div", {"aria-live": "polite"});

  async function look() {
    if (text.value.trim() === "") return;
    try {
      const answer = await api.operate("virtual_host", host.names, "story", {[by.value]: text.value.trim()}, signal);
      if (signal.aborted) return;
      const stories = answer.stories.length === 0 ? h("p", {class: "empty"}, "Nothing is known of such a message.") : answer.stories.map(told);
      replace(found, stories, gaps(answer));
    } catch (error) {
      if (error.code === undefined) throw error;
      replace(found, problemBox(error));
    }
  }

  const form = h("form", {class: "bar card"},
    h("label", {for: `${id}-by`}, "Look for"), by,
    h("label", {for: id, class: "unseen"}, "Id or value"), text,
    h("button", {type: "submit", class: "main"}, "Tell"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    look().catch(noteError);
  });
  replace(main,
    h("p", {class: "crumbs"}, h("a", {href: "#/queues"}, "Queues"), " / ", format.name(host.names[0]), " / ", format.name(host.names[1])),
    h("div", {class: "title"}, h("h1", {}, "Story of a message")),
    form, found);
  await look();
}

// Alerts of queues: what is too much, in words, on the page of a queue, in the table and in the overview.

import {h} from "./dom.js";
import * as format from "./format.js";

const WORDS = {
  messages: (alert) => `${format.counted(alert.value, "message")}; the limit is ${format.count(alert.limit)}`,
  bytes: (alert) => `messages of about ${format.bytes(alert.value)}; the limit is ${format.bytes(alert.limit)}`,
  age: (alert) => `a message that is ${format.duration(alert.value)} old; the limit is ${format.duration(alert.limit)}`,
  message_bytes: (alert) => `a message of about ${format.bytes(alert.value)}; the limit is ${format.bytes(alert.limit)}`,
};
const SHORT = {messages: "too many", bytes: "too much", age: "too old", message_bytes: "too large"};

export function alertText(alert) {
  const words = WORDS[alert.kind];
  return words === undefined ? `${alert.kind}: ${alert.value} of ${alert.limit}` : words(alert);
}

// A mark for the row of a queue; an empty text if all is well.
export function alertMark(alerts) {
  if (!alerts || alerts.length === 0) return "";
  const short = alerts.map((each) => SHORT[each.kind] ?? each.kind).join(", ");
  return h("span", {class: "chip warn alert", title: alerts.map(alertText).join("; ")}, short);
}

// What a queue's page says of its alerts.
export function alertList(alerts) {
  return h("ul", {class: "attention alerts"}, alerts.map((each) => h("li", {},
    h("span", {class: "chip warn alert"}, SHORT[each.kind] ?? each.kind),
    h("span", {}, ` ${alertText(each)}, since ${format.time(each.since_ms)}`))));
}

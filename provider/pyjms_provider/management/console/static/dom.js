// Makes elements. Text is only ever set as text: nothing that comes from the broker is read as HTML.

const SVG = "http://www.w3.org/2000/svg";

function build(node, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") {
      for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
    } else if (name === "value") {
      node.value = value;
    } else {
      node.setAttribute(name, value === true ? "" : String(value));
    }
  }
  append(node, children);
  return node;
}

function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== undefined && child !== null && child !== false) node.append(child);
  }
}

// h("button", {class: "main", on: {click: go}}, "Go")
export function h(tag, properties, ...children) {
  return build(document.createElement(tag), properties, children);
}

export function svg(tag, properties, ...children) {
  return build(document.createElementNS(SVG, tag), properties, children);
}

// A button that does what is not allowed says so, and does nothing.
export function allow(button, isAllowed, needs) {
  button.disabled = !isAllowed;
  if (!isAllowed) button.title = `You have no permission to ${needs} this: ask an operator of the broker for it.`;
  return button;
}

export function replace(node, ...children) {
  node.replaceChildren();
  append(node, children);
  return node;
}

// Sets a text only where it has changed, so that a selection and the screen reader are left alone.
export function setText(node, text) {
  const wanted = text === null || text === undefined ? "" : String(text);
  if (node.textContent !== wanted) node.textContent = wanted;
}

let numbers = 0;

export function freshId(prefix) {
  numbers += 1;
  return `${prefix}-${numbers}`;
}

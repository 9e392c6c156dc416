// Small helpers to build the page. Text goes in as text nodes only: nothing here parses HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Make an HTML element. A value of null or false leaves the attribute out; `onclick: f` adds a listener. */
export function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** Make an SVG element in the same way. */
export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

/** Return the element with this id, which the page must have. */
export function byId(id) {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no element with the id ${id}`);
  return found;
}

/** Replace what `node` holds, dropping what is null or false. */
export function put(node, ...children) {
  node.replaceChildren();
  return fill(node, {}, children);
}

/** Text that only a screen reader gives out. */
export function spoken(text) {
  return el("span", { class: "spoken" }, text);
}

/** Say `text` in the page's polite live region. The same text said twice is announced twice. */
export function say(text) {
  const region = byId("announcer");
  region.replaceChildren();
  requestAnimationFrame(() => put(region, text));
}

/** Format a score in [-1, 1] with a true minus sign, so that figures line up. */
export function signed(value, digits = 2) {
  const text = Math.abs(value).toFixed(digits);
  if (Number(text) === 0) return text;
  return (value < 0 ? "−" : "+") + text;
}

/** Format a number that may be absent. */
export function number(value, digits = 2) {
  if (value === null || value === undefined) return "–";
  return (value < 0 ? "−" : "") + Math.abs(value).toFixed(digits);
}

/** Return `text` as a sentence: with a capital and a full stop. */
export function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?…]$/.test(text) ? "" : ".");
}

/** Return "1 claim" or "3 claims". */
export function count(n, noun) {
  return `${n} ${noun}${n === 1 ? "" : "s"}`;
}

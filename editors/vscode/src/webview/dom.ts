/**
 * Brings the page's elements in line with their description, touching only what differs.
 *
 * Invariants: texts become text nodes and nothing else; an element with the same tag and key stays the same element, so
 * focus, selection and what was typed survive; a description that is the same object is not looked into.
 */
import type { Act, Child, VNode } from "../vnode";

const drawn = new WeakMap<Node, VNode>();

/** Make `parent` hold exactly these children. */
export function patch(parent: Element, children: readonly Child[]): void {
  const keyed = new Map<string, Element>();
  for (const child of Array.from(parent.children)) {
    const key = drawn.get(child)?.key;
    if (key !== undefined) keyed.set(key, child);
  }
  let place = parent.firstChild;
  for (const child of children) {
    const node = typeof child === "string" ? patchText(place, child) : patchElement(place, child, keyed);
    if (node === place) place = place.nextSibling;
    else parent.insertBefore(node, place);
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

/** What a control does; undefined for an element that is none. */
export function actOf(element: Element): Act | undefined {
  return drawn.get(element)?.act;
}

function patchText(place: ChildNode | null, text: string): Text {
  if (!(place instanceof Text)) return document.createTextNode(text);
  if (place.data !== text) {
    // Appending keeps the layout of the lines before, which for a long output is almost all of the work.
    if (text.startsWith(place.data)) place.appendData(text.slice(place.data.length));
    else place.data = text;
  }
  return place;
}

function patchElement(place: ChildNode | null, node: VNode, keyed: Map<string, Element>): Element {
  const known = node.key === undefined ? place : keyed.get(node.key);
  const last = known ? drawn.get(known) : undefined;
  if (!(known instanceof Element) || last?.tag !== node.tag || last.key !== node.key) return create(node);
  if (last !== node) {
    update(known, last, node);
    drawn.set(known, node);
  }
  return known;
}

function create(node: VNode): Element {
  const element = document.createElement(node.tag);
  update(element, undefined, node);
  if (element instanceof HTMLTextAreaElement) element.value = String(node.props["initial"] ?? "");
  drawn.set(element, node);
  return element;
}

function update(element: Element, last: VNode | undefined, node: VNode): void {
  for (const name of Object.keys(last?.props ?? {})) {
    if (!(name in node.props)) element.removeAttribute(name);
  }
  for (const [name, value] of Object.entries(node.props)) {
    if (name !== "initial" && last?.props[name] !== value)
      element.setAttribute(name, value === true ? "" : String(value));
  }
  if (!(element instanceof HTMLTextAreaElement)) patch(element, node.children);
}

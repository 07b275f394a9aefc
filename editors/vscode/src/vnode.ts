/**
 * A description of elements, so that what is shown can be told, and tested, without a browser.
 *
 * Invariants: texts are texts; nothing here or in the page turns one into markup.
 */
import type { FromPage } from "./messages";
import type { Change } from "./view";

/** What a control does when it is used. */
export type Act =
  | { do: "change"; change: Change }
  | { do: "send"; message: FromPage }
  | { do: "decide"; decision: "approve" | "approve_edited" | "reject" | "stop" }
  | { do: "prompt" }
  | { do: "showEnd" };

export interface VNode {
  readonly tag: string;
  readonly props: Readonly<Record<string, string | boolean>>;
  readonly children: readonly Child[];
  readonly key: string | undefined;
  readonly act: Act | undefined;
}

export type Child = VNode | string;
type Given = Child | undefined | false;

interface Props {
  [name: string]: string | boolean | undefined | Act;
  key?: string;
  act?: Act;
}

/** Describe an element. `key` keeps it the same element among changing brothers; a false or absent property is left out. */
export function h(tag: string, props: Props = {}, ...children: readonly Given[]): VNode {
  const { key, act, ...rest } = props;
  const kept: Record<string, string | boolean> = {};
  for (const [name, value] of Object.entries(rest)) {
    if (typeof value === "string" || value === true) kept[name] = value;
  }
  return { tag, props: kept, children: children.filter((each) => each !== undefined && each !== false), key, act };
}

/** All text of an element, for tests. */
export function textOf(node: Child): string {
  return typeof node === "string" ? node : node.children.map(textOf).join("");
}

/** All elements in it that fit, in order, itself included. */
export function find(node: Child, fits: (node: VNode) => boolean): VNode[] {
  if (typeof node === "string") return [];
  return [...(fits(node) ? [node] : []), ...node.children.flatMap((child) => find(child, fits))];
}

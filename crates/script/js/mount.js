// Shows what a source with Preact exports in a page that it has for itself, where it stays alive. Handlers that are
// data name events of the plan, which nobody there takes: they are left out.

import { h, isValidElement, options, render } from "preact";

const BINDING = /^on[A-Z]/;
const before = options.vnode;

options.vnode = (vnode) => {
  if (typeof vnode.type === "string" && vnode.props) {
    for (const name of Object.keys(vnode.props)) {
      if (BINDING.test(name) && typeof vnode.props[name] !== "function") delete vnode.props[name];
    }
  }
  if (before) before(vnode);
};

export function mount(exported, input, at) {
  render(isValidElement(exported) ? exported : h(exported, input), at);
}

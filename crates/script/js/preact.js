// Renders what a source with Preact exports to text. Handlers that are data become attributes that
// our reader turns back into bindings of the plan; handlers that are functions have nobody to call
// them: an attribute says that one was there, and whoever checks the node tells it.

import { h, isValidElement, options } from "preact";
import { renderToString } from "preact-render-to-string";

const BINDING = /^on[A-Z]/;
const HANDLER = /^on./i;
const before = options.vnode;

options.vnode = (vnode) => {
  if (typeof vnode.type === "string" && vnode.props) {
    for (const name of Object.keys(vnode.props)) {
      const value = vnode.props[name];
      if (typeof value === "function" && HANDLER.test(name)) vnode.props["data-glasshouse-" + name] = '{"$function":true}';
      if (!BINDING.test(name)) continue;
      const isData = typeof value === "string" || (typeof value === "object" && value !== null);
      if (isData) vnode.props["data-glasshouse-" + name] = JSON.stringify(value);
      if (typeof value !== "function") delete vnode.props[name];
    }
  }
  if (before) before(vnode);
};

export function render(exported, input) {
  const element = isValidElement(exported) ? exported : h(exported, input);
  return renderToString(element);
}

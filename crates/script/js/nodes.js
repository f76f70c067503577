// Markup of a source whose runtime is `renderify` calls these; they make nodes of a plan.

export const Fragment = ({ children }) => children;

// A function has nobody to call it. That it was there is told by whoever checks the node.
const HANDLER = /^on./i;
const NAMES = { className: "class", htmlFor: "for" };

// What may stand between two tags, as nodes in one flat list.
function nodes(content, into) {
  if (content === null || content === undefined || typeof content === "boolean") return into;
  if (Array.isArray(content)) {
    for (const part of content) nodes(part, into);
  } else if (typeof content === "object") {
    into.push(content);
  } else {
    into.push({ type: "text", value: String(content) });
  }
  return into;
}

function declarations(style) {
  const name = (key) => key.replace(/[A-Z]/g, (letter) => "-" + letter.toLowerCase());
  const pairs = Object.entries(style).filter(([, value]) => value !== null && value !== undefined);
  return pairs.map(([key, value]) => name(key) + ": " + value).join("; ");
}

export function jsx(type, { children, ...given }) {
  if (typeof type === "function") {
    const made = nodes(type({ ...given, children }), []);
    return made.length === 1
      ? made[0]
      : { type: "element", tag: "div", props: { "data-renderify-fragment": "" }, children: made };
  }
  const props = {};
  for (const [key, value] of Object.entries(given)) {
    if (typeof value === "function" && HANDLER.test(key)) props[key] = { $function: true };
    if (value === undefined || typeof value === "function" || typeof value === "symbol") continue;
    const isStyle = key === "style" && value !== null && typeof value === "object";
    props[NAMES[key] ?? key] = isStyle ? declarations(value) : value;
  }
  return { type: "element", tag: String(type), props, children: nodes(children, []) };
}

export const jsxs = jsx;

// One node of what code answers, as on a server.
function node(answer) {
  if (typeof answer === "string" || typeof answer === "number") {
    return { type: "text", value: String(answer) };
  }
  if (Array.isArray(answer)) {
    const isPart = (part) => part !== null && part !== undefined && typeof part !== "boolean";
    const parts = answer.filter(isPart).map(node);
    if (parts.length === 1) return parts[0];
    const props = { "data-renderify-fragment": "" };
    return { type: "element", tag: "div", props, children: parts };
  }
  if (typeof answer?.type === "string") return answer;
  throw new TypeError("what it made is no node");
}

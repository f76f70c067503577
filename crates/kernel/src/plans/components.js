// Calls the components of a plan: walks its tree, children first, and puts what a component makes in its
// place. What makes a node of an answer (`node`) is written before this, and what loads the modules that the
// plan names behind it.
//
// The modules share this realm, so what is kept here has no prototype, lists are not walked by their own
// methods, and what is used of the language was taken before any of them began.

const MAX_FAULTS = 20;
const MAX_WHY = 500;

const { setPrototypeOf } = Object;
const { apply } = Reflect;
const { slice } = String.prototype;
const text = String;

const bare = (it) => setPrototypeOf(it, null);
const modules = bare({});
const faults = bare([]);
let faultCount = 0;

function fault(module, name, code, error) {
  faultCount += 1;
  if (faults.length >= MAX_FAULTS) return;
  const why = typeof error?.message === "string" ? error.message : text(error);
  faults[faults.length] = bare({ module, export: name, code, why: apply(slice, why, [0, MAX_WHY]) });
}

async function load(name, get) {
  try {
    modules[name] = await get();
  } catch (error) {
    fault(name, null, "script_failed", error);
  }
}

async function walked({ root, left, context }) {
  let called = 0;

  async function component(it, children) {
    // Its place stays, for its children.
    const kept = { ...it, children, failed: true };
    const name = it.exportName ?? "default";
    if (!(it.module in modules)) return kept;
    if (called >= left) {
      fault(it.module, name, "plan_component_limit", "it would be one more than the plan may call");
      return kept;
    }
    called += 1;
    const call = modules[it.module][name];
    if (typeof call !== "function") {
      fault(it.module, name, "script_export_missing", "it exports no function of that name");
      return kept;
    }
    let made;
    try {
      made = await call(it.props ?? {}, context, children);
    } catch (error) {
      fault(it.module, name, "script_failed", error);
      return kept;
    }
    try {
      return node(made);
    } catch (error) {
      fault(it.module, name, "script_output_invalid", error);
      return kept;
    }
  }

  async function walk(it) {
    if (it.type === "text") return it;
    const own = it.children ?? [];
    const children = [];
    for (let at = 0; at < own.length; at += 1) children[at] = await walk(own[at]);
    if (it.type === "component" && it.failed !== true) return component(it, children);
    return it.children === undefined ? it : { ...it, children };
  }

  return bare({ root: await walk(root), faults, fault_count: faultCount });
}

// Calls the components of a plan: walks its tree, children first, and puts what a component makes in its
// place. What makes a node of an answer (`node`) is written before this, and what loads the modules that the
// plan names behind it.

const MAX_FAULTS = 20;
const MAX_WHY = 500;

const modules = new Map();
const faults = [];
let faultCount = 0;

function fault(module, name, code, error) {
  faultCount += 1;
  if (faults.length >= MAX_FAULTS) return;
  const why = typeof error?.message === "string" ? error.message : String(error);
  faults.push({ module, export: name, code, why: why.slice(0, MAX_WHY) });
}

async function load(name, get) {
  try {
    modules.set(name, await get());
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
    if (called >= left) {
      fault(it.module, name, "plan_component_limit", "it would be one more than the plan may call");
      return kept;
    }
    const module = modules.get(it.module);
    if (module === undefined) return kept;
    called += 1;
    const call = module[name];
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
    const children = [];
    for (const child of it.children ?? []) children.push(await walk(child));
    if (it.type === "component" && it.failed !== true) return component(it, children);
    return it.children === undefined ? it : { ...it, children };
  }

  return { root: await walk(root), called, faults, fault_count: faultCount };
}

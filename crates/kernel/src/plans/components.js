// Calls the components of a plan: walks its tree, children first, and puts what a component makes in its
// place. What makes a node of an answer (`node`) is written before this, and what loads the modules that the
// plan names behind it.
//
// The modules share this realm, so what is kept here has no prototype, nothing is asked for its methods, and what is
// used of the language was taken before any of them began. Faults are kept as the text of a list: what is told of a text
// asks no object how it is written.

const MAX_FAULTS = 20;
const MAX_WHY = 500;

const { create } = Object;
const { stringify } = JSON;
const text = String;

const modules = create(null);
let faults = "";
let faultCount = 0;

const quoted = (it) => (typeof it === "string" ? stringify(it) : '""');

function reason(error) {
  let whole = "what it threw cannot be read";
  try {
    const said = error?.message;
    whole = typeof said === "string" ? said : text(error);
  } catch {}
  let why = "";
  for (let at = 0; at < whole.length && at < MAX_WHY; at += 1) why += whole[at];
  return why;
}

function fault(module, name, code, error) {
  faultCount += 1;
  if (faultCount > MAX_FAULTS) return;
  const own = name === null ? "null" : quoted(name);
  const told = '{"module":' + quoted(module) + ',"export":' + own + ',"code":' + quoted(code) + ',"why":' + quoted(reason(error)) + "}";
  faults = faults === "" ? told : faults + "," + told;
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

  const answer = create(null);
  answer.root = await walk(root);
  answer.faults = faults;
  answer.fault_count = faultCount;
  return answer;
}

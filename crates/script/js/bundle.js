// Modules of a plan as functions, in a place that has no modules. What makes the modules, and what exports
// the plan's own, is written behind this.

const bodies = new Map();
const made = new Map();

function define(to, name, get) {
  Object.defineProperty(to, name, { enumerable: true, configurable: true, get });
}

function __glasshouse_require(address) {
  let own = made.get(address);
  if (own !== undefined) return own;
  own = Object.create(null);
  made.set(address, own);
  const add = (names) => {
    for (const [name, get] of Object.entries(names)) define(own, name, get);
  };
  const addAll = (from) => {
    for (const name of Object.keys(from)) {
      if (name !== "default" && !(name in own)) define(own, name, () => from[name]);
    }
  };
  bodies.get(address)(add, addAll);
  return own;
}

const __glasshouse_load = async (address) => __glasshouse_require(address);

// Each export shows itself in a place of a page, and stays.
function stay(exports, address) {
  const [own, { mount }] = [__glasshouse_require("plan:source"), __glasshouse_require(address)];
  for (const name of Object.keys(own)) {
    const show = (input, at) => mount(own[name], input, at);
    define(exports, name, () => show);
  }
}

function finish(exports) {
  const own = __glasshouse_require("plan:source");
  for (const name of Object.keys(own)) {
    const run = async (input) => node(await (typeof own[name] === "function" ? own[name](input) : own[name]));
    define(exports, name, () => run);
  }
}

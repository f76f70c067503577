// The storage that code of browsers expects, kept in memory: empty when a run begins, gone when it ends.

// Characters of keys and values of one storage together, as browsers allow.
const MOST = 5 * 1024 * 1024;

function storage() {
  const kept = new Map();
  let used = 0;

  const sizeOf = (key) => (kept.has(key) ? key.length + kept.get(key).length : 0);
  const put = (name, given) => {
    const [key, value] = [String(name), String(given)];
    const after = used - sizeOf(key) + key.length + value.length;
    if (after > MOST) {
      const error = new Error(`a storage holds ${MOST} characters, and ${after} were to be kept`);
      throw Object.assign(error, { name: "QuotaExceededError", code: 22 });
    }
    kept.set(key, value);
    used = after;
  };
  const remove = (name) => {
    used -= sizeOf(String(name));
    kept.delete(String(name));
  };
  const methods = {
    __proto__: null,
    getItem: (name) => kept.get(String(name)) ?? null,
    setItem: put,
    removeItem: remove,
    clear: () => {
      kept.clear();
      used = 0;
    },
    key: (index) => [...kept.keys()][Math.trunc(index) || 0] ?? null,
    toString: () => "[object Storage]",
  };

  // Members of a name that is no method's are what is kept under it.
  return new Proxy(Object.create(null), {
    get: (_, name) => (name === "length" ? kept.size : (methods[name] ?? kept.get(name))),
    has: (_, name) => name === "length" || name in methods || kept.has(name),
    set: (_, name, value) => {
      if (typeof name !== "string") return false;
      put(name, value);
      return true;
    },
    deleteProperty: (_, name) => {
      if (typeof name === "string") remove(name);
      return true;
    },
    ownKeys: () => [...kept.keys()],
    getOwnPropertyDescriptor: (_, name) =>
      kept.has(name)
        ? { value: kept.get(name), writable: true, enumerable: true, configurable: true }
        : undefined,
    defineProperty: (_, name, { value }) => {
      if (typeof name !== "string") return false;
      put(name, value);
      return true;
    },
    preventExtensions: () => false,
    setPrototypeOf: () => false,
  });
}

export const localStorage = storage();
export const sessionStorage = storage();

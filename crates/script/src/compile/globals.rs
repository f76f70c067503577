//! Which names code of a plan finds without importing them.

/// What the engine has and code may use.
#[rustfmt::skip]
pub(super) const ALLOWED: &[&str] = &[
    "undefined", "NaN", "Infinity", "Object", "Array", "String", "Number", "Boolean", "Symbol",
    "BigInt", "Math", "JSON", "Date", "RegExp", "Map", "Set", "WeakMap", "WeakSet", "Promise",
    "Error", "AggregateError", "EvalError", "RangeError", "ReferenceError", "SyntaxError",
    "TypeError", "URIError", "Iterator", "ArrayBuffer", "DataView", "Int8Array", "Uint8Array",
    "Uint8ClampedArray", "Int16Array", "Uint16Array", "Int32Array", "Uint32Array", "Float32Array",
    "Float64Array", "BigInt64Array", "BigUint64Array", "parseInt", "parseFloat", "isNaN",
    "isFinite", "encodeURI", "encodeURIComponent", "decodeURI", "decodeURIComponent", "escape",
    "unescape", "console", "queueMicrotask", "arguments",
];

/// What code must not reach for, and what it is.
#[rustfmt::skip]
const DENIED: &[(&str, &str)] = &[
    ("eval", "makes code out of text"), ("Function", "makes code out of text"),
    ("globalThis", "is everything the engine has"), ("window", "is a page"),
    ("self", "is a page"), ("global", "is a server"), ("top", "is a page"),
    ("parent", "is a page"), ("frames", "is a page"), ("document", "is a page"),
    ("navigator", "is a page"), ("location", "is a page"), ("history", "is a page"),
    ("process", "is a server"), ("require", "is a server"), ("module", "is a server"),
    ("Deno", "is a server"), ("Bun", "is a server"), ("fetch", "is a network"),
    ("setTimeout", "is a timer, which no lane grants"),
    ("setInterval", "is a timer, which no lane grants"),
    ("setImmediate", "is a timer, which no lane grants"),
    ("requestAnimationFrame", "is a timer, which no lane grants"),
    ("requestIdleCallback", "is a timer, which no lane grants"),
    ("XMLHttpRequest", "is a network"), ("WebSocket", "is a network"),
    ("EventSource", "is a network"), ("WebTransport", "is a network"),
    ("RTCPeerConnection", "is a network"), ("Worker", "starts other code"),
    ("SharedWorker", "starts other code"), ("importScripts", "starts other code"),
    ("WebAssembly", "starts other code"),
    ("localStorage", "is storage that `capabilities.storage` of the plan does not name"),
    ("sessionStorage", "is storage that `capabilities.storage` of the plan does not name"),
    ("indexedDB", "is storage"), ("caches", "is storage"),
    ("Reflect", "goes around the checks of names"), ("Proxy", "goes around the checks of names"),
    ("Atomics", "is a clock"), ("SharedArrayBuffer", "is a clock"), ("performance", "is a clock"),
    ("crypto", "is chance"), ("postMessage", "talks to others"), ("BroadcastChannel", "talks to others"),
];

/// Members that lead to prototypes and, from there, to functions that make code.
pub(super) const MEMBERS: &[&str] = &[
    "constructor",
    "prototype",
    "__proto__",
    "__defineGetter__",
    "__defineSetter__",
    "__lookupGetter__",
    "__lookupSetter__",
    "getPrototypeOf",
    "setPrototypeOf",
];

/// What a name that must not be reached for is.
pub(super) fn denied(name: &str) -> Option<&'static str> {
    DENIED.iter().find(|(denied, _)| *denied == name).map(|(_, what)| *what)
}

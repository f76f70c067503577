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

/// What code must not reach for, and what it does: the name and this are a sentence.
#[rustfmt::skip]
const DENIED: &[(&str, &str)] = &[
    ("eval", "makes code out of text"), ("Function", "makes code out of text"),
    ("globalThis", "is everything the engine has"), ("window", "belongs to a web page"),
    ("self", "belongs to a web page"), ("global", "belongs to a server program"), ("top", "belongs to a web page"),
    ("parent", "belongs to a web page"), ("frames", "belongs to a web page"), ("document", "belongs to a web page"),
    ("navigator", "belongs to a web page"), ("location", "belongs to a web page"), ("history", "belongs to a web page"),
    ("process", "belongs to a server program"), ("require", "belongs to a server program"), ("module", "belongs to a server program"),
    ("Deno", "belongs to a server program"), ("Bun", "belongs to a server program"), ("fetch", "reaches the network"),
    ("setTimeout", "sets a timer, which no lane grants"),
    ("setInterval", "sets a timer, which no lane grants"),
    ("setImmediate", "sets a timer, which no lane grants"),
    ("requestAnimationFrame", "waits for a moment, which no lane grants"),
    ("requestIdleCallback", "waits for a moment, which no lane grants"),
    ("XMLHttpRequest", "reaches the network"), ("WebSocket", "reaches the network"),
    ("EventSource", "reaches the network"), ("WebTransport", "reaches the network"),
    ("RTCPeerConnection", "reaches the network"), ("Worker", "starts other code"),
    ("SharedWorker", "starts other code"), ("importScripts", "starts other code"),
    ("WebAssembly", "starts other code"),
    ("localStorage", "keeps data, and `capabilities.storage` of the plan does not name it"),
    ("sessionStorage", "keeps data, and `capabilities.storage` of the plan does not name it"),
    ("indexedDB", "keeps data in a browser"), ("caches", "keeps data in a browser"),
    ("Reflect", "goes around the checks of names"), ("Proxy", "goes around the checks of names"),
    ("Atomics", "tells the time"), ("SharedArrayBuffer", "tells the time"), ("performance", "tells the time"),
    ("crypto", "gives random values"), ("postMessage", "talks to others"), ("BroadcastChannel", "talks to others"),
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

/// What a name that must not be reached for does.
pub(super) fn denied(name: &str) -> Option<&'static str> {
    DENIED.iter().find(|(denied, _)| *denied == name).map(|(_, what)| *what)
}

/// What to do for what names stand for that a browser or a library has and no lane does: the name, and the way on.
#[rustfmt::skip]
const INSTEAD: &[(&str, &str)] = &[
    ("Intl", "no lane has the tables of languages: put formatted texts into the state, or format by hand, as with `toFixed` and `padStart`"),
    ("URL", "put an address together as a text; `encodeURIComponent` is there"),
    ("URLSearchParams", "put an address together as a text; `encodeURIComponent` is there"),
    ("structuredClone", "copy data with `JSON.parse(JSON.stringify(data))`"),
    ("TextEncoder", "no lane has it: work with texts, or put the bytes into the state as numbers"),
    ("TextDecoder", "no lane has it: work with texts, or put the text into the state"),
    ("atob", "no lane has it: put the text itself into the state"),
    ("btoa", "no lane has it: put the text itself into the state"),
    ("Buffer", "no lane has it: use `Uint8Array`"),
    ("AbortController", "leave it out: code has nothing to wait for"),
    ("clearTimeout", "leave it out: no lane grants timers; let an event of the plan come back later"),
    ("clearInterval", "leave it out: no lane grants timers; let an event of the plan come back later"),
    ("alert", "show a text in a node instead"), ("confirm", "ask by buttons that name events of the plan"),
    ("prompt", "ask by a form whose `onSubmit` names an event of the plan"),
    ("FormData", "an event of a form has its values in `event.payload`"),
    ("React", "import it: `import * as React from 'react'`; markup needs no import"),
    ("useState", "import it: `import { useState } from 'preact/hooks'`, with the runtime `preact`"),
    ("useEffect", "import it: `import { useEffect } from 'preact/hooks'`, with the runtime `preact`"),
    ("useMemo", "import it: `import { useMemo } from 'preact/hooks'`, with the runtime `preact`"),
    ("useRef", "import it: `import { useRef } from 'preact/hooks'`, with the runtime `preact`"),
    ("localStorage", "ask for it: `\"capabilities\": {\"storage\": [\"localStorage\"]}`; it is in memory, so what is to stay goes into the state"),
    ("sessionStorage", "ask for it: `\"capabilities\": {\"storage\": [\"sessionStorage\"]}`; it is in memory, so what is to stay goes into the state"),
    ("require", "write `import name from 'module'` at the head of the source"),
    ("module", "write `export default` in front of what is shown"),
    ("exports", "write `export default` in front of what is shown"),
    ("crypto", "take `Math.random()` for layouts; what has to be secret is none of a plan's"),
    ("performance", "take `Date.now()`, which stands still in a run, so that a replay shows the same"),
];

/// The way on for a name that code cannot have.
pub(super) fn instead(name: &str) -> Option<&'static str> {
    INSTEAD.iter().find(|(known, _)| *known == name).map(|(_, way)| *way)
}

// Runs code of a plan in a lane of this browser, and tells what the lane really is. The page needs the
// rules of content that `headers.json` names for `host`.

export const LANES = ['standard', 'isolated-vm', 'sandbox-worker', 'sandbox-iframe', 'sandbox-shadowrealm'];

// What each lane of a browser is made of.
const MADE_OF = {
  'sandbox-worker': { document: 'worker.html', isolation: 'worker in a frame of its own origin, no connection' },
  'sandbox-iframe': { document: 'frame.html', isolation: 'frame in a frame of its own origin; dns-prefetch, preconnect and WebRTC stay' },
};

const HEARTBEAT_MS = 1000;
const MISSES = 2;
// Longest way of a lane's document; code runs only after it.
const LOAD_MS = 5000;
// How long after a Tab, or after a press in it, the focus may move into a lane, and how often one may take it unasked before it is ended.
const TAB_MS = 500;
const TAKES = 3;
// How long after a key a person is still typing.
const TYPING_MS = 300;
// How much later than its own limit a lane is taken away with its frame.
const GRACE_MS = 30;

const DEFAULT_LIMITS = { time_ms: 1500, output_bytes: 2 << 20 };
const MOST = { time_ms: 600_000, output_bytes: 64 << 20 };

// What may be given. Anything else is refused: whoever asks for less isolation must not believe to have it.
const GIVEN = ['requested', 'code', 'task', 'limits', 'live'];
const TASK = ['export', 'input', 'now_ms', 'seed'];
const OPTIONS = ['signal', 'base', 'into', 'remember', 'again'];

function refusal(requested, why, fix = 'ask for sandbox-worker or sandbox-iframe, or render the plan on a server') {
  return {
    requested,
    effective: null,
    error: {
      code: 'plan_lane_unavailable',
      what: `the lane ${requested} is not in this browser`,
      why,
      fix,
    },
  };
}

function misuse(requested, what, why, fix) {
  return { requested: String(requested), effective: null, error: { code: 'usage', what, why, fix } };
}

// Why what is given is not taken; nothing for what is.
function refused(given, options) {
  const is = (value) => typeof value === 'object' && value !== null;
  const { requested = 'standard', code, task = {}, limits = {} } = is(given) ? given : {};
  if (typeof code !== 'string') return misuse(requested, '`code` is no text', 'a lane runs the body of a function', 'give what `glasshouse ui bundle` writes');
  const all = { 'what is run': [given, GIVEN], task: [task, TASK], limits: [limits, Object.keys(MOST)], options: [options, OPTIONS] };
  for (const [name, [value, known]] of Object.entries(all)) {
    if (!is(value)) return misuse(requested, `${name}: no object`, 'it has named members', `give one with ${known.join(', ')}`);
    const other = Object.keys(value).find((key) => !known.includes(key));
    if (other !== undefined) return misuse(requested, `${name}: there is no \`${other.slice(0, 64)}\``, 'what a lane may do is fixed in its documents; no option makes it more', `leave it out; there are ${known.join(', ')}`);
  }
  for (const [name, most] of Object.entries(MOST)) {
    const value = limits[name] ?? 1;
    if (!(typeof value === 'number' && value >= 1 && value <= most)) return misuse(requested, `limits: \`${name}\` is out of bounds`, `it is 1 to ${most}`, 'give such a number, or leave it out');
  }
  return undefined;
}

// The lane that runs a source, or why none does. Never a weaker one than is asked for.
export function choose(requested) {
  if (!LANES.includes(requested)) return refusal(String(requested), 'there is no lane of this name');
  if (requested === 'standard') return { requested, effective: 'sandbox-iframe' };
  if (requested === 'isolated-vm') return refusal(requested, 'a browser has no process of its own for code');
  if (requested === 'sandbox-shadowrealm') {
    const there = typeof globalThis.ShadowRealm === 'function';
    return refusal(requested, there ? 'a realm makes code out of text, which these lanes forbid' : 'there is no ShadowRealm');
  }
  return { requested, effective: requested };
}

// What the keys of code begin with in a storage, and how many of them are kept: the newest.
const KEYS = 'glasshouse-lane:';
const MAX_KEPT = 100;

// Code that did not end by itself, or that a tab was closed over, is remembered by what it is.
function storage() {
  return attempt(() => globalThis.localStorage);
}

// The SHA-256 of a text: what a shorter sum keeps apart by luck, somebody brings together on purpose. `crypto.subtle` is not in
// every page, and answers later.
function keyOf(code) {
  const primes = [];
  for (let n = 2; primes.length < 64; n += 1) if (primes.every((prime) => n % prime !== 0)) primes.push(n);
  const fraction = (root) => ((root - Math.floor(root)) * 2 ** 32) | 0;
  const rounds = primes.map((prime) => fraction(Math.cbrt(prime)));
  const sums = Int32Array.from(primes.slice(0, 8), (prime) => fraction(Math.sqrt(prime)));
  const text = new TextEncoder().encode(code);
  const bytes = new Uint8Array(Math.ceil((text.length + 9) / 64) * 64);
  bytes.set(text);
  bytes[text.length] = 0x80;
  const view = new DataView(bytes.buffer);
  view.setUint32(bytes.length - 8, Math.floor(text.length / 2 ** 29));
  view.setUint32(bytes.length - 4, (text.length * 8) >>> 0);
  const turned = (word, by) => (word >>> by) | (word << (32 - by));
  const words = new Int32Array(64);
  for (let block = 0; block < bytes.length; block += 64) {
    for (let at = 0; at < 64; at += 1) {
      if (at < 16) words[at] = view.getInt32(block + at * 4);
      else {
        const [old, last] = [words[at - 15], words[at - 2]];
        const one = turned(old, 7) ^ turned(old, 18) ^ (old >>> 3);
        words[at] = words[at - 16] + one + words[at - 7] + (turned(last, 17) ^ turned(last, 19) ^ (last >>> 10));
      }
    }
    let [a, b, c, d, e, f, g, h] = sums;
    for (let at = 0; at < 64; at += 1) {
      const one = (h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + rounds[at] + words[at]) | 0;
      const two = ((turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [a, b, c, d, e, f, g, h] = [(one + two) | 0, a, b, c, (d + one) | 0, e, f, g];
    }
    [a, b, c, d, e, f, g, h].forEach((word, at) => { sums[at] += word; });
  }
  return KEYS + Array.from(sums, (word) => (word >>> 0).toString(16).padStart(8, '0')).join('');
}

// Code that runs in this page now, by its key: how many runs of it, and whether one of them was stopped. It is in
// the storage as well, because the tab may be closed, and was not stopped for that.
const running = new Map();

// Whether a window is a frame's, or of a frame in it. Parents are told across origins.
function isWithin(source, frame) {
  for (let at = source; at; at = at.parent === at ? null : at.parent) if (at === frame.contentWindow) return true;
  return false;
}

// Where the focus of this page is, when it was moved by Tab, and when a key was pressed: what a lane takes unasked goes back there.
let former;
let tabbed = -TAB_MS;
let typed = -TYPING_MS;
addEventListener('focusin', ({ target }) => { former = target; }, true);
addEventListener('keydown', ({ key }) => {
  typed = performance.now();
  if (key === 'Tab') tabbed = typed;
}, true);

function giveBack(frame) {
  frame.blur();
  if (former?.isConnected && former !== frame) former.focus({ preventScroll: true });
}

// Watches a lane for what only a person may do: `ask` asks its outer frame whether there was one. Answers `heard`, which takes the answer,
// and `stop`.
function guardFocus(frame, ask, end) {
  let [takes, given] = [0, -TAB_MS];
  // What had it before this page had ears, or while the window had none.
  if (document.activeElement?.tagName !== 'IFRAME') former = document.activeElement;
  const took = () => setTimeout(() => {
    if (document.activeElement !== frame || performance.now() - Math.max(tabbed, given) < TAB_MS) return;
    // A hidden lane has nothing to be used; and who types here presses nothing there.
    if (frame.hidden || performance.now() - typed < TYPING_MS) giveBack(frame);
    ask();
  });
  addEventListener('blur', took);
  return {
    heard: (is_used) => {
      if (is_used && !frame.hidden) {
        [takes, given] = [0, performance.now()];
        return document.activeElement !== frame && frame.focus();
      }
      takes += 1;
      if (document.activeElement === frame) giveBack(frame);
      return takes >= TAKES && end();
    },
    stop: () => removeEventListener('blur', took),
  };
}

// What a storage answers; without a storage, or with one that is full or forbidden, nothing is remembered.
function attempt(what) {
  try {
    return what();
  } catch {
    return undefined;
  }
}

function wasStopped(remember, key) {
  return !running.has(key) && Boolean(attempt(() => remember?.getItem(key)));
}

function begins(remember, key) {
  const one = running.get(key) ?? { runs: 0, stopped: false };
  running.set(key, { ...one, runs: one.runs + 1 });
  attempt(() => {
    if (!remember) return;
    const names = Array.from({ length: remember.length }, (_, at) => remember.key(at));
    const others = names.filter((name) => name.startsWith(KEYS) && !running.has(name));
    const since = (name) => Number(remember.getItem(name)) || 0;
    others.sort((a, b) => since(a) - since(b));
    for (const oldest of others.slice(0, Math.max(0, others.length + 1 - MAX_KEPT))) remember.removeItem(oldest);
    remember.setItem(key, String(Date.now()));
  });
}

function ends(remember, key, stopped) {
  const one = running.get(key);
  const left = { runs: one.runs - 1, stopped: one.stopped || stopped };
  if (left.runs > 0) return running.set(key, left);
  running.delete(key);
  if (!left.stopped) attempt(() => remember?.removeItem(key));
}

function stoppedBefore(chosen) {
  return {
    ...chosen,
    effective: null,
    stopped_before: true,
    error: { code: 'script_limit', what: 'the code was stopped last time', why: 'it did not end by itself', fix: 'ask the person, and run it with `again`' },
  };
}

// Runs `code`, the body of a function of `exports`, and answers `{ requested, effective, isolation, duration_ms, run_ms }` with
// `node`, or with `error` and, where one was reached, `limit` and `killed`. Each run has a frame of its own. Code that was stopped last
// time is not begun: `stopped_before`, unless `again` says so.
export function run(given, options = {}) {
  const wrong = refused(given, options);
  if (wrong) return Promise.resolve(wrong);
  if (given.live) return Promise.resolve(misuse(given.requested ?? 'standard', 'the code stays alive', 'it makes a page of its own and answers no node', 'show it with `mount`'));
  return begin(given, options);
}

// Shows code that stays alive, such as components with state and handlers, in a frame that it has for itself, at the end of `into`. Answers as
// `run` does, once it is shown or has failed: with `stop`, and `ended`, a promise of what it ended with. Nothing comes out of it.
export function mount(given, options = {}) {
  const wrong = refused(given, options);
  if (wrong) return Promise.resolve(wrong);
  const { requested = 'standard', live } = given;
  if (!live) return Promise.resolve(misuse(requested, 'the code does not stay alive', 'it answers a node', 'run it with `run`, and show the node'));
  const chosen = choose(requested);
  if (!chosen.error && chosen.effective !== 'sandbox-iframe') return Promise.resolve(refusal(requested, 'a worker has no page to show anything in', 'ask for sandbox-iframe'));
  return begin(given, options);
}

function begin({ requested = 'standard', code, task, limits = {}, live = false }, { signal, base = import.meta.url, into = document.body, remember = storage(), again = false }) {
  const chosen = choose(requested);
  if (chosen.error) return Promise.resolve(chosen);
  const key = keyOf(code);
  if (!again && wasStopped(remember, key)) return Promise.resolve(stoppedBefore(chosen));
  const { document: name, isolation } = MADE_OF[chosen.effective];
  const bounds = { ...DEFAULT_LIMITS, ...limits };
  const begun = performance.now();
  return new Promise((resolve) => {
    const frame = document.createElement('iframe');
    const { port1: port, port2: theirs } = new MessageChannel();
    let watchdog, misses = 0, heartbeat, abort, sent, is_shown = false, over;
    const ended = new Promise((end) => { over = end; });
    const told = (answer) => {
      const now = performance.now();
      return { ...chosen, isolation, duration_ms: now - begun, run_ms: sent === undefined ? 0 : now - sent, ...answer };
    };
    const done = (answer) => {
      clearTimeout(watchdog);
      clearInterval(heartbeat);
      removeEventListener('message', stranger);
      focus.stop();
      signal?.removeEventListener('abort', abort);
      port.close();
      frame.remove();
      const was_stopped = ['deadline', 'unresponsive'].includes(answer.killed);
      // What is shown was no longer remembered as under way.
      if (is_shown && was_stopped) begins(remember, key);
      if (is_shown ? was_stopped : sent !== undefined) ends(remember, key, was_stopped);
      resolve(told(answer));
      over(told(answer));
    };
    const killed = (killed, limit) => done({ killed, ...(limit && { limit }), error: stopped(killed, limit) });
    // A lane has its port. Whatever else it says to this page is a flood, or becomes one.
    const stranger = ({ source }) => { if (isWithin(source, frame)) killed('limit', 'messages'); };
    const focus = guardFocus(frame, () => port.postMessage({ type: 'used' }), () => killed('limit', 'focus'));
    abort = () => killed('cancelled');
    if (signal?.aborted) return abort();
    signal?.addEventListener('abort', abort);
    // From now on only the person, the page and the watchdog end it.
    const shown = () => {
      if (!live || is_shown) return;
      is_shown = true;
      clearTimeout(watchdog);
      ends(remember, key, false);
      resolve(told({ stop: abort, ended }));
    };
    port.onmessage = ({ data }) => {
      if (data.type === 'pong') misses = 0;
      else if (data.type === 'used') focus.heard(data.is);
      else if (data.type === 'mounted') shown();
      else if (data.type === 'made') done(live ? { error: failed('it answered instead of staying') } : read(data.text));
      else if (data.type === 'threw') done({ error: failed(data.why) });
      else if (data.type === 'killed') killed(data.killed, data.limit);
    };
    frame.setAttribute('sandbox', 'allow-scripts');
    frame.hidden = !live;
    if (live) Object.assign(frame.style, { border: '0', width: '100%' });
    frame.src = new URL(name, base);
    frame.onerror = () => done({ error: failed('the lane does not load') });
    frame.onload = () => {
      frame.onload = null;
      clearTimeout(watchdog);
      // The lane has its own clock; this one is for a lane that does not answer any more.
      watchdog = setTimeout(() => killed('deadline', 'time'), bounds.time_ms + GRACE_MS);
      heartbeat = setInterval(() => {
        misses += 1;
        if (misses > MISSES) return killed('unresponsive', 'time');
        port.postMessage({ type: 'ping' });
      }, HEARTBEAT_MS);
      sent = performance.now();
      begins(remember, key);
      addEventListener('message', stranger);
      frame.contentWindow.postMessage({ type: 'run', code, live, task: { export: 'default', input: {}, now_ms: 0, seed: 0, ...task }, limits: bounds }, '*', [theirs]);
    };
    watchdog = setTimeout(() => done({ killed: 'unresponsive', error: failed('the lane does not load') }), LOAD_MS);
    into.append(frame);
  });
}

// What code made is data: a text of JSON, read here and checked by whoever shows it.
function read(text) {
  try {
    return { node: JSON.parse(text) };
  } catch (error) {
    return { error: failed(String(error.message)) };
  }
}

function failed(why) {
  return { code: 'script_failed', what: 'the code failed', why, fix: 'correct what throws it; `glasshouse ui render-plan` names its line and column' };
}

function stopped(killed, limit) {
  if (!limit) return { code: 'script_failed', what: 'the code was stopped', why: `it was ${killed}`, fix: 'run it again' };
  return { code: 'script_limit', what: `the code reached its limit of ${limit}`, why: `it was ended: ${killed}`, fix: 'do less in one run' };
}

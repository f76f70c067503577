// Runs code of a plan in a lane of this browser, and tells what the lane really is. The page needs the
// rules of content that `headers.json` names for `host`.

export const LANES = ['standard', 'isolated-vm', 'sandbox-worker', 'sandbox-iframe', 'sandbox-shadowrealm'];

// What each lane of a browser is made of.
const MADE_OF = {
  'sandbox-worker': { document: 'worker.html', isolation: 'worker in a frame of its own origin, no connection' },
  'sandbox-iframe': { document: 'frame.html', isolation: 'frame in a frame of its own origin; preconnect and WebRTC stay' },
};

const HEARTBEAT_MS = 1000;
const MISSES = 2;
// Longest way of a lane's document; code runs only after it.
const LOAD_MS = 5000;
// How much later than its own limit a lane is taken away with its frame.
const GRACE_MS = 30;

const DEFAULT_LIMITS = { time_ms: 1500, output_bytes: 2 << 20 };

function refusal(requested, why) {
  return {
    requested,
    effective: null,
    error: {
      code: 'plan_lane_unavailable',
      what: `the lane ${requested} is not in this browser`,
      why,
      fix: 'ask for sandbox-worker or sandbox-iframe, or render the plan on a server',
    },
  };
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

function keyOf(code) {
  let [a, b] = [0xdeadbeef, 0x41c6ce57];
  for (let at = 0; at < code.length; at += 1) {
    a = Math.imul(a ^ code.charCodeAt(at), 2654435761);
    b = Math.imul(b ^ code.charCodeAt(at), 1597334677);
  }
  return `${KEYS}${(a >>> 0).toString(36)}${(b >>> 0).toString(36)}`;
}

// Code that runs in this page now, by its key: how many runs of it, and whether one of them was stopped. It is in
// the storage as well, because the tab may be closed, and was not stopped for that.
const running = new Map();

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
export function run({ requested = 'standard', code, task, limits = {} }, { signal, base = import.meta.url, into = document.body, remember = storage(), again = false } = {}) {
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
    let watchdog, misses = 0, heartbeat, abort, sent;
    const done = (answer) => {
      clearTimeout(watchdog);
      clearInterval(heartbeat);
      signal?.removeEventListener('abort', abort);
      port.close();
      frame.remove();
      if (sent !== undefined) ends(remember, key, ['deadline', 'unresponsive'].includes(answer.killed));
      const now = performance.now();
      resolve({ ...chosen, isolation, duration_ms: now - begun, run_ms: sent === undefined ? 0 : now - sent, ...answer });
    };
    const killed = (killed, limit) => done({ killed, ...(limit && { limit }), error: stopped(killed, limit) });
    abort = () => killed('cancelled');
    if (signal?.aborted) return abort();
    signal?.addEventListener('abort', abort);
    port.onmessage = ({ data }) => {
      if (data.type === 'pong') misses = 0;
      else if (data.type === 'made') done(read(data.text));
      else if (data.type === 'threw') done({ error: failed(data.why) });
      else if (data.type === 'killed') killed(data.killed, data.limit);
    };
    frame.setAttribute('sandbox', 'allow-scripts');
    frame.hidden = true;
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
      frame.contentWindow.postMessage({ type: 'run', code, task: { export: 'default', input: {}, now_ms: 0, seed: 0, ...task }, limits: bounds }, '*', [theirs]);
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
  return { code: 'script_failed', what: 'the code failed', why, fix: 'correct the code where the reason says' };
}

function stopped(killed, limit) {
  if (!limit) return { code: 'script_failed', what: 'the code was stopped', why: `it was ${killed}`, fix: 'run it again' };
  return { code: 'script_limit', what: `the code reached its limit of ${limit}`, why: `it was ended: ${killed}`, fix: 'do less in one run' };
}

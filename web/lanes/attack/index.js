// Attacks each lane with every way out, and reports what came back. The address names the sink.
import { mount, run } from '../host.js';

const search = new URLSearchParams(location.search);
const input = JSON.parse(search.get('input') ?? '{}');
const code = await (await fetch('channels.js')).text();
const table = document.querySelector('table');
const row = (...cells) => {
  const line = table.insertRow();
  for (const cell of cells) line.insertCell().textContent = cell;
};
// Where the documents of the lanes are.
const base = new URL(input.base ?? '../', location.href);
const report = { lanes: {} };
row('lane', 'effective', 'reads', 'tried');
for (const requested of input.lanes ?? ['sandbox-worker', 'sandbox-iframe', 'sandbox-shadowrealm', 'isolated-vm', 'standard']) {
  const one = (more) => run({ requested, code, task: { input: { ...input, run: `${input.run}-${requested}`, ...more } }, limits: { time_ms: 30000 } }, { base, again: true });
  const answer = await one({ apart: true });
  report.lanes[requested] = answer;
  row(requested, answer.effective ?? answer.error.code, Object.keys(answer.node?.reads ?? {}).join(', ') || 'nothing', answer.node?.tried?.length ?? 0);
  if (answer.effective === 'sandbox-iframe' && requested !== 'standard') {
    report.alone = { webrtc: await one({ only: 'webrtc' }) };
    for (const only of ['self-navigation', 'meta-refresh', 'download', 'top-navigation']) await one({ only });
  }
}
// Loops: the lane ends them, and this page goes on meanwhile.
const endless = 'exports.default = () => { for (;;) {} }';
// Where a browser keeps such frames in the page's own process, a loop in one of them stops the page with it.
for (const requested of input.loops ?? ['sandbox-worker']) {
  report.loops ??= {};
  const runs = [];
  // A busy machine is late sometimes; what does not end a loop is late always.
  const inTime = (one) => one.run_ms <= 350 && one.page_waited_ms < 150;
  for (let n = 0; n < 5 || (n < 25 && !runs.some(inTime)); n += 1) {
    let waited = 0, last = performance.now();
    const ticks = setInterval(() => { const now = performance.now(); waited = Math.max(waited, now - last); last = now; }, 5);
    const answer = await run({ requested, code: endless, task: {}, limits: { time_ms: 300 } }, { again: true });
    clearInterval(ticks);
    runs.push({ ...answer, page_waited_ms: waited });
  }
  report.loops[requested] = runs;
  const least = (key) => Math.round(Math.min(...runs.map((one) => one[key])));
  row(requested, 'endless loop of 300 ms', `ended after ${least('run_ms')} ms`, `page waited ${least('page_waited_ms')} ms`);
}
// A run that is cancelled.
const abort = new AbortController();
setTimeout(() => abort.abort(), 100);
report.cancelled = await run({ requested: 'sandbox-worker', code: endless, task: {}, limits: { time_ms: 5000 } }, { signal: abort.signal, again: true });
// What an honest source makes, twice in each lane: clock and chance are those of the task.
const honest = 'exports.default = ({ n }) => ({ type: "text", value: [n, Date.now(), Math.random(), new Date().getTime()].join() })';
report.honest = [];
for (const requested of ['sandbox-worker', 'sandbox-iframe', 'sandbox-worker', 'sandbox-iframe']) report.honest.push(await run({ requested, code: honest, task: { input: { n: 5 }, now_ms: 1790000000000, seed: 7 } }));
// What was stopped is not begun again unasked, also in a page that is opened later; what ended is.
const once = 'exports.default = () => { for (;;) {} } // once';
const short = { requested: 'sandbox-worker', code: once, task: {}, limits: { time_ms: 100 } };
report.again = [await run(short), await run(short), await run(short, { again: true })];
// What is to end by itself has the time for it on a busy machine.
const ends = { ...short, code: honest, limits: { time_ms: 9000 } };
report.again.push(await run(ends), await run(ends));
localStorage.clear();
// What is remembered: two runs at once are none that was stopped, a storage may be full, and what is kept is bounded.
const memory = (write = () => {}) => {
  const all = new Map();
  return {
    all,
    get length() { return all.size; },
    key: (at) => [...all.keys()][at],
    getItem: (key) => all.get(key) ?? null,
    setItem: (key, value) => { write(); all.set(key, String(value)); },
    removeItem: (key) => all.delete(key),
  };
};
const slow = { requested: 'sandbox-worker', code: 'exports.default = () => new Promise((end) => setTimeout(() => end({ type: "text", value: "slow" }), 500))', task: {}, limits: ends.limits };
let sent;
const isSent = new Promise((resolve) => { sent = resolve; });
const [shared, many] = [memory(sent), memory()];
const first = run(slow, { remember: shared });
await isSent;
report.kept = { together: [await run(slow, { remember: shared }), await first], left: shared.all.size };
report.kept.full = await run({ ...slow, code: honest }, { remember: memory(() => { throw new Error('full'); }) });
many.all.set('another', 'x');
for (let n = 0; n < 300; n += 1) many.all.set(`glasshouse-lane:${n}`, String(n));
report.kept.stopped = await run(short, { remember: many });
report.kept.many = [many.all.size, many.all.has('another'), many.all.has('glasshouse-lane:200'), many.all.has('glasshouse-lane:201')];
report.kept.told = await run(short, { remember: many });
// By which name code is remembered: one that nobody can give other code.
const sum = new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(once)));
report.kept.by_digest = many.all.has(`glasshouse-lane:${[...sum].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`);
// Code that is given to this page.
report.codes = [];
const given = input.codes ? await (await fetch('/codes')).json() : [];
// How long what stays alive is looked at.
const LOOK_MS = 6000;
for (const one of given) {
  const answer = await (one.live ? mount : run)(one, { again: true });
  if (answer.stop) {
    const by_itself = await Promise.race([answer.ended, new Promise((done) => setTimeout(done, one.task.input.look_ms ?? LOOK_MS))]);
    if (!by_itself) answer.stop();
    Object.assign(answer, { by_itself: Boolean(by_itself), ended: await answer.ended, frames: document.querySelectorAll('iframe').length });
  }
  report.codes.push(answer);
}
// What is not known is refused before there is a frame.
const plain = { requested: 'sandbox-iframe', code: honest, task: { input: {} } };
const odd = {
  sandbox: [plain, { sandbox: 'allow-scripts allow-same-origin' }],
  allow: [plain, { allow: 'geolocation' }],
  in_the_task: [{ ...plain, sandbox: 'allow-same-origin' }],
  of_the_task: [{ ...plain, task: { networkHosts: ['x.example'] } }],
  limit: [{ ...plain, limits: { memory: 1 } }],
  endless: [{ ...plain, limits: { time_ms: Infinity } }],
  no_time: [{ ...plain, limits: { time_ms: 0 } }],
  no_number: [{ ...plain, limits: { time_ms: '9' } }],
  no_code: [{ ...plain, code: 5 }],
  nothing: [null],
  alive: [{ ...plain, live: true }],
};
report.odd = {};
for (const [name, given] of Object.entries(odd)) {
  const answer = run(...given);
  const frames = document.querySelectorAll('iframe').length;
  report.odd[name] = { ...(await answer), frames };
}
report.odd.not_alive = { ...(await mount(plain)), frames: 0 };
report.odd.no_page = { ...(await mount({ ...plain, live: true, requested: 'sandbox-worker' })), frames: 0 };
report.even = await run(plain, { again: true, signal: new AbortController().signal });
// Floods: of answers that nobody asked for, and of questions.
const flood = 'for (let n = 0; n < 1000; n += 1) parent.postMessage({ type: "pong" }, "*"); exports.default = () => new Promise(() => {})';
report.flood = { answers: await run({ ...plain, code: flood }, { again: true }), questions: {} };
for (const name of ['frame.html', 'worker.html']) {
  const frame = document.createElement('iframe');
  const { port1, port2 } = new MessageChannel();
  const heard = [];
  frame.setAttribute('sandbox', 'allow-scripts');
  frame.src = new URL(name, base);
  await new Promise((done) => { frame.onload = done; document.body.append(frame); });
  const code = 'exports.default = () => new Promise((end) => setTimeout(() => end(1), 1000))';
  const ended = new Promise((done) => {
    port1.onmessage = ({ data }) => { heard.push(data.type); if (data.type !== 'pong') done(); };
  });
  frame.contentWindow.postMessage({ type: 'run', code, task: { export: 'default', input: {}, now_ms: 0, seed: 0 }, limits: { time_ms: 20000, output_bytes: 99 } }, '*', [port2]);
  const begun = performance.now();
  for (let n = 0; n < 2000; n += 1) {
    port1.postMessage({ type: 'ping' });
    if (n % 100 === 99) await new Promise((done) => setTimeout(done, 20));
  }
  await ended;
  report.flood.questions[name] = { pongs: heard.filter((type) => type === 'pong').length, ms: performance.now() - begun, last: heard.at(-1) };
  frame.remove();
}
// What a lane does to the page around it and to other lanes.
if (input.around) {
  report.around = {};
  const own = document.body.appendChild(document.createElement('input'));
  const own_focus = () => document.activeElement === own;
  const after = (ms) => new Promise((done) => setTimeout(done, ms));
  const stays = (around) => mount({ requested: 'sandbox-iframe', code, live: true, task: { input: { around } } }, { base, again: true });
  for (const [around, ends] of Object.entries(input.around)) {
    own.focus();
    let waited = 0, last = performance.now();
    const ticks = setInterval(() => { const now = performance.now(); waited = Math.max(waited, now - last); last = now; }, 5);
    const listens = around === 'asks' ? await stays('listens') : undefined;
    const shown = await stays(around);
    // What is to end has the time for it on a busy machine; what is to stay is looked at for a while.
    await (ends ? Promise.race([shown.ended, after(9000)]) : after(1500));
    const is_own = own_focus();
    listens?.stop();
    shown.stop?.();
    clearInterval(ticks);
    report.around[around] = { shown: Boolean(shown.stop), ended: (await shown.ended) ?? shown, listens: await listens?.ended, page_waited_ms: waited, is_own };
  }
  // A run that nobody sees.
  own.focus();
  const hidden = await run({ requested: 'sandbox-iframe', code, task: { input: { around: 'focus-of-the-window', stays_ms: 1000 } }, limits: { time_ms: 9000 } }, { base, again: true });
  report.around.hidden = { node: hidden.node, killed: hidden.killed, is_own: own_focus(), has_focus: document.hasFocus() };
  own.remove();
}
const bad = { big: 'exports.default = () => "x".repeat(3e6)', none: 'exports.other = 1', throws: 'exports.default = () => { throw new Error("x") }', syntax: 'exports.default = ) {', forged: 'postMessage({ made: JSON.stringify({ type: "text", value: "forged" }) }); exports.default = 1' };
report.bad = {};
// A document that never comes.
const none = memory();
if (input.never) report.never = { ...await run({ requested: 'sandbox-worker', code: 'exports.default = 1', task: {} }, { base: new URL(input.never, location.href), remember: none }), kept: none.all.size };
for (const [name, code] of Object.entries(bad)) report.bad[name] = await run({ requested: 'sandbox-worker', code, task: {} });
await fetch('/report/' + input.run, { method: 'POST', body: JSON.stringify(report) });

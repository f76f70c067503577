// Ways out of a page or a worker, by name. This file is the body of a function of `exports`, so that a lane runs it as
// it runs any code; a page without defences runs it as a script. Each way asks the sink for
// `/hit/RUN/NAME`, or opens a connection of another kind to it. What counts is what arrives there: a
// call that answers `true` may have been stopped, and one that throws may not.
const hasPage = typeof document === 'object';

function element(name, attributes, where = document.body) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  where.append(made);
  return made;
}

function link(rel, address, more = {}) {
  return element('link', { rel, href: address, ...more }, document.head);
}

function vector(inner) {
  const made = document.createElement('div');
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  const child = document.createElementNS('http://www.w3.org/2000/svg', inner.name);
  for (const [key, value] of Object.entries(inner.attributes)) child.setAttribute(key, value);
  if (inner.filter) {
    const filter = document.createElementNS('http://www.w3.org/2000/svg', 'filter');
    const box = document.createElementNS('http://www.w3.org/2000/svg', 'rect');
    filter.id = 'f';
    for (const [key, value] of Object.entries({ width: 9, height: 9, filter: 'url(#f)' })) box.setAttribute(key, value);
    filter.append(child);
    svg.append(filter, box);
  } else svg.append(child);
  made.append(svg);
  document.body.append(made);
}

// What a way is made of, where not every browser has it: a browser without it has no such way.
exports.needs = {
  webtransport: 'WebTransport',
  'websocket-stream': 'WebSocketStream',
  'fetch-later': 'fetchLater',
  'shared-worker': 'SharedWorker',
};

// Of any place where code runs.
exports.anywhere = {
  fetch: (at) => fetch(at, { mode: 'no-cors' }),
  'fetch-keepalive': (at) => fetch(at, { mode: 'no-cors', keepalive: true }),
  xhr: (at) => { const it = new XMLHttpRequest(); it.open('GET', at); it.send(); },
  websocket: (at) => void new WebSocket(at.replace('http', 'ws')),
  eventsource: (at) => void new EventSource(at),
  import: (at) => import(at),
  worker: (at) => {
    const text = `importScripts(${JSON.stringify(at)})`;
    const it = new Worker(URL.createObjectURL(new Blob([text], { type: 'text/javascript' })));
    it.onerror = (event) => event.preventDefault();
  },
  font: (at) => new FontFace('x', `url(${at})`).load(),
  webtransport: (at, ports) => new WebTransport(`https://127.0.0.1:${ports.webtransport}/x`).ready,
  'websocket-stream': (at) => new WebSocketStream(at.replace('http', 'ws')).opened,
};

// Of workers.
exports.workers = {
  'import-scripts': (at) => importScripts(at),
};

// Of pages.
exports.pages = {
  beacon: (at) => navigator.sendBeacon(at, 'x'),
  image: (at) => { new Image().src = at; },
  'image-set': (at) => element('img', { srcset: `${at} 2x` }),
  'image-input': (at) => element('input', { type: 'image', src: at }),
  script: (at) => element('script', { src: at }),
  'script-module': (at) => element('script', { type: 'module', src: at }),
  stylesheet: (at) => link('stylesheet', at),
  'style-import': (at) => { element('style', {}, document.head).textContent = `@import url(${at});`; },
  'style-background': (at) => element('p', { style: `background-image: url(${at}); width: 9px; height: 9px` }),
  'style-font': (at) => {
    element('style', {}, document.head).textContent = `@font-face { font-family: z; src: url(${at}) } .z { font-family: z }`;
    element('p', { class: 'z' }).textContent = 'x';
  },
  frame: (at) => element('iframe', { src: at }),
  object: (at) => element('object', { data: at }),
  embed: (at) => element('embed', { src: at }),
  video: (at) => element('video', { src: at, preload: 'auto' }),
  poster: (at) => element('video', { poster: at }),
  audio: (at) => element('audio', { src: at, preload: 'auto' }),
  'vector-image': (at) => vector({ name: 'image', attributes: { href: at, width: 9, height: 9 } }),
  'vector-filter': (at) => vector({ name: 'feImage', attributes: { href: at }, filter: true }),
  preload: (at) => link('preload', at, { as: 'image' }),
  'preload-module': (at) => link('modulepreload', at),
  prefetch: (at) => link('prefetch', at),
  form: (at) => {
    element('iframe', { name: 'form-target' });
    element('form', { action: at, method: 'post', target: 'form-target' }).submit();
  },
  'link-in-frame': (at) => {
    element('iframe', { name: 'link-target' });
    element('a', { href: at, target: 'link-target' }).click();
  },
  ping: (at) => {
    element('iframe', { name: 'ping-target' });
    element('a', { href: 'about:blank', ping: at, target: 'ping-target' }).click();
  },
  'fetch-later': (at) => fetchLater(at, { method: 'GET', activateAfter: 0 }),
  'shared-worker': (at) => {
    const text = `importScripts(${JSON.stringify(at)})`;
    new SharedWorker(URL.createObjectURL(new Blob([text], { type: 'text/javascript' }))).onerror = (event) => event.preventDefault();
  },
  // A service worker is of the place that serves the page, so the sink answers there, too.
  'service-worker': (at) => navigator.serviceWorker.register(new URL(at).pathname),
  'speculation-rules': (at) => {
    const rules = { prefetch: [{ source: 'list', urls: [at], eagerness: 'immediate' }] };
    element('script', { type: 'speculationrules' }, document.head).textContent = JSON.stringify(rules);
  },
  'dns-prefetch': (at) => link('dns-prefetch', `http://${new URL(at).pathname.split('/').slice(2).reverse().join('.')}.sink.test`),
  track: (at) => { element('track', { src: at, kind: 'subtitles', default: '' }, element('video', { crossorigin: '' })).track.mode = 'showing'; },
  manifest: (at) => link('manifest', at),
  'audio-worklet': (at) => new OfflineAudioContext(1, 9, 9000).audioWorklet.addModule(at),
  'paint-worklet': (at) => CSS.paintWorklet.addModule(at),
  'style-cursor': (at) => element('p', { style: `cursor: url(${at}), auto` }),
  'style-mask': (at) => element('p', { style: `mask-image: url(${at}); width: 9px; height: 9px` }),
  'style-content': (at) => element('p', { style: `content: url(${at})` }),
  preconnect: (at, ports) => link('preconnect', `http://127.0.0.1:${ports.preconnect}`),
  // The last: a page behind another one is not painted, and what is not painted loads less.
  popup: (at) => window.open(at),
};

// Of pages, in lanes each in a run of its own: some browsers stand still on it in a frame, which ends the run.
exports.alone = {
  webrtc: (at, ports) => {
    const it = new RTCPeerConnection({ iceServers: [{ urls: `stun:127.0.0.1:${ports.stun}` }] });
    it.createDataChannel('x');
    return it.createOffer().then((offer) => it.setLocalDescription(offer));
  },
};

// Ways that end the place they start from; each needs a run of its own.
exports.last = {
  'self-navigation': (at) => { location.href = at; },
  'meta-refresh': (at) => element('meta', { 'http-equiv': 'refresh', content: `0;url=${at}` }, document.head),
  // What another origin sends is no download: the page goes there.
  download: (at) => element('a', { href: at, download: 'x' }).click(),
  'top-navigation': (at) => { top.location.href = at; },
};

// What is read of the page around, or kept for another run, without any connection.
exports.reads = {
  'parent-page': () => parent.document.title,
  'top-address': () => String(top.location.href),
  cookie: () => (document.cookie = 'a=b', document.cookie.includes('a=b') || undefined),
  'local-storage': () => (localStorage.setItem('a', 'b'), localStorage.getItem('a')),
  'session-storage': () => (sessionStorage.setItem('a', 'b'), sessionStorage.getItem('a')),
  database: () => new Promise((done, no) => { const it = indexedDB.open('a'); it.onsuccess = () => done('open'); it.onerror = no; }),
  caches: () => caches.open('a').then(() => 'open'),
  eval: () => (0, eval)('"code"'),
  function: () => Function('return "code"')(),
};

// A script in a frame of this frame: what it says comes from another window than the code's own.
function inner(text) {
  const address = URL.createObjectURL(new Blob([text], { type: 'text/javascript' }));
  element('iframe', { srcdoc: `<script src="${address}"></script>` });
}

function field() {
  const made = element('input', { style: 'opacity: 0' });
  made.oninput = () => top.postMessage(made.value, '*');
  return made;
}

// What is done to the page around and to other lanes, without any connection. Each is shown with `mount`, and stays.
exports.around = {
  'top-message': () => top.postMessage({ x: 1 }, '*'),
  'top-nothing': () => top.postMessage(null, '*'),
  'top-flood': () => setTimeout(() => setInterval(() => { for (let n = 0; n < 500; n += 1) top.postMessage(0, '*'); }, 5), 200),
  'top-from-a-frame': () => inner('top.postMessage(1, "*")'),
  'parent-nothing': () => setInterval(() => parent.postMessage(0, '*'), 50),
  'parent-null': () => setInterval(() => parent.postMessage(null, '*'), 50),
  // Answers whoever asks.
  listens: () => {
    const told = ({ source, data }) => { if (data?.x) { source.postMessage({ reply: 'secret' }, '*'); top.postMessage('heard', '*'); } };
    addEventListener('message', told, true);
    onmessage = told;
  },
  asks: () => {
    addEventListener('message', ({ data }) => { if (data?.reply) top.postMessage(data.reply, '*'); });
    for (let at = 0; at < top.length; at += 1) if (top[at].length > 0) top[at][0].postMessage({ x: 1 }, '*');
  },
  focus: () => { const it = field(); setTimeout(() => it.focus(), 200); },
  'focus-again': () => { const it = field(); setInterval(() => it.focus(), 100); },
  'focus-of-the-window': () => setTimeout(() => focus(), 200),
  autofocus: () => { field().autofocus = true; },
};

const ofPage = (apart) => ({ ...(apart ? {} : exports.alone), ...exports.pages });
const ways = (apart) => ({ ...exports.anywhere, ...(hasPage ? ofPage(apart) : exports.workers) });

// How many ways are tried at once: a browser keeps more of them waiting for the same host.
const AT_ONCE = 8;

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// `patience_ms` is how long what was tried has to arrive; `apart` leaves out what is tried alone.
exports.default = async ({ sink, run, ports, only, apart, around, stays_ms, patience_ms = 500 }) => {
  if (around) {
    exports.around[around]();
    return stays_ms ? pause(stays_ms).then(() => 'stayed') : undefined;
  }
  const reads = {};
  if (only) {
    try { await (exports.last[only] ?? exports.alone[only])(`${sink}/hit/${run}/${only}`, ports); } catch {}
    await pause(patience_ms);
    return { reads };
  }
  const all = Object.entries(ways(apart));
  for (let at = 0; at < all.length; at += AT_ONCE) {
    const begun = all.slice(at, at + AT_ONCE).map(async ([name, fire]) => fire(`${sink}/hit/${run}/${name}`, ports));
    await Promise.race([Promise.allSettled(begun), pause(patience_ms)]);
    await pause(100);
  }
  for (const [name, read] of Object.entries(exports.reads)) {
    try {
      const found = await Promise.race([read(), new Promise((_, no) => setTimeout(no, 5000))]);
      if (found !== undefined && found !== null) reads[name] = String(found).slice(0, 60);
    } catch {}
  }
  await pause(patience_ms);
  const absent = Object.keys(exports.needs).filter((name) => name in ways(apart) && !(exports.needs[name] in globalThis));
  return { reads, tried: Object.keys(ways(apart)), absent };
};

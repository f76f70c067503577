// Takes out of the engine what would make two runs differ, before anything else runs: time and
// chance are values that come with the task. Nothing is written to a console that nobody reads.

const RealDate = Date;
const { construct } = Reflect;

export function start(nowMs, seed) {
  function RecordedDate(...given) {
    if (new.target === undefined) return new RealDate(nowMs).toString();
    return construct(RealDate, given.length === 0 ? [nowMs] : given, new.target);
  }
  for (const name of ["parse", "UTC"]) RecordedDate[name] = RealDate[name];
  RecordedDate.now = () => nowMs;
  RecordedDate.prototype = RealDate.prototype;
  Object.defineProperty(RecordedDate, "name", { value: "Date" });
  Object.defineProperty(RecordedDate, "length", { value: 7 });
  Object.defineProperty(RealDate.prototype, "constructor", {
    value: RecordedDate,
    writable: true,
    configurable: true,
  });
  globalThis.Date = RecordedDate;

  // A generator with 32 bits of state: enough for layouts, of no use for secrets.
  let state = seed >>> 0;
  Math.random = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };

  const silent = () => undefined;
  const names = ["log", "info", "warn", "error", "debug", "trace", "dir", "table", "assert"];
  globalThis.console = Object.fromEntries(names.map((name) => [name, silent]));
}

// A text in which half a sign, such as what a cut leaves of a picture sign, is the sign for what cannot be read.
const { apply } = Reflect;
const { toWellFormed } = String.prototype;
export const whole = (text) => (typeof text === "string" ? apply(toWellFormed, text, []) : text);

// Waits for whatever has a `then`, by the engine's own means: nothing that code changes is asked.
export const awaited = async (value) => value;

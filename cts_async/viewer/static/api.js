// Requests to the server. An unreachable server is asked again until it answers, or the page was left.

/** Whether there is a server; an export has `recorded.js` in the place of this module. */
export const SERVED = true;

const RETRY_MS = [1000, 2000, 4000, 5000];
const followers = new Set();
const missing = new Set();

/** An error that the server reported. */
class ServerError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Call `listener(gone)` whenever the server goes away or comes back, until `signal` aborts if there is one. */
export function onConnection(listener, signal) {
  followers.add(listener);
  signal?.addEventListener("abort", () => followers.delete(listener));
}

/** The JSON at an address, e.g. get("instance", { run, id }, signal). Throws ServerError, or AbortError when left. */
export async function get(name, parameters, signal) {
  const response = await request(address(name, parameters), signal);
  return response.json();
}

/** A long text. */
export async function getText(parameters, signal) {
  const response = await request(address("text", parameters), signal);
  return response.text();
}

/** An address of the server's, null and "" left out. */
export function address(name, parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return `api/${name}?${new URLSearchParams(given.map(([key, value]) => [key, String(value)]))}`;
}

/**
 * Call `listeners[event](data)` for events of a run, or of all runs for null, until `signal` aborts.
 * The browser restores lost connections. A hidden page closes its connection, since browsers
 * allow six to a server and windows add up; `seen()` is called when it has one again.
 */
export function watch(run, listeners, signal, seen = () => {}) {
  if (signal.aborted) return;
  const me = Symbol("watch");
  let source = listening(me, run, listeners);
  const end = () => {
    source.close();
    report(me, false);
  };
  const turned = () => {
    end();
    if (document.hidden) return;
    source = listening(me, run, listeners);
    seen();
  };
  document.addEventListener("visibilitychange", turned, { signal });
  signal.addEventListener("abort", end);
}

function listening(me, run, listeners) {
  const source = new EventSource(address("events", { run }));
  for (const [name, listener] of Object.entries(listeners)) {
    source.addEventListener(name, (event) => listener(JSON.parse(event.data)));
  }
  source.addEventListener("open", () => report(me, false));
  source.addEventListener("error", () => report(me, source.readyState === EventSource.CONNECTING));
  return source;
}

async function request(url, signal) {
  const me = Symbol(url);
  try {
    for (let attempt = 0; ; attempt += 1) {
      const response = await reached(url, signal);
      if (response !== null) return await checked(response);
      report(me, true);
      await pause(RETRY_MS[Math.min(attempt, RETRY_MS.length - 1)], signal);
    }
  } finally {
    report(me, false);
  }
}

async function reached(url, signal) {
  try {
    return await fetch(url, { signal, headers: { Accept: "application/json" } });
  } catch (error) {
    if (error instanceof TypeError) return null;
    throw error;
  }
}

async function checked(response) {
  if (response.ok) return response;
  const body = await response.json().catch(() => ({}));
  throw new ServerError(response.status, body.error ?? `${response.status} ${response.statusText}`);
}

function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}

function report(who, gone) {
  const before = missing.size > 0;
  if (gone) missing.add(who);
  else missing.delete(who);
  const now = missing.size > 0;
  if (now !== before) followers.forEach((listener) => listener(now));
}

/** Requests to the gateway, with the key. */

const KEY = "toolbridge.key";

export class Refused extends Error {
  constructor(status, message, where = "") {
    super(message);
    this.status = status;
    this.where = where;
  }

  /** Whether the key is right, but may not use this route. */
  get isLimit() {
    return this.status === 403 && this.message.includes("may not use");
  }

  get wantsKey() {
    return this.status === 401 || (this.status === 403 && !this.isLimit);
  }
}

let shown = "";
try {
  shown = sessionStorage.getItem(KEY) ?? "";
} catch {
  // Without session storage the key is kept in memory.
}

export function hasKey() {
  return shown !== "";
}

/** Keeps the key until the tab is closed; an empty one forgets it. */
export function setKey(key) {
  shown = key;
  try {
    if (key) sessionStorage.setItem(KEY, key);
    else sessionStorage.removeItem(KEY);
  } catch {
    // As above.
  }
}

export async function request(path, options = {}) {
  const headers = { ...options.headers };
  if (shown) headers["x-api-key"] = shown;
  const response = await fetch(path, { ...options, headers, cache: "no-store" });
  if (response.ok) return response;
  throw await refusal(response);
}

async function refusal(response) {
  let error = {};
  try {
    error = (await response.json()).error ?? {};
  } catch {
    // A proxy in front of the gateway may answer with something else than JSON.
  }
  const text = error.message || `the gateway answered with status ${response.status}`;
  return new Refused(response.status, text, error.where);
}

export async function getJson(path) {
  return (await request(path)).json();
}

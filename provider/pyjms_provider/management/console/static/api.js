// The REST API, and nothing else, is what the console knows of the broker.

const ROOT = "/api/latest";
const PATIENCE_MS = 30000;

export class ApiError extends Error {
  constructor(status, error) {
    super(error.reason);
    this.status = status;
    this.code = error.code;
    this.problems = error.problems ?? [];
    this.position = error.position;
  }
}

// The version of each object that was answered: who changes it says which one they have seen.
const tags = new WeakMap();

export function tagOf(answer) {
  return tags.get(answer);
}

// What who asked may do with each object; without a word about it, everything, as the broker has the last one.
const permissions = new WeakMap();

export function may(answer, operation) {
  return permissions.get(answer)?.includes(operation) ?? true;
}

const session = {userName: null, groups: [], token: null, onEnded: null};

export function who() {
  return session;
}

function segment(name) {
  if (name === "." || name === "..") {
    throw new ApiError(0, {
      code: "CONSOLE-NAME",
      reason: `a browser cannot name an object that is called “${name}”; use the command line`,
    });
  }
  return encodeURIComponent(name);
}

// The path of an object, or of the objects below it.
export function address(category, names, operation) {
  const parts = [category, ...names, ...(operation === undefined ? [] : [operation])];
  return `${ROOT}/${parts.map(segment).join("/")}`;
}

async function send(method, path, {body, headers = {}, signal} = {}) {
  const patience = AbortSignal.timeout(PATIENCE_MS);
  const all = {accept: "application/json", "x-requested-with": "console", ...headers};
  if (body !== undefined) all["content-type"] = "application/json";
  if (session.token !== null) all["x-csrf-token"] = session.token;
  let response;
  try {
    response = await fetch(path, {
      method,
      headers: all,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      signal: signal === undefined ? patience : AbortSignal.any([signal, patience]),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    const reason = patience.aborted
      ? "the broker did not answer within 30 seconds"
      : "the broker cannot be reached; is it running?";
    throw new ApiError(0, {code: "CONSOLE-UNREACHABLE", reason});
  }
  return read(response, path);
}

async function read(response, path) {
  if (response.status === 204) return null;
  let data;
  try {
    data = await response.json();
  } catch {
    data = {error: {code: `HTTP-${response.status}`, reason: `the broker answered ${response.status} without saying why`}};
  }
  if (response.ok) {
    const tag = response.headers.get("etag");
    if (tag !== null) tags.set(data, tag);
    const allowed = response.headers.get("x-pyjms-may");
    if (allowed !== null) permissions.set(data, allowed.split(", "));
    return data;
  }
  const error = new ApiError(response.status, data.error ?? {code: `HTTP-${response.status}`, reason: response.statusText});
  if (response.status === 401 && path !== "/api/login" && session.onEnded !== null) session.onEnded();
  throw error;
}

function query(options) {
  const chosen = Object.entries(options ?? {}).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return chosen.length === 0 ? "" : `?${new URLSearchParams(chosen.map(([name, value]) => [name, String(value)]))}`;
}

function remember(data) {
  session.userName = data.user_name;
  session.groups = data.groups;
  session.token = data.csrf_token ?? null;
}

export async function identify() {
  remember(await send("GET", "/api/whoami"));
}

// What the broker tells whoever is about to log in; null: nothing.
export async function loginNotice() {
  return (await send("GET", "/api/login")).notice;
}

export async function logIn(userName, password) {
  session.token = null;
  remember(await send("POST", "/api/login", {body: {user_name: userName, password}}));
}

export async function logOut() {
  await send("POST", "/api/logout");
  Object.assign(session, {userName: null, groups: [], token: null});
}

export function description() {
  return send("GET", `${ROOT}/description`);
}

export function get(category, names = [], options = {}, signal = undefined) {
  return send("GET", address(category, names) + query(options), {signal});
}

export function create(category, parents, attributes) {
  return send("POST", address(category, parents), {body: attributes});
}

// `tag`: the version that is to be changed; if there is another one meanwhile, that is an error of the status 412.
export function change(category, names, changes, tag = undefined) {
  const headers = tag === undefined ? {} : {"if-match": tag};
  return send("PATCH", address(category, names), {body: changes, headers});
}

export function remove(category, names) {
  return send("DELETE", address(category, names));
}

export async function operate(category, names, operation, args = {}, signal = undefined) {
  const answer = await send("POST", address(category, names, operation), {body: args, signal});
  return answer.result;
}

// Starts a long operation as a job; `onProgress(job)` hears of it, and `signal` ends it half way.
export async function runJob(category, names, operation, args, {onProgress, signal}) {
  const headers = {prefer: "respond-async"};
  let job = await send("POST", address(category, names, operation), {body: args, headers});
  if (job.state === undefined) return job.result;
  let wait = 50;
  while (job.state === "running") {
    onProgress(job);
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(wait * 1.6, 1000);
    const method = signal.aborted ? "DELETE" : "GET";
    job = await send(method, `${ROOT}/job/${segment(job.id)}`);
  }
  if (job.state === "failed") throw new ApiError(0, job.error);
  return job.result;
}

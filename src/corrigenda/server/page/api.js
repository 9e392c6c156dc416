// The calls to the server that served this page, and no other. The API key lives in this module's memory only.

/** What went wrong with a call. `kind` is `http`, `network`, `stream` or `reply`. */
export class CallError extends Error {
  constructor(kind, message, more = {}) {
    super(message);
    this.kind = kind;
    this.status = more.status ?? null;
    this.param = more.param ?? null;
    this.code = more.code ?? null; // a word for what went wrong
    this.retryAfter = more.retryAfter ?? null; // seconds
    this.requestId = more.requestId ?? null;
    this.report = more.report ?? null; // of what had been done by then, when the server sends it along
  }
}

let key = null;

/** Use `value` as the API key from now on; null forgets it. It is never stored. */
export function useKey(value) {
  key = value;
}

/** Return whether a key is in use. */
export function hasKey() {
  return key !== null;
}

async function call(path, body, signal) {
  const headers = { Accept: "application/json, text/event-stream" };
  if (key !== null) headers.Authorization = `Bearer ${key}`;
  const settings = { headers, signal, cache: "no-store", credentials: "same-origin", redirect: "error" };
  if (body !== undefined) {
    headers["Content-Type"] = "application/json";
    Object.assign(settings, { method: "POST", body: JSON.stringify(body) });
  }
  let reply;
  try {
    // Relative to the page, so that the server can also stand below a path of a reverse proxy.
    reply = await fetch(new URL(path, document.baseURI), settings);
  } catch (error) {
    throw translated(error);
  }
  if (!reply.ok) throw await refusal(reply);
  return reply;
}

/** Return an abort as it is, and anything else that fetch throws as a network failure. */
function translated(error) {
  if (error instanceof CallError || error.name === "AbortError") return error;
  return new CallError("network", error.message);
}

async function refusal(reply) {
  let body = null;
  try {
    body = await reply.json();
  } catch {
    // Not every refusal is ours: a reverse proxy in between answers with a page of its own, which says nothing here.
  }
  const seconds = Number.parseInt(reply.headers.get("Retry-After") ?? "", 10);
  return failure(body, reply.status, {
    retryAfter: Number.isFinite(seconds) ? Math.min(Math.max(seconds, 0), 3600) : null,
    requestId: reply.headers.get("X-Request-Id"),
  });
}

/** Return the error that a body in OpenAI's form tells of; `status` is null where none is known. */
function failure(body, status, more = {}) {
  const error = body?.error ?? {};
  const text = (value) => (typeof value === "string" ? value : null);
  return new CallError(status === null ? "stream" : "http", text(error.message) ?? "", {
    ...more,
    status,
    param: text(error.param),
    code: text(error.code),
    report: isReport(body?.corrigenda) ? body.corrigenda : null,
  });
}

async function parsed(reply) {
  try {
    return await reply.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    if (error instanceof SyntaxError) throw new CallError("reply", "the reply is not JSON");
    throw translated(error);
  }
}

function isReport(value) {
  return (
    value !== null && typeof value === "object" && typeof value.final_answer === "string" && Array.isArray(value.claims)
  );
}

function asReport(value) {
  if (!isReport(value)) throw new CallError("reply", "the reply holds no report");
  return value;
}

/** Return the models that the server offers, by id. */
export async function models(signal) {
  const list = await parsed(await call("v1/models", undefined, signal));
  return Array.isArray(list?.data) ? list.data.map((model) => model.id).filter((id) => typeof id === "string") : [];
}

/** Check an answer and return the report. */
export async function verify(body, signal) {
  return asReport(await parsed(await call("v1/verify", body, signal)));
}

/** Decide a report anew, with another policy, k or threshold. No model runs. */
export async function decide(body, signal) {
  return asReport(await parsed(await call("v1/decide", body, signal)));
}

/**
 * Ask a question. `on.text(piece)` gets each piece of the answer as it is released, `on.claims(list)` the claims in it.
 * Returns the report, or {status: "passed_through", reason} where the server has checked nothing.
 */
export async function ask(body, on, signal) {
  const reply = await call("v1/chat/completions", { ...body, stream: true }, signal);
  let last = null;
  let ended = false;
  for await (const data of events(reply.body)) {
    if (data === "[DONE]") {
      ended = true;
      break;
    }
    const event = eventOf(data);
    if (event.error) throw failure(event, Number.isInteger(event.error.status) ? event.error.status : null);
    const beside = event.corrigenda;
    if (isReport(beside) || beside?.status === "passed_through") last = beside;
    else if (Array.isArray(beside?.claims)) on.claims(beside.claims);
    const text = event.choices?.[0]?.delta?.content;
    if (typeof text === "string" && text !== "") on.text(text);
  }
  if (last === null || !ended) throw new CallError("stream", ended ? "it brought no report" : "it ended early");
  return last;
}

function eventOf(data) {
  try {
    const value = JSON.parse(data);
    if (value !== null && typeof value === "object") return value;
  } catch {
    // told below
  }
  throw new CallError("stream", "an event in it is not JSON");
}

/** Yield the data of each server-sent event of a body, however the network cuts it. */
export async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let [rest, data] = ["", []];
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      // A carriage return at the end may be half of a line's end: it waits for what follows.
      const lines = (rest + value).split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop();
      for (const line of lines) {
        if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
        else if (line === "" && data.length > 0) {
          yield data.join("\n");
          data = [];
        }
      }
    }
  } catch (error) {
    throw error.name === "AbortError" ? error : new CallError("stream", "the connection was cut");
  } finally {
    reader.cancel().catch(() => {});
  }
}

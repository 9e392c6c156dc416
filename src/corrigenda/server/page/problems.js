// Every way in which a call can fail, in words: what happened, and what to do about it.

import { count } from "./dom.js";

const HTTP = {
  400: ["The server can't use this input", "Change what it names, and try again."],
  401: ["The server refuses the API key", "Give another key."],
  403: ["The server refuses this", "Its log says why; whoever runs it can allow it."],
  404: ["The server doesn't offer this", "The page and the server may be of different versions: reload the page."],
  405: ["The server doesn't offer this", "The page and the server may be of different versions: reload the page."],
  408: ["The request took too long to arrive", "Check the connection, and try again."],
  413: ["That is too long for this server", "Shorten the text or leave passages out, and try again."],
  422: ["The server can't use this input", "Change what it names, and try again."],
  429: ["The server is busy", "Wait a moment, and try again."],
  500: ["The server met an error of its own", "Try again; if it stays, look at the server's log."],
  502: ["The model behind the server failed", "Try again; if it stays, look at the server's log."],
  503: ["The server isn't ready yet", "It may still be loading its models. Wait a moment, and try again."],
  504: ["The model behind the server didn't answer in time", "Try again, or ask something shorter."],
};

// The same statuses can mean something else: the server says so by a word.
const CODES = {
  upstream_unauthorized: ["The model's server refuses this server", "Whoever runs it can mend its settings."],
  upstream_rate_limit: ["The model's server is busy", "Wait a moment, and try again."],
  upstream_refused: ["The model's server doesn't take this request", "Change what it names, and try again."],
  verification_failed: ["The answer could not be checked", "This server gives out nothing unchecked. Try again."],
  deadline: ["It took longer than the server allows", "Try again, or ask for less at once."],
};

/**
 * Return how to show an error: {title, said, remedy, wait, requestId, param, key}. `said` is the server's own message,
 * `wait` the seconds until trying again makes sense, `key` whether it is about the API key.
 */
export function problemOf(error) {
  const shown = { said: "", wait: 0, requestId: null, param: null, key: false };
  if (error.kind === "network") {
    return {
      ...shown,
      title: "The server can't be reached",
      remedy: "Check that `corrigenda serve` still runs and that the network is up, and try again.",
    };
  }
  if (error.kind === "stream") {
    const title = "The answer broke off";
    return { ...shown, title, said: error.message, remedy: "Try again; if it stays, look at the server's log." };
  }
  if (error.kind === "reply") {
    const title = "The server's reply can't be read";
    return {
      ...shown,
      title,
      said: error.message,
      remedy: "Something between the page and the server may have changed it.",
    };
  }
  if (error.kind === "http") return { ...shown, ...ofStatus(error) };
  return { ...shown, title: "The page met an error of its own", said: error.message, remedy: "Reload the page." };
}

function ofStatus(error) {
  const status = error.status;
  const [title, remedy] = CODES[error.code] ?? HTTP[status] ?? HTTP[status >= 500 ? 500 : 400];
  const wait = status === 429 || status === 503 ? (error.retryAfter ?? 0) : 0;
  return {
    title,
    said: error.message,
    remedy: wait > 0 ? `It asks to wait ${count(wait, "second")}.` : remedy,
    wait,
    requestId: error.requestId,
    param: error.param,
    key: status === 401 && !(error.code in CODES),
  };
}

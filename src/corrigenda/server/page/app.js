// The page: forms, one run at a time with its progress and its cancel button, and what came of it.

import { CallError, ask, hasKey, models, useKey, verify } from "./api.js";
import { byId, count, el, put, say } from "./dom.js";
import {
  activeTab,
  choosePolicy,
  clearMistakes,
  fillExample,
  offerModels,
  readForm,
  setUpForms,
  showRefused,
} from "./forms.js";
import { problemOf } from "./problems.js";
import { clearResult, showReport, showUnchecked } from "./result.js";
import { tallyText, statusOf } from "./verdicts.js";

let running = null; // the AbortController of the run in progress
let afterKey = null; // what to do once there is a key
let waiting = null; // the countdown until trying again makes sense

function start() {
  setUpForms(run, (tab) => put(byId("run"), tab === "ask" ? "Ask" : "Check"));
  byId("run").addEventListener("click", run);
  byId("cancel").addEventListener("click", () => running?.abort());
  byId("example").addEventListener("click", fillExample);
  byId("key-form").addEventListener("submit", onKey);
  byId("forget-key").addEventListener("click", forgetKey);
  loadModels();
}

async function loadModels() {
  try {
    offerModels(await models());
  } catch (error) {
    // What else went wrong is told when something is asked.
    if (problemOf(error).key) askForKey(loadModels, error);
  }
}

async function run() {
  if (running !== null) return;
  const body = readForm();
  if (body === null) return;
  clearProblem();
  clearResult();
  const mine = new AbortController();
  running = mine;
  const stop = showWork(activeTab());
  try {
    if (activeTab() === "ask") await runAsk(body, mine.signal);
    else finish(await verify(body, mine.signal));
    hideWork(stop, false);
  } catch (error) {
    hideWork(stop, error instanceof CallError && error.report === null);
    if (error.name === "AbortError") cancelled();
    else showProblem(error);
  } finally {
    running = null;
  }
}

async function runAsk(body, signal) {
  let text = "";
  let claims = [];
  const on = {
    text: (piece) => {
      text += piece;
      byId("work-answer").hidden = false;
      byId("work-answer").append(piece);
    },
    claims: (more) => {
      claims = claims.concat(more);
      put(byId("work-claims"), `${count(claims.length, "claim")} so far: ${tallyText(claims)}`);
    },
  };
  const report = await ask(body, on, signal);
  if (report.status !== "passed_through") {
    finish(report);
  } else {
    showUnchecked(text, report);
    arrive("Passed through unchecked.");
  }
}

function show(report) {
  showReport(report, (choice) => {
    choosePolicy(choice);
    run();
  });
}

function finish(report) {
  show(report);
  const verdicts = report.claims.length > 0 ? `: ${tallyText(report.claims)}` : "";
  arrive(`${statusOf(report.status).title}. ${count(report.claims.length, "claim")}${verdicts}.`);
}

/** Say what came, and bring it into view; the focus moves only if it still is where the run was started. */
function arrive(text) {
  say(text);
  const result = byId("result");
  const at = document.activeElement;
  if (at === document.body || at.closest(".entry") !== null) result.focus({ preventScroll: true });
  result.scrollIntoView({ block: "start" });
}

// Progress ------------------------------------------------------------------------------------------------------------

function showWork(tab) {
  const text = tab === "ask" ? "Answering, and checking what is answered" : "Checking the answer";
  const begun = performance.now();
  const tick = () => put(byId("work-time"), `${((performance.now() - begun) / 1000).toFixed(1)} s`);
  put(byId("work-text"), text);
  put(byId("work-answer"));
  put(byId("work-claims"));
  byId("work-answer").hidden = true;
  byId("work").classList.remove("broken");
  byId("work").hidden = false;
  byId("run").setAttribute("aria-disabled", "true");
  byId("cancel").hidden = false;
  tick();
  say(`${text}.`);
  return setInterval(tick, 100);
}

/** End the display of progress; `keep` leaves the part of an answer that had come. */
function hideWork(timer, keep) {
  clearInterval(timer);
  const shown = keep && byId("work-answer").textContent !== "";
  if (!shown) put(byId("work-answer"));
  byId("work").hidden = !shown;
  byId("work").classList.toggle("broken", shown);
  if (shown) {
    put(byId("work-text"), "What had come of the answer");
    put(byId("work-time"));
    put(byId("work-claims"));
  }
  byId("run").removeAttribute("aria-disabled");
  const focused = document.activeElement === byId("cancel");
  byId("cancel").hidden = true;
  if (focused) byId("run").focus();
}

function cancelled() {
  put(
    byId("problem"),
    el("p", { class: "gist" }, "Cancelled. The connection is closed, and that ends the work on the server."),
  );
  byId("problem").classList.add("calm");
  byId("problem").hidden = false;
}

// Problems ------------------------------------------------------------------------------------------------------------

function clearProblem() {
  clearInterval(waiting);
  waiting = null;
  byId("problem").hidden = true;
  byId("problem").classList.remove("calm");
  put(byId("problem"));
}

function showProblem(error) {
  const problem = problemOf(error);
  if (!(error instanceof CallError)) console.error(error);
  if (problem.key) {
    askForKey(run, error);
    return;
  }
  const refused = problem.said !== "" && showRefused(problem.param, problem.said);
  const again = el("button", { type: "button", onclick: run }, "Try again");
  put(
    byId("problem"),
    el("h2", {}, problem.title),
    problem.said !== "" && el("p", { class: "said", dir: "auto" }, problem.said),
    el("p", {}, problem.remedy),
    !refused && el("div", { class: "actions" }, again),
    problem.requestId && el("p", { class: "hint" }, "Request ", el("code", {}, problem.requestId)),
  );
  byId("problem").hidden = false;
  if (error.report) show(error.report);
  if (problem.wait > 0) countDown(problem.wait, again);
}

/** Hold the button back for as long as the server asks for. */
function countDown(seconds, button) {
  let left = seconds;
  // An alert is read out again whenever it changes, so only what is seen counts down.
  const shown = el("span", { "aria-hidden": "true" });
  button.append(shown);
  const tick = () => {
    put(shown, left > 0 && ` in ${left} s`);
    button.disabled = left > 0;
    if (left <= 0) clearInterval(waiting);
    left -= 1;
  };
  tick();
  waiting = setInterval(tick, 1000);
}

// The API key ---------------------------------------------------------------------------------------------------------

/** Ask for a key because of `error`, and go on with `next` once there is one. */
function askForKey(next, error) {
  afterKey = next;
  showKeyForm(hasKey() ? `The server refuses this key: ${error.message || "it says no more"}.` : "");
}

function showKeyForm(mistake) {
  byId("key-card").hidden = false;
  put(byId("key-error"), mistake);
  byId("key").setAttribute("aria-invalid", String(mistake !== ""));
  byId("key").focus();
}

function onKey(event) {
  event.preventDefault();
  const value = byId("key").value.trim();
  if (value === "" || /[^\x21-\x7e]/.test(value)) {
    showKeyForm("A key is made of letters, digits and marks, without white space.");
    return;
  }
  useKey(value);
  byId("key").value = "";
  byId("key-card").hidden = true;
  byId("forget-key").hidden = false;
  byId("run").focus();
  const next = afterKey;
  afterKey = null;
  next?.();
}

function forgetKey() {
  useKey(null);
  byId("forget-key").hidden = true;
  clearMistakes();
  byId("main").focus();
  say("The API key is forgotten.");
}

start();
